//! Notices forwarded to subscribers (IBA 13.4.11). Each is a report, repeated until acknowledged or given up; a limited
//! number is in flight at once, the rest wait in a queue.

use weft_verbs::Instant;
use weft_wire::mad::notice::{GidDetails, Notice, NoticeDetails, NoticeType, ProducerType, TrapNumber};
use weft_wire::mad::sa::{ComponentMask, McMemberRecord, SaMad};
use weft_wire::mad::{MadHeader, Method};
use zerocopy::{FromBytes, IntoBytes};

use super::limits::{REPORT_RETRIES, REPORT_TIMEOUT, REPORTS_LOST_MAX, REPORTS_UNDER_WAY_MAX, REPORTS_WAITING_MAX};
use super::pkeys;
use super::subscription::Subscription;
use super::world::World;
use super::{Administrator, Change};
use crate::io::{GmpOut, Peer};
use crate::multicast::guid_of;

impl Administrator {
    /// Reports a notice to its subscribers: a trap that the manager received, or a notice of its own. Fills in the
    /// issuer's GID if it is 0.
    pub fn notice(&mut self, now: Instant, world: &World<'_>, notice: &Notice) {
        let _ = now;
        self.refresh(now, world);
        let mut notice = *notice;
        if notice.issuer_gid == [0; 16]
            && let Some((_, entry)) = self.index.at_lid(notice.issuer_lid)
        {
            notice.issuer_gid = entry.gid();
        }
        let wanting = self.subscriptions.iter().filter(|(_, subscription)| subscription.wants(&notice));
        let wanting: Vec<u64> = wanting.map(|(key, _)| *key).collect();
        for key in wanting {
            match self.access(key, &notice) {
                Access::Allowed if self.reports.waiting.len() < REPORTS_WAITING_MAX => {
                    self.reports.waiting.push_back((key, Box::new(notice)));
                }
                Access::Allowed => self.reports.dropped += 1,
                Access::Denied => {}
                Access::Never => {
                    self.subscriptions.remove(&key);
                    self.changes.insert(Change::Cache);
                }
            }
        }
        self.send_reports();
    }

    /// Notifies subscribers of the creation or deletion of a group.
    pub(super) fn tell_of_group(
        &mut self,
        now: Instant,
        world: &World<'_>,
        number: TrapNumber,
        group: &McMemberRecord,
    ) {
        let own = world.subnet.own.and_then(|at| world.subnet.port(at));
        let details = NoticeDetails::Gid(number, GidDetails { gid: group.mgid });
        let lid = own.map_or(0, |port| port.info.lid);
        let mut notice = Notice::generic(NoticeType::SUBNET_MANAGEMENT, ProducerType::CLASS_MANAGER, lid, &details);
        notice.issuer_gid = own.map_or([0; 16], |port| super::index::gid(world.settings.subnet_prefix, port.guid));
        self.notice(now, world, &notice);
    }

    /// Whether a subscriber may receive a notice (IBA o13-17.1.1): about ports that it shares a partition with, and
    /// about groups in its partitions.
    fn access(&mut self, key: u64, notice: &Notice) -> Access {
        let Some(subscription) = self.subscriptions.get(&key) else { return Access::Denied };
        let everybody = subscription.record.inform_info.lid_range_begin == u16::MAX;
        let Some((subscriber, entry)) = self.index.at_lid(subscription.to.lid) else { return Access::Denied };
        let details = match notice.details() {
            Some(NoticeDetails::Gid(number, details)) => Some((number, details.gid)),
            _ => None,
        };
        let source = match details {
            Some((TrapNumber::MULTICAST_GROUP_CREATED | TrapNumber::MULTICAST_GROUP_DELETED, mgid)) => {
                let group = self.groups.get(&mgid).map(|group| group.record.pkey);
                let known = group.is_some_and(|pkey| pkeys::has(self.index.pkeys(entry), pkey));
                return if known { Access::Allowed } else { Access::Denied };
            }
            Some((_, gid)) => guid_of(&gid),
            None => guid_of(&notice.issuer_gid),
        };
        match self.index.at_guid(source).map(|(source, _)| source) {
            Some(source) if self.index.share(source, subscriber) => Access::Allowed,
            Some(_) if !everybody => Access::Never,
            Some(_) => Access::Denied,
            // Subscribers must still hear about a port that is gone.
            None if details.is_some() => Access::Allowed,
            None => Access::Denied,
        }
    }

    /// Sends queued reports, up to the limit in flight.
    pub(super) fn send_reports(&mut self) {
        while self.reports.under_way.len() < REPORTS_UNDER_WAY_MAX {
            let Some((key, notice)) = self.reports.waiting.pop_front() else { return };
            let Some(Subscription { to, .. }) = self.subscriptions.get(&key) else { continue };
            self.reports.last_tid = self.reports.last_tid.wrapping_add(1);
            let tid = self.reports.last_tid;
            self.reports.under_way.insert(tid, key);
            let report = SaMad::request(Method::REPORT, u64::from(tid), ComponentMask::NONE, &*notice);
            let bytes = report.as_bytes().to_vec();
            self.out.push_back(GmpOut { to: *to, bytes, timeout: REPORT_TIMEOUT, retries: REPORT_RETRIES });
        }
    }

    /// Handles the acknowledgment of a report.
    pub(super) fn on_report_response(&mut self, from: &Peer, mad: &SaMad) {
        let tid = mad.header.tid() as u32;
        let Some(key) = self.reports.under_way.get(&tid).copied() else { return };
        match self.subscriptions.get_mut(&key) {
            Some(subscription) if subscription.to.lid != from.lid => return,
            Some(subscription) => subscription.lost = 0,
            None => {}
        }
        self.reports.under_way.remove(&tid);
        self.send_reports();
    }

    /// Handles a datagram that stayed unanswered after all retries; `bytes` is its start. After a run of
    /// unacknowledged reports the subscription is dropped.
    pub fn handle_gmp_timeout(&mut self, now: Instant, bytes: &[u8]) {
        let _ = now;
        let Ok((header, _)) = MadHeader::read_from_prefix(bytes) else { return };
        if let Some(key) = self.reports.under_way.remove(&(header.tid() as u32))
            && let Some(subscription) = self.subscriptions.get_mut(&key)
        {
            subscription.lost += 1;
            if subscription.lost >= REPORTS_LOST_MAX {
                self.subscriptions.remove(&key);
                self.changes.insert(Change::Cache);
            }
        }
        self.send_reports();
    }
}

/// Access of a subscriber to a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Allowed,
    Denied,
    /// Denied for good: remove the subscription (IBA o13-17.1.2).
    Never,
}
