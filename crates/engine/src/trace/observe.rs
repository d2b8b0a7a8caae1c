//! Changes of queue pairs since the last comparison: states, paths, and the counters of errors and copies. The state
//! machines know nothing of tracing; a comparison shows all changes, and costs nothing while the trace is off.

use std::collections::BTreeMap;
use std::fmt;

use weft_hca::QpSummary;
use weft_transport::QpStats;
use weft_verbs::QpState;

use super::Kind;

/// Traced counters, each with its kind of line.
const TOLD: &[(&str, Kind)] = &[
    ("retransmits", Kind::Loss),
    ("timeouts", Kind::Loss),
    ("probes", Kind::Loss),
    ("sequence_naks_sent", Kind::Loss),
    ("sequence_naks_received", Kind::Loss),
    ("rnr_naks_sent", Kind::Loss),
    ("rnr_naks_received", Kind::Loss),
    ("out_of_order", Kind::Loss),
    ("duplicates", Kind::Loss),
    ("implied_naks", Kind::Loss),
    ("dropped", Kind::Loss),
    ("qkey_violations", Kind::Loss),
    ("ring_frames_sent", Kind::Copy),
    ("ring_bytes_sent", Kind::Copy),
    ("ring_frames_received", Kind::Copy),
    ("ring_bytes_received", Kind::Copy),
    ("ring_frames_resent", Kind::Copy),
    ("ring_frames_skipped", Kind::Copy),
    ("memcpy_ops", Kind::Copy),
    ("memcpy_bytes", Kind::Copy),
    ("process_vm_ops", Kind::Copy),
    ("process_vm_bytes", Kind::Copy),
];

#[derive(Clone, Copy, Debug)]
struct Seen {
    state: QpState,
    path: &'static str,
    posted: (u64, u64),
    stats: QpStats,
    /// The comparison that last saw it.
    look: u64,
}

/// The queue pairs at the last comparison.
#[derive(Debug, Default)]
pub(super) struct Observer {
    seen: BTreeMap<u32, Seen>,
    looks: u64,
}

impl Observer {
    /// Compares all queue pairs, and reports the differences.
    pub fn look(&mut self, qps: impl Iterator<Item = QpSummary>, tell: &mut dyn FnMut(Kind, u32, fmt::Arguments<'_>)) {
        self.looks += 1;
        let look = self.looks;
        for qp in qps {
            let posted = (qp.posted_sends, qp.posted_recvs);
            let now = Seen { state: qp.state, path: qp.path, posted, stats: qp.stats, look };
            match self.seen.insert(qp.qpn, now) {
                Some(before) => differences(qp.qpn, &before, &now, tell),
                None => {
                    tell(Kind::State, qp.qpn, format_args!("made type={:?} state={:?}", qp.qp_type, qp.state));
                }
            }
        }
        self.seen.retain(|&qpn, seen| {
            if seen.look != look {
                tell(Kind::State, qpn, format_args!("destroyed state={:?}", seen.state));
            }
            seen.look == look
        });
    }
}

fn differences(qpn: u32, before: &Seen, now: &Seen, tell: &mut dyn FnMut(Kind, u32, fmt::Arguments<'_>)) {
    if before.state != now.state {
        tell(Kind::State, qpn, format_args!("from={:?} to={:?}", before.state, now.state));
    }
    let chosen = now.state == QpState::Rtr && before.state != QpState::Rtr;
    if before.path != now.path || chosen {
        tell(Kind::Path, qpn, format_args!("path={}", now.path));
    }
    let (sends, recvs) = (now.posted.0.saturating_sub(before.posted.0), now.posted.1.saturating_sub(before.posted.1));
    if sends + recvs > 0 {
        tell(Kind::Post, qpn, format_args!("sends={sends} recvs={recvs}"));
    }
    if before.stats == now.stats {
        return;
    }
    for ((name, value), (_, earlier)) in now.stats.values().zip(before.stats.values()) {
        if value > earlier
            && let Some((_, kind)) = TOLD.iter().find(|(told, _)| *told == name)
        {
            tell(*kind, qpn, format_args!("{name}=+{}", value - earlier));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::{DeviceId, QpCap, QpId, QpType};

    fn qp(state: QpState, path: &'static str, retransmits: u64) -> QpSummary {
        QpSummary {
            id: QpId { index: 0, generation: 0 },
            qpn: 0x41,
            device: DeviceId(0),
            qp_type: QpType::Rc,
            state,
            dest_qpn: 0,
            peer: None,
            rq_psn: 0,
            sq_psn: 0,
            attr: weft_verbs::QpAttr::default(),
            pkey: 0xffff,
            slid: 0,
            cap: QpCap::default(),
            signals_all: false,
            has_srq: false,
            path,
            posted_sends: retransmits,
            posted_recvs: 0,
            round_trip: None,
            stats: QpStats { retransmits, ..QpStats::default() },
        }
    }

    #[test]
    fn what_changed_is_told_and_what_did_not_is_not() {
        let mut observer = Observer::default();
        let mut told = Vec::new();
        let looks = [
            Some(qp(QpState::Init, "wire", 0)),
            Some(qp(QpState::Init, "wire", 0)),
            Some(qp(QpState::Rtr, "wire", 0)),
            Some(qp(QpState::Rtr, "same-host", 3)),
            None,
        ];
        for look in looks {
            observer.look(look.into_iter(), &mut |kind, _, text| told.push(format!("{} {text}", kind.name())));
        }
        let expected = [
            "state made type=Rc state=Init",
            "state from=Init to=Rtr",
            "path path=wire",
            "path path=same-host",
            "post sends=3 recvs=0",
            "loss retransmits=+3",
            "state destroyed state=Rtr",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn every_counter_that_is_told_of_exists() {
        for (name, _) in TOLD {
            assert!(QpStats::default().values().any(|(known, _)| known == *name), "{name}");
        }
    }
}
