//! The process's counters and objects, written to its ledger for readers (`weft stat`, `weft qp`, sysfs). The counters
//! themselves are plain numbers under the pump's lock. Only the background thread comes here; it copies them out now
//! and then while there is activity, on request, and at the end. An idle process is not woken.

use weft_hca::PortCounters;
use weft_ipc::LEDGER_DEVICES_MAX;
use weft_ipc::LEDGER_QPS_MAX;
use weft_ipc::PATHS_MAX;
use weft_ipc::stat::{
    CountersPage, DeviceCounters, DeviceObjects, ObjectsPage, PathName, ProcessCounters, QpCounters, QpInfo,
};
use weft_link::LinkStats;
use weft_transport::QpStats;
use weft_verbs::{DeviceId, Instant, QpState};

use crate::adapter::Adapter;
use crate::driver::Tally;
use crate::instruments::{Instruments, LedgerUpdate};
use crate::pump::Pump;
use crate::streams::Streams;

impl Pump {
    /// Returns the pages for the ledger, if they are due; `asked`: a reader waits for them. `contexts` returns how
    /// often a device is open.
    pub fn poll_ledger(
        &mut self,
        now: Instant,
        tally: Tally,
        asked: bool,
        contexts: impl Fn(DeviceId) -> u32,
    ) -> Option<LedgerUpdate> {
        let sent = self.stack.stats().tx_packets;
        if !self.instruments.is_due(now, tally, sent, asked) {
            return None;
        }
        Some(LedgerUpdate {
            counters: self.counters(),
            objects: asked.then(|| objects(&self.hca, &self.streams, contexts)),
        })
    }

    fn counters(&self) -> CountersPage {
        let all = self.hca.devices().map(|(id, _)| (id.0, device_counters(&self.hca.counters(id))));
        let moved = all.filter(|(_, counters)| *counters != DeviceCounters::default());
        CountersPage {
            devices: moved.take(LEDGER_DEVICES_MAX).collect(),
            process: process_counters(&self.instruments, self.stack.stats()),
        }
    }
}

fn device_counters(port: &PortCounters) -> DeviceCounters {
    let (hw, qps) = (&port.hw, &port.qps);
    DeviceCounters {
        sent_pkts: port.xmit_packets,
        rcvd_pkts: port.rcv_packets,
        sent_bytes: port.xmit_bytes,
        rcvd_bytes: port.rcv_bytes,
        multicast_sent_pkts: port.xmit_multicast,
        multicast_rcvd_pkts: port.rcv_multicast,
        duplicate_request: hw.duplicate_request,
        out_of_seq_request: hw.out_of_seq_request,
        rcvd_rnr_err: hw.rcvd_rnr_err,
        send_rnr_err: hw.send_rnr_err,
        rcvd_seq_err: hw.rcvd_seq_err,
        send_seq_err: qps.sequence_naks_sent,
        ack_deferred: hw.ack_deferred,
        retry_exceeded_err: hw.retry_exceeded_err,
        retry_rnr_exceeded_err: hw.retry_rnr_exceeded_err,
        completer_retry_err: hw.completer_retry_err,
        send_err: hw.send_err,
        link_downed: hw.link_downed,
        rdma_sends: hw.rdma_sends,
        rdma_recvs: hw.rdma_recvs,
        retransmitted_pkts: qps.retransmits,
        probes: qps.probes,
        implied_nak_seq_err: qps.implied_naks,
        dropped_pkts: qps.dropped,
        qkey_violations: qps.qkey_violations,
        bad_qpn: port.bad_qpn,
        bad_pkey: port.bad_pkey,
        bad_address: port.bad_address,
        cqes: port.cqes,
        cqe_errors: port.cqe_errors,
        cqe_flushes: port.cqe_flushes,
        cq_events: port.cq_events,
        wire_bytes_sent: qps.tx_bytes,
        wire_bytes_rcvd: qps.rx_bytes,
        memcpy_ops: qps.memcpy_ops,
        memcpy_bytes: qps.memcpy_bytes,
        process_vm_ops: qps.process_vm_ops,
        process_vm_bytes: qps.process_vm_bytes,
        ring_frames_sent: qps.ring_frames_sent,
        ring_bytes_sent: qps.ring_bytes_sent,
        ring_frames_rcvd: qps.ring_frames_received,
        ring_bytes_rcvd: qps.ring_bytes_received,
        ring_frames_resent: qps.ring_frames_resent,
        ring_frames_skipped: qps.ring_frames_skipped,
    }
}

