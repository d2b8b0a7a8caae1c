//! Names, meanings and sums of all counters.

use serde::{Deserialize, Serialize};

/// Defines a structure of counters, with access to all of them by name, their descriptions, and their sums.
macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $(#[doc = $meaning:literal] $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            $(#[doc = $meaning] pub $field: u64,)*
        }

        impl $name {
            /// Returns all counters by name, in display order.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Each counter's name and a sentence about its meaning, in display order.
            pub const MEANINGS: &[(&str, &str)] = &[$((stringify!($field), $meaning.trim_ascii())),*];

            /// Adds untrusted counters: a sum that would overflow saturates.
            pub fn add(&mut self, other: &$name) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }
        }
    };
}

counters! {
    /// Counters of a device, those of its queue pairs included.
    DeviceCounters {
        /// Packets sent.
        sent_pkts,
        /// Packets received.
        rcvd_pkts,
        /// Bytes sent in packets, BTH to ICRC.
        sent_bytes,
        /// Bytes received in packets, BTH to ICRC.
        rcvd_bytes,
        /// Packets sent to multicast groups.
        multicast_sent_pkts,
        /// Packets received that were sent to multicast groups.
        multicast_rcvd_pkts,
        /// Requests that arrived again.
        duplicate_request,
        /// Requests that arrived out of order.
        out_of_seq_request,
        /// RNR NAKs received.
        rcvd_rnr_err,
        /// RNR NAKs sent.
        send_rnr_err,
        /// PSN sequence error NAKs received.
        rcvd_seq_err,
        /// PSN sequence error NAKs sent.
        send_seq_err,
        /// Acknowledgements deferred because of a full queue.
        ack_deferred,
        /// Work requests that failed after every retry.
        retry_exceeded_err,
        /// Work requests that failed after every RNR retry.
        retry_rnr_exceeded_err,
        /// Times that a retry timer ran out.
        completer_retry_err,
        /// Work requests that failed otherwise.
        send_err,
        /// Times that the port went down.
        link_downed,
        /// SENDs completed.
        rdma_sends,
        /// Receives completed.
        rdma_recvs,
        /// Packets sent again.
        retransmitted_pkts,
        /// Tail-loss probes sent.
        probes,
        /// Gaps in responses.
        implied_nak_seq_err,
        /// Packets that the queue pair dropped as senseless.
        dropped_pkts,
        /// Datagrams with a wrong Q_Key.
        qkey_violations,
        /// Packets for a queue pair that does not exist.
        bad_qpn,
        /// Packets of another partition.
        bad_pkey,
        /// Packets from or to an unexpected address.
        bad_address,
        /// Completions.
        cqes,
        /// Completions with an error, flushed ones not included.
        cqe_errors,
        /// Completions of flushed work requests.
        cqe_flushes,
        /// Completion events raised.
        cq_events,
        /// Payload bytes sent in packets.
        wire_bytes_sent,
        /// Payload bytes received in packets.
        wire_bytes_rcvd,
        /// Direct copies on shared pages.
        memcpy_ops,
        /// Bytes of these copies.
        memcpy_bytes,
        /// Direct copies by the kernel.
        process_vm_ops,
        /// Bytes of these copies.
        process_vm_bytes,
        /// Frames put into rings (shared-memory rings) to processes of the host.
        ring_frames_sent,
        /// Payload bytes of these frames.
        ring_bytes_sent,
        /// Frames taken out of rings.
        ring_frames_rcvd,
        /// Payload bytes of these frames.
        ring_bytes_rcvd,
        /// Frames put into rings again, because the peer had no receive posted for an earlier one.
        ring_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        ring_frames_skipped,
    }
}

