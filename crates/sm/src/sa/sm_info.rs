//! SMInfoRecord (IBA 15.2.5.10) and the SA's ClassPortInfo (15.2.4): the managers, and the administrator's
//! capabilities.

use weft_wire::mad::sa::{CLASS_VERSION, Capability, SmInfoRecord};
use weft_wire::mad::{ClassPortInfo, GSI_QKEY, GSI_QPN, MadHeader};

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::question::Question;
use super::world::World;

/// CapabilityMask2: full PortInfo records, extended speeds, alias GUIDs, multicast group services, PortInfo queries by
/// CapabilityMask2, send-only full members, 2x link width, HDR.
const CAPABILITIES2: u32 = 0xb5e0;
/// CapabilityMask2: paths respect QoS.
const QOS: u32 = 1 << 1;
/// CapabilityMask2: the manager writes MulticastFDBTop to switches.
const MULTICAST_TOP: u32 = 1 << 3;
/// The smallest response time code to report.
const RESPONSE_TIME_LEAST: u8 = 8;

/// The smallest code of a time (4.096 us * 2^n) that is at least this many milliseconds.
fn response_time(ms: u32) -> u8 {
    let fits = |code: &u8| (4096_u64 << code) / 1_000_000 >= u64::from(ms);
    (RESPONSE_TIME_LEAST..31).find(fits).unwrap_or(31)
}

impl Administrator {
    /// Answers SMInfoRecord.
    pub(super) fn sm_info_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: SmInfoRecord = question.record()?;
        let mask = question.mask();
        let is = |component, same: bool| !mask.contains(component) || same;
        for manager in world.managers {
            let Some((place, entry)) = self.index.at_guid(manager.guid) else { continue };
            let entry = *entry;
            let info = weft_wire::mad::subn::SmInfo { sm_key: 0, ..*manager };
            if is(SmInfoRecord::LID, entry.lids().contains(&asked.lid))
                && is(SmInfoRecord::GUID, asked.sm_info.guid == info.guid)
                && is(SmInfoRecord::PRIORITY, asked.sm_info.priority == info.priority)
                && is(SmInfoRecord::SM_STATE, asked.sm_info.state == info.state)
                && self.index.share(question.requester, place)
                && !answer.push(&SmInfoRecord { lid: entry.lid, sm_info: info })
            {
                break;
            }
        }
        Ok(())
    }

    /// Answers ClassPortInfo.
    pub(super) fn class_port_info(&mut self, world: &World<'_>, answer: &mut Answer) -> Outcome {
        let mut can = Capability::MULTIPATH | Capability::PORT_INFO_CAPABILITY_MASK_MATCH;
        can.set(Capability::UD_MULTICAST, !world.settings.disable_multicast);
        let qos = if world.settings.qos { QOS } else { 0 };
        let top = if world.settings.use_mfttop { MULTICAST_TOP } else { 0 };
        answer.push(&ClassPortInfo {
            base_version: MadHeader::BASE_VERSION,
            class_version: CLASS_VERSION,
            capability_mask: can.bits() | ClassPortInfo::NOTICE,
            capability_mask2: CAPABILITIES2 | qos | top,
            resp_time_value: response_time(world.settings.transaction_timeout_ms),
            redirect_qp: GSI_QPN,
            redirect_qkey: GSI_QKEY,
            trap_qkey: GSI_QKEY,
            ..ClassPortInfo::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_are_rounded_up() {
        for (ms, code) in [(1, 8), (2, 9), (33, 13), (34, 14), (200, 16), (268, 16), (269, 17), (u32::MAX, 31)] {
            assert_eq!(response_time(ms), code, "{ms} ms");
        }
    }
}
