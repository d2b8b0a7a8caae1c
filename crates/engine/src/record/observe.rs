//! Changes of queue pairs since the last comparison, as entries of the record.

use std::collections::BTreeMap;

use weft_hca::QpSummary;
use weft_record::{Address, Attributes, Capacity, Event, Framing, PathKind, counters};
use weft_transport::QpStats;
use weft_verbs::{AddressVector, GidType, QpCap, QpId, QpState, QpType};

#[derive(Clone, Copy, Debug)]
struct Seen {
    id: QpId,
    state: QpState,
    attributes: Attributes,
    peer: Option<AddressVector>,
    stats: QpStats,
    /// The last comparison of all queue pairs before it was seen.
    comparison: u64,
}

/// The queue pairs at the last comparison.
#[derive(Debug, Default)]
pub struct Observer {
    seen: BTreeMap<u32, Seen>,
    comparisons: u64,
}

impl Observer {
    /// Compares all queue pairs, and passes on the differences.
    pub fn compare_all(&mut self, qps: impl Iterator<Item = QpSummary>, put: &mut dyn FnMut(u32, Event)) {
        self.comparisons += 1;
        for qp in qps {
            self.compare(&qp, put);
        }
        let comparison = self.comparisons;
        self.seen.retain(|&qpn, seen| {
            if seen.comparison != comparison {
                put(qpn, Event::Destroyed);
            }
            seen.comparison == comparison
        });
    }

    /// Compares one queue pair, and passes on the differences.
    pub fn compare(&mut self, qp: &QpSummary, put: &mut dyn FnMut(u32, Event)) {
        let now = seen(qp, self.comparisons);
        match self.seen.insert(qp.qpn, now) {
            Some(before) if before.id == qp.id => differences(qp, &before, &now, put),
            before => {
                if before.is_some() {
                    put(qp.qpn, Event::Destroyed);
                }
                put(qp.qpn, Event::Created { qp_type: code(qp.qp_type), device: qp.device.0 });
                put(qp.qpn, Event::Capacity(capacity(qp)));
                let made = Seen {
                    state: QpState::Reset,
                    attributes: Attributes::default(),
                    peer: None,
                    stats: QpStats::default(),
                    ..now
                };
                differences(qp, &made, &now, put);
            }
        }
    }

    /// Returns the number of queue pairs.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Returns the path of a queue pair to its peer.
    pub fn peer(&self, qpn: u32) -> Option<AddressVector> {
        self.seen.get(&qpn)?.peer
    }

    /// Returns the number of a queue pair.
    pub fn number(&self, id: QpId) -> Option<u32> {
        self.seen.iter().find(|(_, seen)| seen.id == id).map(|(qpn, _)| *qpn)
    }
}

/// `IBV_QPT_*`.
fn code(kind: QpType) -> u8 {
    kind as u8
}

fn seen(qp: &QpSummary, comparison: u64) -> Seen {
    let attr = &qp.attr;
    let attributes = Attributes {
        dest_qpn: qp.dest_qpn,
        mtu: attr.path_mtu.bytes() as u16,
        pkey: qp.pkey,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        min_rnr_timer: attr.min_rnr_timer,
        port: attr.port_num,
        // The current PSNs change with each packet; those of the set-up are in the first record.
        rq_psn: qp.rq_psn,
        sq_psn: qp.sq_psn,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        access: attr.qp_access.bits(),
    };
    Seen { id: qp.id, state: qp.state, attributes, peer: qp.peer, stats: qp.stats, comparison }
}

fn capacity(qp: &QpSummary) -> Capacity {
    let QpCap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data } = qp.cap;
    let QpSummary { signals_all, has_srq, .. } = *qp;
    Capacity { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, signals_all, has_srq }
}

fn address(qp: &QpSummary, path: &AddressVector) -> Address {
    let AddressVector { sgid, dgid, dlid, is_global, gid_type, .. } = *path;
    let framing = match gid_type {
        _ if dlid != 0 => Framing::InfiniBand,
        GidType::IbOrRoceV1 => Framing::RoceV1,
        GidType::RoceV2 => Framing::RoceV2,
    };
    Address { sgid, dgid, dlid, is_global: is_global || dlid == 0, framing, slid: qp.slid }
}