fn process_counters(own: &Instruments, link: &LinkStats) -> ProcessCounters {
    ProcessCounters {
        icrc_errors: link.rx_icrc_errors,
        malformed: link.rx_malformed,
        misrouted: link.rx_misrouted,
        tx_refused: link.tx_refused,
        tx_unresolved: link.tx_unresolved,
        tx_unmapped: link.tx_unmapped,
        tx_delayed: link.tx_delayed,
        tx_overflowed: link.tx_overflowed,
        tx_messages: link.tx_messages,
        rx_messages: link.rx_messages,
        wakeups: own.wakeups,
        channel_wakeups: own.channel_wakeups,
        polls: own.polls,
        poll_turns: own.turns,
        posts: own.posts,
    }
}

fn qp_counters(qp: &QpStats) -> QpCounters {
    QpCounters {
        sent_pkts: qp.tx_packets,
        rcvd_pkts: qp.rx_packets,
        wire_bytes_sent: qp.tx_bytes,
        wire_bytes_rcvd: qp.rx_bytes,
        retransmitted_pkts: qp.retransmits,
        completer_retry_err: qp.timeouts,
        rcvd_rnr_err: qp.rnr_naks_received,
        send_rnr_err: qp.rnr_naks_sent,
        rcvd_seq_err: qp.sequence_naks_received,
        out_of_seq_request: qp.out_of_order,
        duplicate_request: qp.duplicates,
        dropped_pkts: qp.dropped,
        memcpy_ops: qp.memcpy_ops,
        memcpy_bytes: qp.memcpy_bytes,
        process_vm_ops: qp.process_vm_ops,
        process_vm_bytes: qp.process_vm_bytes,
        ring_frames_sent: qp.ring_frames_sent,
        ring_bytes_sent: qp.ring_bytes_sent,
        ring_frames_rcvd: qp.ring_frames_received,
        ring_bytes_rcvd: qp.ring_bytes_received,
        ring_frames_resent: qp.ring_frames_resent,
        ring_frames_skipped: qp.ring_frames_skipped,
    }
}

/// Whether a queue pair in this state has chosen its path to a peer.
fn is_on_its_way(state: QpState) -> bool {
    !matches!(state, QpState::Reset | QpState::Init)
}

fn objects(hca: &Adapter, streams: &Streams, contexts: impl Fn(DeviceId) -> u32) -> ObjectsPage {
    let ids: Vec<DeviceId> = hca.devices().map(|(id, _)| id).collect();
    let mut devices: Vec<DeviceObjects> = Vec::new();
    for id in ids {
        let usage = hca.usage_of(id);
        let ctx = contexts(id);
        if usage == Default::default() && ctx == 0 || devices.len() == LEDGER_DEVICES_MAX {
            continue;
        }
        let mut paths: Vec<(PathName, u32)> = Vec::new();
        for qp in hca.qps().filter(|qp| qp.device == id && is_on_its_way(qp.state)) {
            let path = PathName::from(qp.path);
            if let Some((_, count)) = paths.iter_mut().find(|(known, _)| *known == path) {
                *count += 1;
            } else if paths.len() < PATHS_MAX {
                paths.push((path, 1));
            }
        }
        let weft_hca::HcaUsage { pd, cq, qp, mr, srq } = usage;
        devices.push(DeviceObjects { device: id.0, pd, cq, qp, mr, ctx, srq, paths });
    }
    let qps = hca.qps().take(LEDGER_QPS_MAX).map(|qp| {
        let connected = qp.qp_type.is_connected();
        QpInfo {
            device: qp.device.0,
            qpn: qp.qpn,
            dest_qpn: (connected && is_on_its_way(qp.state)).then_some(qp.dest_qpn),
            qp_type: qp.qp_type as u8,
            state: qp.state as u8,
            rq_psn: qp.rq_psn,
            sq_psn: qp.sq_psn,
            peer: qp.peer.map(|av| av.dgid.0),
            path: if is_on_its_way(qp.state) { qp.path.into() } else { PathName::default() },
            posted_sends: qp.posted_sends,
            posted_recvs: qp.posted_recvs,
            round_trip_ns: qp
                .round_trip
                .or_else(|| streams.round_trip(qp.id))
                .map_or(0, |round_trip| round_trip.as_nanos() as u64),
            counters: qp_counters(&qp.stats),
        }
    });
    ObjectsPage { devices, qps: qps.collect() }
}
