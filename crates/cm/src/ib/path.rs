//! Path between two ports, as subnet administration describes it.

use weft_verbs::{Gid, Mtu};

/// A path in one direction; the reverse path mirrors it. Fields without a use on RoCE keep their values.
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
    /// Hop limit; 1 or less means that both ports are in one subnet.
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
    /// Maximum time of a packet in the network: 4.096 µs · 2ⁿ.
    pub packet_life_time: u8,
}

/// Returns the local ACK timeout of a queue pair whose peer takes 4.096 µs · 2^`ack_delay` to answer over a path of
/// this life time. The exponent's smallest step is doubling, so the sum is rounded up only if the two are of similar
/// size (as in Linux).
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
