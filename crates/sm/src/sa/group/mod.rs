//! MCMemberRecord (IBA 15.2.5.17): a multicast group begins with its first full member and ends with its last one.

mod create;
mod join;
mod leave;
mod query;

use weft_wire::mad::Method;
use weft_wire::mad::sa::{ComponentMask, McMemberRecord, Selector};

use super::answer::{Answer, Outcome, Refusal};
use super::index::{is_rate, rank};
use super::question::Question;
use super::world::World;
use super::{Administrator, is_mtu};
use crate::multicast::prefix_of;
use weft_verbs::Instant;

/// Components that every join and leave must name.
const JOIN: ComponentMask = McMemberRecord::MGID.or(McMemberRecord::PORT_GID).or(McMemberRecord::JOIN_STATE);
/// Components that a join must name to create a group.
const CREATE: ComponentMask = JOIN
    .or(McMemberRecord::QKEY)
    .or(McMemberRecord::TCLASS)
    .or(McMemberRecord::PKEY)
    .or(McMemberRecord::FLOW_LABEL)
    .or(McMemberRecord::SL);

impl Administrator {
    /// Answers MCMemberRecord.
    pub(super) fn mc_member_records(
        &mut self,
        now: Instant,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let record: McMemberRecord = question.record()?;
        let mask = question.mask();
        let changes = matches!(question.mad.header.method(), Method::SET | Method::DELETE);
        if changes && !mask.contains(JOIN) {
            return Err(Refusal::INSUFFICIENT);
        }
        let names = |a, b| mask.contains(a | b);
        if names(McMemberRecord::RATE_SELECTOR, McMemberRecord::RATE) && !is_rate(record.rate)
            || names(McMemberRecord::MTU_SELECTOR, McMemberRecord::MTU) && !is_mtu(record.mtu)
        {
            return Err(Refusal::INVALID);
        }
        match question.mad.header.method() {
            Method::SET => self.join(now, world, question, &record, answer),
            Method::DELETE => self.leave(now, world, question, &record, answer),
            _ => self.query_groups(question, &record, answer),
        }
    }

    /// The port GID of a join or a leave, with the subnet's prefix.
    fn port_gid(&self, world: &World<'_>, record: &McMemberRecord) -> Result<[u8; 16], Refusal> {
        let prefix = prefix_of(&record.port_gid);
        if prefix != LINK_LOCAL && prefix != world.settings.subnet_prefix {
            return Err(Refusal::INVALID_GID);
        }
        let guid = crate::multicast::guid_of(&record.port_gid);
        Ok(super::index::gid(world.settings.subnet_prefix, guid))
    }
}

/// The link-local subnet prefix, which every port has.
const LINK_LOCAL: u64 = 0xfe80_0000_0000_0000;

/// Whether a value satisfies a selector.
fn fits(value: u8, selector: Selector, wanted: u8) -> bool {
    match selector {
        Selector::GREATER_THAN => value > wanted,
        Selector::LESS_THAN => value < wanted,
        Selector::EXACTLY => value == wanted,
        _ => true,
    }
}

/// Whether a group's MTU and rate match the request.
fn carries_fit(group: &McMemberRecord, asked: &McMemberRecord, mask: ComponentMask) -> bool {
    let mtu = !mask.contains(McMemberRecord::MTU_SELECTOR) || fits(group.mtu, asked.mtu_selector, asked.mtu);
    let rate =
        !mask.contains(McMemberRecord::RATE_SELECTOR) || fits(rank(group.rate), asked.rate_selector, rank(asked.rate));
    mtu && rate
}

/// Whether a group's other properties match the request.
fn properties_fit(group: &McMemberRecord, asked: &McMemberRecord, mask: ComponentMask) -> bool {
    let names = |component| mask.contains(component);
    let pkeys = group.pkey & 0x7fff == asked.pkey & 0x7fff && (group.pkey | asked.pkey) & 0x8000 != 0;
    (!names(McMemberRecord::QKEY) || group.qkey == asked.qkey)
        && (!names(McMemberRecord::PKEY) || pkeys)
        && (!names(McMemberRecord::TCLASS) || group.tclass == asked.tclass)
        && (!names(McMemberRecord::SL) || group.sl == asked.sl)
        && (!names(McMemberRecord::FLOW_LABEL) || group.flow_label == asked.flow_label)
        && (!names(McMemberRecord::HOP_LIMIT) || group.hop_limit == asked.hop_limit)
}

/// The record with the selectors of a response.
fn exact(record: McMemberRecord) -> McMemberRecord {
    McMemberRecord {
        mtu_selector: Selector::EXACTLY,
        rate_selector: Selector::EXACTLY,
        packet_life_time_selector: Selector::EXACTLY,
        ..record
    }
}
