//! A subscription to notices (IBA 13.4.8.3).

use weft_wire::mad::notice::{InformInfo, Notice, ProducerType, TrapNumber};
use weft_wire::mad::sa::InformInfoRecord;

use crate::io::Peer;

/// LIDRangeBegin for notices from every LID.
pub(super) const EVERY_LID: u16 = 0xffff;

/// A subscriber and its subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Subscription {
    /// The subscriber and the notices it wants.
    pub record: InformInfoRecord,
    /// Destination of reports.
    pub to: Peer,
    /// Consecutive reports without an acknowledgment.
    pub lost: u32,
}

impl Subscription {
    /// Whether this is the same subscriber's subscription to the same notices.
    pub fn is(&self, to: &Peer, info: &InformInfo) -> bool {
        let own = &self.record.inform_info;
        let same_source = match info.gid != [0; 16] {
            true => own.gid == info.gid,
            false => {
                (own.lid_range_begin, own.lid_range_end) == (info.lid_range_begin, info.lid_range_end)
                    && own.gid == [0; 16]
            }
        };
        self.to.lid == to.lid
            && self.to.qpn == to.qpn
            && same_source
            && (own.is_generic == 0) == (info.is_generic == 0)
            && (own.inform_type, own.trap_number, own.producer_type)
                == (info.inform_type, info.trap_number, info.producer_type)
    }

    /// Whether the subscription matches a notice.
    pub fn wants(&self, notice: &Notice) -> bool {
        let info = &self.record.inform_info;
        let last = if info.lid_range_end == 0 { info.lid_range_begin } else { info.lid_range_end };
        let from = match info.gid != [0; 16] {
            true => info.gid == notice.issuer_gid,
            false => info.lid_range_begin == EVERY_LID || (info.lid_range_begin..=last).contains(&notice.issuer_lid),
        };
        let kind = info.inform_type == u16::MAX || info.inform_type == u16::from(notice.notice_type.0);
        let number = info.trap_number == TrapNumber::EVERY || info.trap_number == notice.trap_number;
        let producer = info.producer_type == ProducerType::EVERY || info.producer_type == notice.producer_type;
        (info.is_generic != 0) == notice.is_generic && from && kind && number && producer
    }
}
