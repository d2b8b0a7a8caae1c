//! PortCounters and PortCountersExtended: reading, adding up and resetting.

use serde_json::json;

use super::session::{MASK, Session};
use crate::ib::field::{self, Field};
use crate::ib::fields::perf::{port_counters as plain, port_counters_extended as extended};
use crate::ib::pma::{self, ALL_PORTS, Data};
use crate::ib::report::{End, Outcome, verbose, warn};

/// Fields of the unicast and multicast counters.
const IETF: std::ops::Range<usize> = 6..10;

/// Reads the counters of ports; prints each port's counters, or their sum.
pub fn read(session: &mut Session<'_>, numbers: &[u8], is_aggregate: bool) -> Outcome<()> {
    let mut sum: Option<Data> = None;
    let fields = fields_of(session);
    for &number in numbers {
        let data = read_one(session, number)?;
        if is_aggregate {
            add(&fields, sum.get_or_insert([0; pma::DATA_LEN]), &data);
        } else {
            print(session, number, &data);
        }
    }
    if let Some(sum) = sum {
        print(session, ALL_PORTS, &sum);
    }
    Ok(())
}

fn read_one(session: &mut Session<'_>, number: u8) -> Outcome<Data> {
    let (to, timeout_ms) = (session.to, session.timeout_ms());
    if session.line.has('x') {
        if session.cap_mask & (pma::CAP_EXT_WIDTH | pma::CAP_EXT_WIDTH_NOIETF) == 0 {
            let mask = session.cap_mask;
            let text = format!("PerfMgt ClassPortInfo CapMask 0x{mask:02X}; No extended counter support indicated\n");
            warn("dump_perfcounters", &text);
        }
        let data = session.port.pma_get(&to, pma::COUNTERS_EXTENDED, number, timeout_ms);
        return data.map_err(|_| End::failed("perfextquery"));
    }
    let data = session.port.pma_get(&to, pma::COUNTERS, number, timeout_ms);
    let mut data = data.map_err(|_| End::failed("perfquery"))?;
    if session.cap_mask & pma::CAP_XMIT_WAIT == 0 {
        if session.line.common.verbose > 0 {
            verbose("dump_perfcounters", "PortXmitWait not indicated so ignore this counter");
        }
        plain::PORT_XMIT_WAIT.set(&mut data, 0);
    }
    Ok(data)
}

/// The fields that the node supports.
fn fields_of(session: &Session<'_>) -> Vec<Field> {
    if !session.line.has('x') {
        return plain::ALL.to_vec();
    }
    let additional = extended::ALL.iter().position(|f| *f == extended::COUNTER_SELECT2).unwrap_or(IETF.end);
    let mut fields = extended::ALL[..IETF.start].to_vec();
    if session.cap_mask & pma::CAP_EXT_WIDTH != 0 {
        fields.extend_from_slice(&extended::ALL[IETF]);
    }
    if session.cap_mask2 & pma::CAP2_ADDITIONAL_EXT != 0 {
        fields.extend_from_slice(&extended::ALL[additional..]);
    }
    fields
}

/// Adds counters, each limited to its field's maximum; counter selections come from the last port.
fn add(fields: &[Field], sum: &mut Data, data: &Data) {
    const SELECTS: &[Field] =
        &[plain::COUNTER_SELECT, plain::COUNTER_SELECT2, extended::COUNTER_SELECT, extended::COUNTER_SELECT2];
    for field in fields {
        let (before, now) = (field.value(sum), field.value(data));
        let most = u64::MAX >> (64 - field.span.width());
        let value = if SELECTS.contains(field) { now } else { before.saturating_add(now).min(most) };
        field.set(sum, value);
    }
    plain::PORT_SELECT.set(sum, u64::from(ALL_PORTS));
}

fn print(session: &mut Session<'_>, number: u8, data: &Data) {
    let fields = fields_of(session);
    let (to, mask, mask2) = (session.to, session.cap_mask, session.cap_mask2);
    let lines = field::lines(&fields, data);
    let text = if session.line.has('x') {
        format!("# Port extended counters: {to} port {number} (CapMask: 0x{mask:02X} CapMask2: 0x{mask2:07X})\n{lines}")
    } else {
        format!("# Port counters: {to} port {number} (CapMask: 0x{mask:02X})\n{lines}")
    };
    let json = json!({"address": to.to_string(), "port": number, "counters": field::json(&fields, data)});
    session.tell(&text, json);
}

/// Resets the counters of ports.
pub fn reset(session: &mut Session<'_>, numbers: &[u8]) -> Outcome<()> {
    let is_extended = session.line.has('x');
    let mask = reset_mask(session.mask, is_extended, session.cap_mask);
    let (attribute, failure) = match is_extended {
        true => (pma::COUNTERS_EXTENDED, "perf ext reset"),
        false => (pma::COUNTERS, "perf reset"),
    };
    let (to, timeout_ms) = (session.to, session.timeout_ms());
    for &number in numbers {
        let answer = session.port.pma_reset(&to, attribute, number, mask, timeout_ms);
        answer.map_err(|_| End::failed(failure))?;
    }
    Ok(())
}

/// The counters to reset: those in the command line, or all that the node has.
fn reset_mask(typed: Option<u64>, is_extended: bool, cap_mask: u16) -> u32 {
    let mut mask = typed.unwrap_or(MASK) as u32;
    let has = |bit: u16| cap_mask & bit != 0;
    if is_extended {
        mask |= 0x0fff_0000;
        mask |= u32::from(has(pma::CAP_XMIT_WAIT)) << 28;
        mask |= u32::from(has(pma::CAP_QP1_DROPPED)) << 29;
    } else if typed.is_none() {
        mask |= u32::from(has(pma::CAP_XMIT_WAIT)) << 16;
        mask |= u32::from(has(pma::CAP_QP1_DROPPED)) << 17;
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stop_at_what_a_field_holds() {
        let mut sum = [0; pma::DATA_LEN];
        let mut data = [0; pma::DATA_LEN];
        plain::LINK_DOWNED_COUNTER.set(&mut data, 200);
        plain::LOCAL_LINK_INTEGRITY_ERRORS.set(&mut data, 9);
        plain::PORT_XMIT_DATA.set(&mut data, 7);
        plain::PORT_SELECT.set(&mut data, 3);
        add(plain::ALL, &mut sum, &data);
        add(plain::ALL, &mut sum, &data);
        assert_eq!(plain::LINK_DOWNED_COUNTER.value(&sum), 255);
        assert_eq!(plain::LOCAL_LINK_INTEGRITY_ERRORS.value(&sum), 15);
        assert_eq!((plain::PORT_XMIT_DATA.value(&sum), plain::PORT_SELECT.value(&sum)), (14, 255));
    }

    #[test]
    fn masks_name_what_the_node_has() {
        assert_eq!(reset_mask(None, false, 0), 0xffff);
        assert_eq!(reset_mask(None, false, pma::CAP_XMIT_WAIT | pma::CAP_QP1_DROPPED), 0x3_ffff);
        assert_eq!(reset_mask(Some(0xf), false, pma::CAP_XMIT_WAIT), 0xf);
        assert_eq!(reset_mask(Some(0xf), true, pma::CAP_XMIT_WAIT), 0x1fff_000f);
    }
}
