//! What is remembered of those who send to us: seeds of the ICRC, and how they number their packets. The ICRC covers
//! IPv4's identification, which a UDP socket does not show. Our own senders use 0 with each message, or one more with
//! each (`sys::udp::connected`), Linux's rxe something else; segments of a message count on from its own. The expected one is
//! tried first, any other is solved for.

use weft_wire::Packet;
use weft_wire::icrc::{self, Flow};

use crate::seal::Seeds;

/// Senders that are remembered, each in the place that its source port gives it.
const SENDERS_KEPT: usize = 64;

/// Senders of late.
#[derive(Clone, Debug)]
pub struct Senders {
    kept: Box<[Option<Sender>; SENDERS_KEPT]>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Sender {
    seeds: Seeds,
    /// Identification of its last message.
    last: u16,
    /// What the next message's adds to that.
    step: u16,
}

impl Default for Senders {
    fn default() -> Senders {
        Senders { kept: Box::new([const { None }; SENDERS_KEPT]) }
    }
}

impl Senders {
    /// Check the ICRC of a packet, BTH to ICRC, that is segment number `segment` of a message; answers its identification
    /// (0 for IPv6). `None`: it is corrupt.
    #[inline]
    pub fn check(&mut self, flow: &Flow, ib: &[u8], segment: u16) -> Option<u16> {
        let (Flow::V4 { sport, .. } | Flow::V6 { sport, .. }) = flow;
        let place = &mut self.kept[usize::from(*sport) % SENDERS_KEPT];
        match place {
            Some(sender) if sender.seeds.flow() == flow => sender.check(ib, segment),
            _ => place.insert(Sender::new(*flow)).check(ib, segment),
        }
    }
}

impl Sender {
    /// Of whom nothing was heard yet.
    pub fn new(flow: Flow) -> Sender {
        Sender { seeds: Seeds::new(flow), last: 0, step: 0 }
    }

    /// Whether the ICRC is that of segment number `segment` of its next message, with the identification that is expected.
    #[inline]
    pub fn fits(&mut self, ib: &[u8], segment: u16) -> bool {
        let expected = self.last.wrapping_add(self.step).wrapping_add(segment);
        Packet::icrc(ib) == Some(icrc::of_packet(self.seeds.seed(ib.len(), expected), ib))
    }

    /// Its next message came, numbered as was expected.
    #[inline]
    pub fn on_expected(&mut self) {
        self.last = self.last.wrapping_add(self.step);
    }

    /// As [`Senders::check`].
    #[inline]
    pub fn check(&mut self, ib: &[u8], segment: u16) -> Option<u16> {
        let found = Packet::icrc(ib)?;
        if segment == 0 {
            self.last = self.last.wrapping_add(self.step);
        }
        let expected = self.last.wrapping_add(segment);
        let delta = icrc::of_packet(self.seeds.seed(ib.len(), expected), ib) ^ found;
        if delta == 0 {
            return Some(expected);
        }
        let ip_id = icrc::explain(self.seeds.flow(), ib.len(), delta)? ^ expected;
        self.last = ip_id.wrapping_sub(segment);
        self.step = u16::from(self.last != 0);
        Some(ip_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn packet(flow: &Flow, ip_id: u16) -> Vec<u8> {
        let mut ib: Vec<u8> = (0..60).collect();
        let crc = icrc::of_packet(flow.seed(ib.len(), ip_id), &ib);
        ib[56..].copy_from_slice(&crc.to_le_bytes());
        ib
    }

    #[test]
    fn a_sender_may_number_its_messages_as_it_likes() {
        let flow = Flow::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2), sport: 50_001 };
        let mut senders = Senders::default();
        // Always from 0; counting, over the end, with one lost; anything.
        for messages in [&[0u16, 0, 0][..], &[0xfffe, 0xffff, 0, 1, 3, 4], &[7, 0x1234, 9, 0x8000]] {
            for &message in messages {
                for segment in 0..3u16 {
                    let ip_id = message.wrapping_add(segment);
                    assert_eq!(senders.check(&flow, &packet(&flow, ip_id), segment), Some(ip_id));
                }
            }
        }
        let mut damaged = packet(&flow, 5);
        damaged[20] ^= 1;
        assert_eq!(senders.check(&flow, &damaged, 0), None);
        assert_eq!(senders.check(&flow, &packet(&flow, 6), 0), Some(6));
    }
}