fn differences(qp: &QpSummary, before: &Seen, now: &Seen, put: &mut dyn FnMut(u32, Event)) {
    let qpn = qp.qpn;
    let has_moved = before.state != now.state;
    if has_moved {
        let path = match qp.path {
            "wire" => PathKind::Wire,
            "tcp" => PathKind::Tcp,
            _ => PathKind::SameHost,
        };
        put(qpn, Event::State { from: before.state as u8, to: now.state as u8, path });
    }
    let expected = Attributes { rq_psn: now.attributes.rq_psn, sq_psn: now.attributes.sq_psn, ..before.attributes };
    // Before INIT they are the adapter's defaults.
    let is_set = now.state != QpState::Reset;
    if is_set && expected != now.attributes || has_moved && matches!(now.state, QpState::Rtr | QpState::Rts) {
        put(qpn, Event::Attributes(now.attributes));
    }
    if let Some(peer) = now.peer.filter(|_| before.peer != now.peer) {
        put(qpn, Event::Address(address(qp, &peer)));
    }
    if before.stats == now.stats {
        return;
    }
    for ((name, value), (_, earlier)) in now.stats.values().zip(before.stats.values()) {
        if value > earlier
            && let Some(counter) = counters::of_queue_pair(name)
        {
            put(qpn, Event::Counted { counter, amount: value - earlier });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::{DeviceId, QpAttr};

    fn qp(generation: u32, state: QpState, timeouts: u64) -> QpSummary {
        let attr = QpAttr { timeout: 14, ..QpAttr::default() };
        QpSummary {
            id: QpId { index: 0, generation },
            qpn: 0x41,
            device: DeviceId(0),
            qp_type: QpType::Rc,
            state,
            dest_qpn: 7,
            peer: None,
            rq_psn: 0,
            sq_psn: timeouts as u32,
            attr,
            pkey: 0xffff,
            slid: 0,
            cap: QpCap { max_send_wr: 16, ..QpCap::default() },
            signals_all: true,
            has_srq: false,
            path: "wire",
            posted_sends: timeouts,
            posted_recvs: 0,
            round_trip: None,
            stats: QpStats { timeouts, ..QpStats::default() },
        }
    }

    #[test]
    fn a_comparison_records_changes() {
        let mut observer = Observer::default();
        let mut compare = |qp: Option<QpSummary>| {
            let mut events = Vec::new();
            observer.compare_all(qp.into_iter(), &mut |_, event| events.push(event));
            events
        };
        let made = compare(Some(qp(0, QpState::Init, 0)));
        assert_eq!(made[0], Event::Created { qp_type: 2, device: 0 });
        let capacity = Capacity { max_send_wr: 16, signals_all: true, ..Capacity::default() };
        assert_eq!(made[1], Event::Capacity(capacity));
        assert_eq!(made[2], Event::State { from: 0, to: 1, path: PathKind::Wire });
        assert!(matches!(made[3], Event::Attributes(Attributes { dest_qpn: 7, timeout: 14, pkey: 0xffff, .. })));
        assert_eq!(compare(Some(qp(0, QpState::Init, 0))), []);
        let counted = Event::Counted { counter: counters::of_queue_pair("timeouts").unwrap(), amount: 3 };
        assert_eq!(compare(Some(qp(0, QpState::Init, 3))), [counted]);
        let again = compare(Some(qp(1, QpState::Init, 0)));
        assert_eq!(
            again[..2],
            [Event::Destroyed, Event::Created { qp_type: 2, device: 0 }],
            "another of the same number"
        );
        assert_eq!(again[2], Event::Capacity(capacity));
        assert_eq!(compare(None), [Event::Destroyed]);
    }

    #[test]
    fn one_queue_pair_is_compared_without_the_others() {
        let mut observer = Observer::default();
        observer.compare_all([qp(0, QpState::Init, 0)].into_iter(), &mut |_, _| {});
        let mut events = Vec::new();
        let other = QpSummary { qpn: 0x42, ..qp(3, QpState::Reset, 0) };
        observer.compare(&other, &mut |qpn, event| events.push((qpn, event)));
        assert_eq!(events[0], (0x42, Event::Created { qp_type: 2, device: 0 }));
        assert!(matches!(events[1..], [(0x42, Event::Capacity(_))]), "{events:?}");
        assert_eq!(observer.len(), 2);
    }

    #[test]
    fn recorded_counters_exist() {
        let all: Vec<_> = QpStats::default().values().map(|(name, _)| name).collect();
        for name in counters::QUEUE_PAIR {
            assert!(all.contains(name), "{name}");
        }
    }
}
