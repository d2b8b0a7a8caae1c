//! Short messages of one flow, and how they are cut. Reading the kernel's control data costs more than the rest of a
//! receive. So while short messages come, each is peeked at. If its bytes show how it is cut, it is removed later, when
//! no thread waits for it any more; if not, it is received with the control data.
//!
//! A message too short for two packets is one packet. A packet followed by the acknowledgement of earlier ones, which
//! is how a responder sends, shows itself by two correct ICRCs, while that of the whole message is wrong. Both are
//! checked with the expected IPv4 identification, so each passes by chance once in 2^32. A payload that holds a whole
//! packet is not cut out of its message, because then the ICRC of the whole is correct. In all other cases the kernel
//! knows.

use weft_sys::udp::{Incoming, PEEK_BYTES_MAX, Received};
use weft_wire::icrc::Flow;
use weft_wire::opcode::{Kind, Opcode};

use crate::senders::Sender;

/// Consecutive short messages after which the next is expected to be short, too.
const RUN_MIN: u32 = 16;
/// Length of a BTH and an ICRC.
const PACKET_BYTES_MIN: usize = 16;
/// Length of an acknowledgement.
const ACK_BYTES: usize = 20;

/// State of the flow.
#[derive(Debug, Default)]
pub struct PeekParser {
    /// The flow, and how it numbers messages.
    sender: Option<(Incoming, Sender)>,
    /// Number of consecutive short messages.
    run: u32,
}

impl PeekParser {
    /// Whether the next message is expected to be short.
    #[inline]
    pub fn is_likely(&self) -> bool {
        self.run >= RUN_MIN
    }

    /// Records how a message is cut, as reported by the kernel.
    #[inline]
    pub fn on_told(&mut self, flow: &Incoming, message: &Received<'_>) {
        if message.bytes.len() > PEEK_BYTES_MAX {
            self.run = 0;
            return;
        }
        self.run = self.run.saturating_add(1);
        if self.sender.as_ref().is_none_or(|(of, _)| of != flow) {
            self.sender = covered(flow).map(|covered| (*flow, Sender::new(covered)));
        }
        if let Some((_, sender)) = &mut self.sender
            && let Some(first) = message.bytes.chunks(message.segment.max(1)).next()
        {
            sender.check(first, 0);
        }
    }

    /// Returns the length of a peeked message's first segment, if its bytes show that.
    #[inline]
    pub fn segment(&mut self, flow: &Incoming, bytes: &[u8]) -> Option<usize> {
        let (_, sender) = self.sender.as_mut().filter(|(of, _)| of == flow)?;
        if bytes.len() < 2 * PACKET_BYTES_MIN {
            sender.check(bytes, 0);
            return Some(bytes.len());
        }
        let (first, last) = bytes.split_at_checked(bytes.len().checked_sub(ACK_BYTES)?)?;
        // Segments have the same length, but the last may be shorter.
        let may_be = first.len() >= ACK_BYTES && last.first().is_some_and(|&opcode| acknowledges(Opcode(opcode)));
        if may_be && sender.fits(first, 0) && sender.fits(last, 1) && !sender.fits(bytes, 0) {
            sender.on_expected();
            return Some(first.len());
        }
        None
    }
}

fn acknowledges(opcode: Opcode) -> bool {
    opcode.info().is_some_and(|info| info.kind == Kind::Acknowledge)
}

/// Returns the fields of a flow that the ICRC covers.
fn covered(flow: &Incoming) -> Option<Flow> {
    use std::net::IpAddr::{V4, V6};
    match (flow.src, flow.dst) {
        (V4(src), V4(dst)) => Some(Flow::V4 { src, dst, sport: flow.sport }),
        (V6(src), V6(dst)) => Some(Flow::V6 { src, dst, sport: flow.sport }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::icrc;

    const SEND_ONLY: u8 = 4;
    const ACK: u8 = 0x11;

    fn flow() -> Incoming {
        Incoming { src: [10, 0, 0, 1].into(), sport: 50_000, dst: [10, 0, 0, 2].into(), ifindex: 1 }
    }

    /// A packet of `len` bytes with identification `ip_id`.
    fn packet(opcode: u8, len: usize, ip_id: u16) -> Vec<u8> {
        let mut ib: Vec<u8> = (0..len as u8).collect();
        (ib[0], ib[4]) = (opcode, 0);
        seal(&mut ib, ip_id);
        ib
    }

    fn seal(ib: &mut [u8], ip_id: u16) {
        let crc = icrc::of_packet(covered(&flow()).unwrap().seed(ib.len(), ip_id), ib);
        let at = ib.len() - 4;
        ib[at..].copy_from_slice(&crc.to_le_bytes());
    }

    fn told(short: &mut PeekParser, bytes: &[u8], segment: usize) {
        let Incoming { src, sport, dst, ifindex } = flow();
        let (traffic_class, hop_limit) = (0, 64);
        short.on_told(&flow(), &Received { bytes, segment, src, sport, dst, ifindex, traffic_class, hop_limit });
    }

    /// A state that knows the flow, whose next message is number 100.
    fn knowing() -> PeekParser {
        let mut short = PeekParser::default();
        for ip_id in 100 - RUN_MIN as u16..100 {
            assert!(!short.is_likely());
            told(&mut short, &packet(SEND_ONLY, 24, ip_id), 24);
        }
        assert!(short.is_likely());
        short
    }

    #[test]
    fn what_shows_itself_is_cut_and_the_rest_is_asked_about() {
        let mut short = knowing();
        let merged = |ip_id| [packet(SEND_ONLY, 24, ip_id), packet(ACK, 20, ip_id + 1)].concat();
        assert_eq!(short.segment(&flow(), &packet(SEND_ONLY, 24, 100)), Some(24));
        assert_eq!(short.segment(&flow(), &merged(101)), Some(24));
        assert_eq!(short.segment(&flow(), &merged(102)), Some(24));
        assert_eq!(short.segment(&flow(), &packet(SEND_ONLY, 44, 103)), None, "one packet of that length");
        assert_eq!(short.segment(&flow(), &merged(109)), None, "some were lost");
        told(&mut short, &merged(109), 24);
        assert_eq!(short.segment(&flow(), &merged(110)), Some(24));
        let two = [packet(SEND_ONLY, 24, 111), packet(SEND_ONLY, 24, 112)].concat();
        assert_eq!(short.segment(&flow(), &two), None, "no acknowledgement");
        let mut damaged = merged(111);
        damaged[15] ^= 1;
        assert_eq!(short.segment(&flow(), &damaged), None);
        assert_eq!(short.segment(&Incoming { sport: 1, ..flow() }, &merged(111)), None, "another flow");
        assert_eq!(short.segment(&flow(), &merged(111)), Some(24));
        told(&mut short, &[0; 1000], 1000);
        assert!(!short.is_likely());
    }

    #[test]
    fn a_payload_that_looks_like_packets_is_not_cut_out_of_its_message() {
        let mut short = knowing();
        let mut message = [packet(SEND_ONLY, 24, 100), packet(ACK, 20, 101), vec![0; 4]].concat();
        seal(&mut message, 100);
        assert_eq!(short.segment(&flow(), &message), None);
    }

    #[test]
    fn nothing_that_comes_panics() {
        let mut short = knowing();
        for len in 0..=PEEK_BYTES_MAX {
            for byte in [0, ACK, 0xff] {
                short.segment(&flow(), &vec![byte; len]);
                told(&mut short, &vec![byte; len], len / 2);
            }
        }
    }
}
