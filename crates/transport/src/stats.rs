//! Counters of a queue pair: plain additions under the lock that drives the queue pair, cheap enough to be always on.

/// Defines a structure of counters, with a list by name and a sum.
macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$inner])* pub $field: u64,)*
        }

        impl $name {
            /// Returns all counters by name, in the order of their declaration.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Adds another's counts.
            pub fn add(&mut self, other: &$name) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }
    };
}

counters! {
    /// Counters of one queue pair.
    QpStats {
        /// Packets sent.
        tx_packets,
        /// Payload bytes sent.
        tx_bytes,
        /// Packets received.
        rx_packets,
        /// Payload bytes received.
        rx_bytes,
        /// Packets retransmitted.
        retransmits,
        /// Expiries of the retry timer.
        timeouts,
        /// Tail-loss probes sent.
        probes,
        /// PSN sequence error NAKs sent.
        sequence_naks_sent,
        /// PSN sequence error NAKs received.
        sequence_naks_received,
        /// RNR NAKs sent.
        rnr_naks_sent,
        /// RNR NAKs received.
        rnr_naks_received,
        /// Requests that arrived out of order.
        out_of_order,
        /// Requests that arrived more than once.
        duplicates,
        /// Gaps in READ responses and acknowledgements that skip one.
        implied_naks,
        /// Packets that did not fit this queue pair's state, or were invalid.
        dropped,
        /// Datagrams with a wrong Q_Key.
        qkey_violations,
        /// Frames put into the ring to a peer of this host.
        ring_frames_sent,
        /// Payload bytes of these frames.
        ring_bytes_sent,
        /// Frames taken out of a peer's ring.
        ring_frames_received,
        /// Payload bytes of these frames.
        ring_bytes_received,
        /// Frames retransmitted in the ring, because the peer had no receive posted for an earlier one.
        ring_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer retransmits them.
        ring_frames_skipped,
        /// Direct accesses to a peer's memory by plain copies or on shared pages, including atomics.
        memcpy_ops,
        /// Bytes of these copies.
        memcpy_bytes,
        /// Direct accesses to a peer's memory by the kernel (process_vm_readv, process_vm_writev).
        process_vm_ops,
        /// Bytes of these copies.
        process_vm_bytes,
    }
}

impl QpStats {
    /// Returns whether packets were lost on the way to the peer or back, so that the last ones may still be
    /// retransmitted.
    pub fn met_loss(&self) -> bool {
        let on_ring = self.ring_frames_resent + self.ring_frames_skipped;
        self.retransmits + self.duplicates + self.out_of_order + self.implied_naks + on_ring != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_taken_counter_by_counter() {
        let mut sum = QpStats { tx_packets: 1, ..QpStats::default() };
        sum.add(&QpStats { tx_packets: 2, process_vm_bytes: 7, ..QpStats::default() });
        let told: Vec<_> = sum.values().filter(|(_, value)| *value != 0).collect();
        assert_eq!(told, [("tx_packets", 3), ("process_vm_bytes", 7)]);
    }
}
