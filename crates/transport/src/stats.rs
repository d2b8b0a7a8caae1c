//! What a queue pair counts. Plain additions where the thing happens, under whatever lock drives the queue pair: cheap
//! enough to be always on.

/// A structure of counters: all of them by name, and their sums.
macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$inner])* pub $field: u64,)*
        }

        impl $name {
            /// All of them by name, in the order of their declaration.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Add another's counts.
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
        /// Packets sent again.
        retransmits,
        /// Times that the retry timer ran out.
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
        /// Requests that arrived again.
        duplicates,
        /// Gaps in READ responses and acknowledgements that skip one.
        implied_naks,
        /// Packets that were not for this queue pair's state, or made no sense.
        dropped,
        /// Datagrams with a wrong Q_Key.
        qkey_violations,
        /// Frames put into the lane to a peer of this host.
        lane_frames_sent,
        /// Bytes of payload that they carried.
        lane_bytes_sent,
        /// Frames taken out of a peer's lane.
        lane_frames_received,
        /// Bytes of payload that they brought.
        lane_bytes_received,
        /// Frames put into the lane again, because the peer had no receive posted for an earlier one.
        lane_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        lane_frames_skipped,
        /// Direct accesses to a peer's memory by plain copies or on shared pages, atomics among them.
        memcpy_ops,
        /// Bytes copied so.
        memcpy_bytes,
        /// Direct accesses to a peer's memory by the kernel (process_vm_readv, process_vm_writev).
        process_vm_ops,
        /// Bytes copied so.
        process_vm_bytes,
    }
}

impl QpStats {
    /// Whether packets went astray on the way to the peer or back, so that its last ones may be under way once more.
    pub fn met_loss(&self) -> bool {
        let on_lane = self.lane_frames_resent + self.lane_frames_skipped;
        self.retransmits + self.duplicates + self.out_of_order + self.implied_naks + on_lane != 0
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
