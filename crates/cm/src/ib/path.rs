//! A path between two ports, as the subnet administration would describe it.

use weft_verbs::{Gid, Mtu};

/// One direction's path; the other is its mirror image. What RoCE has no use for keeps its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// GID of this side.
    pub sgid: Gid,
    /// GID of the other side.
    pub dgid: Gid,
    /// LID of this side; RoCE has none.
    pub slid: u16,
    /// LID of the other side.
    pub dlid: u16,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit; 1 or less says that both ports are in one subnet.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Partition.
    pub pkey: u16,
    /// MTU.
    pub mtu: Mtu,
    /// Rate: a value of `enum ibv_rate`.
    pub rate: u8,
    /// How long a packet may be under way: 4.096 µs · 2ⁿ.
    pub packet_life_time: u8,
}

/// The local ACK timeout of a queue pair whose peer takes 4.096 µs · 2^`ack_delay` to answer over a path of this life
/// time. Doubling is the smallest step, so the sum is rounded up only where the two are of one size (as Linux does).
pub fn ack_timeout(ack_delay: u8, packet_life_time: u8) -> u8 {
    let both_ways = packet_life_time.saturating_add(1);
    let timeout = if both_ways >= ack_delay {
        both_ways.saturating_add(u8::from(ack_delay >= packet_life_time))
    } else {
        ack_delay.saturating_add(u8::from(both_ways >= ack_delay - 1))
    };
    timeout.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_timeouts_are_those_that_linux_sends() {
        // Soft-RoCE of Linux 6.1: delay 15, life time 18, and 19 in its REQ.
        assert_eq!(ack_timeout(15, 18), 19);
        assert_eq!(ack_timeout(15, 16), 17);
        assert_eq!(ack_timeout(15, 15), 17);
        assert_eq!(ack_timeout(15, 10), 15);
        assert_eq!(ack_timeout(15, 13), 16);
        assert_eq!(ack_timeout(0, 0), 2);
        assert_eq!(ack_timeout(255, 255), 31);
    }
}
