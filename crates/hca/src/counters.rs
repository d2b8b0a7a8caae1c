//! Counters of a port, under their sysfs names, and the other counters that `weft stat` shows.

use weft_transport::{Datagram, QpStats, RxPacket, TxPacket};
use weft_verbs::{Wc, WcOpcode, WcStatus};
use weft_wire::MULTICAST_QPN;

/// Bytes that the ICRC adds to each packet.
const ICRC_LEN: u64 = 4;

/// Counters of transport events, under the names of Linux rxe's `hw_counters`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are rxe's.
pub struct HwCounters {
    pub sent_pkts: u64,
    pub rcvd_pkts: u64,
    pub duplicate_request: u64,
    pub out_of_seq_request: u64,
    pub rcvd_rnr_err: u64,
    pub send_rnr_err: u64,
    pub rcvd_seq_err: u64,
    pub ack_deferred: u64,
    pub retry_exceeded_err: u64,
    pub retry_rnr_exceeded_err: u64,
    pub completer_retry_err: u64,
    pub send_err: u64,
    pub link_downed: u64,
    pub rdma_sends: u64,
    pub rdma_recvs: u64,
}

impl HwCounters {
    /// Fills in the queue pairs' counters; the other counters are updated where completions are made.
    fn take_from(&mut self, qps: &QpStats) {
        self.sent_pkts = qps.tx_packets;
        self.rcvd_pkts = qps.rx_packets;
        self.duplicate_request = qps.duplicates;
        self.out_of_seq_request = qps.out_of_order;
        self.rcvd_rnr_err = qps.rnr_naks_received;
        self.send_rnr_err = qps.rnr_naks_sent;
        self.rcvd_seq_err = qps.sequence_naks_received;
        self.completer_retry_err = qps.timeouts;
    }

    fn on_completion(&mut self, wc: &Wc) {
        match wc.status {
            WcStatus::Success => match wc.opcode {
                WcOpcode::Send => self.rdma_sends += 1,
                WcOpcode::Recv => self.rdma_recvs += 1,
                _ => {}
            },
            WcStatus::RetryExcErr => self.retry_exceeded_err += 1,
            WcStatus::RnrRetryExcErr => self.retry_rnr_exceeded_err += 1,
            WcStatus::WrFlushErr => {}
            _ => self.send_err += 1,
        }
    }

    /// Returns all of them by name, in rxe's order.
    pub fn values(&self) -> [(&'static str, u64); 15] {
        [
            ("sent_pkts", self.sent_pkts),
            ("rcvd_pkts", self.rcvd_pkts),
            ("duplicate_request", self.duplicate_request),
            ("out_of_seq_request", self.out_of_seq_request),
            ("rcvd_rnr_err", self.rcvd_rnr_err),
            ("send_rnr_err", self.send_rnr_err),
            ("rcvd_seq_err", self.rcvd_seq_err),
            ("ack_deferred", self.ack_deferred),
            ("retry_exceeded_err", self.retry_exceeded_err),
            ("retry_rnr_exceeded_err", self.retry_rnr_exceeded_err),
            ("completer_retry_err", self.completer_retry_err),
            ("send_err", self.send_err),
            ("link_downed", self.link_downed),
            ("rdma_sends", self.rdma_sends),
            ("rdma_recvs", self.rdma_recvs),
        ]
    }
}

/// Counters of one device's port, as far as this process changed them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Bytes sent, BTH to ICRC.
    pub xmit_bytes: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Of these, to multicast groups.
    pub xmit_multicast: u64,
    /// Bytes received, BTH to ICRC.
    pub rcv_bytes: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Of these, sent to multicast groups.
    pub rcv_multicast: u64,
    /// Packets for a queue pair that does not exist.
    pub bad_qpn: u64,
    /// Packets of another partition.
    pub bad_pkey: u64,
    /// Packets from an address other than the peer's, or to an address that the device does not have.
    pub bad_address: u64,
    /// How often the port went down.
    pub link_downed: u64,
    /// Completions put on completion queues.
    pub cqes: u64,
    /// Of these, completions with an error, except flushed ones.
    pub cqe_errors: u64,
    /// Of these, flushed completions.
    pub cqe_flushes: u64,
    /// Completion events raised: wake-ups requested of completion channels.
    pub cq_events: u64,
    /// Transport events.
    pub hw: HwCounters,
    /// Counters of the queue pairs.
    pub qps: QpStats,
}

impl PortCounters {
    pub(crate) fn on_sent(&mut self, packets: &[TxPacket]) {
        for packet in packets {
            let padded = u64::from(packet.payload_len).next_multiple_of(4);
            self.xmit_bytes += u64::from(packet.header.end - packet.header.start) + padded + ICRC_LEN;
            self.xmit_multicast += u64::from(packet.dest_qpn == MULTICAST_QPN);
        }
        self.xmit_packets += packets.len() as u64;
    }

    pub(crate) fn on_sent_by_frame(&mut self, datagram: &Datagram<'_>) {
        let header = datagram.bth.opcode().info().map_or(0, |info| info.header_len as u64);
        self.xmit_bytes += header + u64::from(datagram.payload_len()).next_multiple_of(4) + ICRC_LEN;
        self.xmit_multicast += u64::from(datagram.target.remote_qpn == MULTICAST_QPN);
        self.xmit_packets += 1;
    }

    pub(crate) fn on_received(&mut self, rx: &RxPacket<'_>, multicast: bool) {
        let payload = (rx.packet.payload.len() + rx.packet.bth.pad_count()) as u64;
        self.rcv_bytes += rx.packet.info.header_len as u64 + payload + ICRC_LEN;
        self.rcv_packets += 1;
        self.rcv_multicast += u64::from(multicast);
    }

    /// Counts a completion.
    #[inline]
    pub(crate) fn on_completion(&mut self, wc: &Wc) {
        self.cqes += 1;
        match wc.status {
            WcStatus::Success => {}
            WcStatus::WrFlushErr => self.cqe_flushes += 1,
            _ => self.cqe_errors += 1,
        }
        self.hw.on_completion(wc);
    }

    /// Fills in the transport events that are counted elsewhere: those of the queue pairs and of the link.
    pub(crate) fn derive_hw(&mut self) {
        self.hw.take_from(&self.qps);
        self.hw.link_downed = self.link_downed;
    }
}