counters! {
    /// Counters of a process that belong to no single device.
    ProcessCounters {
        /// Packets dropped for a wrong ICRC.
        icrc_errors,
        /// Packets dropped that are not RoCE.
        malformed,
        /// Packets dropped that belong to another process and arrived merged with this process's packets.
        misrouted,
        /// Packets that the kernel refused to send.
        tx_refused,
        /// Packets lost because their destination's address did not resolve.
        tx_unresolved,
        /// Packets lost because their payload was no longer mapped.
        tx_unmapped,
        /// Packets delayed because a socket was full.
        tx_delayed,
        /// Packets lost because the queue of delayed packets was full.
        tx_overflowed,
        /// Messages handed to the kernel with the packets sent; one system call may take several.
        tx_messages,
        /// Messages from the kernel with the packets received.
        rx_messages,
        /// Times that the background thread woke.
        wakeups,
        /// Times that a completion channel was notified.
        channel_wakeups,
        /// Polls of completion queues.
        polls,
        /// Of these, polls that found nothing and ran the progress loop.
        poll_turns,
        /// Lists of work posted to send queues.
        posts,
    }
}

counters! {
    /// Counters of a queue pair.
    QpCounters {
        /// Packets sent.
        sent_pkts,
        /// Packets received.
        rcvd_pkts,
        /// Payload bytes sent in packets.
        wire_bytes_sent,
        /// Payload bytes received in packets.
        wire_bytes_rcvd,
        /// Packets sent again.
        retransmitted_pkts,
        /// Times that the retry timer ran out.
        completer_retry_err,
        /// RNR NAKs received.
        rcvd_rnr_err,
        /// RNR NAKs sent.
        send_rnr_err,
        /// PSN sequence error NAKs received.
        rcvd_seq_err,
        /// Requests that arrived out of order.
        out_of_seq_request,
        /// Requests that arrived again.
        duplicate_request,
        /// Packets dropped as senseless.
        dropped_pkts,
        /// Direct copies on shared pages.
        memcpy_ops,
        /// Bytes of these copies.
        memcpy_bytes,
        /// Direct copies by the kernel.
        process_vm_ops,
        /// Bytes of these copies.
        process_vm_bytes,
        /// Frames put into the ring (shared-memory ring).
        ring_frames_sent,
        /// Payload bytes of these frames.
        ring_bytes_sent,
        /// Frames taken out of the ring.
        ring_frames_rcvd,
        /// Payload bytes of these frames.
        ring_bytes_rcvd,
        /// Frames put into rings again, because the peer had no receive posted for an earlier one.
        ring_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        ring_frames_skipped,
    }
}

counters! {
    /// Counters of a port of a fabric since its node was powered on.
    PortCounters {
        /// Bytes sent, LRH to VCRC.
        xmit_bytes,
        /// Bytes received, LRH to VCRC.
        rcv_bytes,
        /// Packets sent.
        xmit_packets,
        /// Packets received.
        rcv_packets,
        /// Packets sent to multicast groups.
        multicast_xmit_packets,
        /// Packets received that were sent to multicast groups.
        multicast_rcv_packets,
        /// Packets with a symbol error.
        symbol_errors,
        /// Link error recoveries.
        link_error_recoveries,
        /// Times that the link went down.
        link_downed,
        /// Packets received with an error.
        rcv_errors,
        /// Packets that were marked bad before they reached this port.
        rcv_remote_physical_errors,
        /// Packets that the switch could not forward.
        rcv_switch_relay_errors,
        /// Packets discarded instead of sent.
        xmit_discards,
        /// Packets that the port's partition rules kept from leaving.
        xmit_constraint_errors,
        /// Packets that the port's partition rules kept from entering.
        rcv_constraint_errors,
        /// Times that local errors exceeded the port's threshold.
        local_link_integrity_errors,
        /// Times that the buffers overran longer than the port's threshold.
        excessive_buffer_overrun_errors,
        /// Subnet management datagrams dropped for lack of buffer space.
        vl15_dropped,
        /// Ticks in which data waited to be sent.
        xmit_wait_ticks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_at_their_end() {
        let mut sum = DeviceCounters { sent_pkts: u64::MAX - 1, ..DeviceCounters::default() };
        sum.add(&DeviceCounters { sent_pkts: 5, cqes: 2, ..DeviceCounters::default() });
        assert_eq!((sum.sent_pkts, sum.cqes), (u64::MAX, 2));
        assert_eq!(sum.values().next(), Some(("sent_pkts", u64::MAX)));
    }
}
