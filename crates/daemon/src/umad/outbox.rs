//! Packets waiting for a program: in its port's ring as long as there is room and the program takes them, else in a
//! queue for its port's socket. A slow program keeps its answers, as in Linux. If many packets wait, the daemon drops
//! unsolicited datagrams; if more wait, it reads no more from the program.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{DaemonRing, Slot, UMAD_BELL};
use weft_sys::batch;
use weft_wire::mad::MAD_LEN;
use zerocopy::IntoBytes;

/// Waiting bytes above which unsolicited datagrams are dropped.
const UNASKED_BYTES_MAX: usize = 4 << 20;

/// Waiting bytes above which no more requests are read; answers under way may exceed it.
const BYTES_MAX: usize = 16 << 20;

const SINGLE: usize = UMAD_HEAD_BYTES + MAD_LEN;

/// A packet; almost all are one datagram with its head.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, which costs no allocation so")]
enum Packet {
    Single([u8; SINGLE]),
    Other(Box<[u8]>),
}

impl Packet {
    fn bytes(&self) -> &[u8] {
        match self {
            Packet::Single(bytes) => bytes,
            Packet::Other(bytes) => bytes,
        }
    }
}

/// Packets on their way to a program.
#[derive(Debug, Default)]
pub struct Outbox {
    packets: VecDeque<Packet>,
    bytes: usize,
    ring: Option<DaemonRing>,
    /// The program has stopped reading its ring.
    ring_left: bool,
    /// A bell is among the packets.
    bell: bool,
}

impl Outbox {
    /// Makes an outbox over the daemon's end of a program's ring.
    pub fn new(ring: Option<DaemonRing>) -> Outbox {
        Outbox { ring, ..Outbox::default() }
    }

    /// Returns the ring, if there is one.
    pub fn ring(&mut self) -> Option<&mut DaemonRing> {
        self.ring.as_mut()
    }

    /// Stops using the ring, which the program no longer reads: its answers take the socket.
    pub fn leave_ring(&mut self) {
        self.ring_left = true;
        self.take_back(DaemonRing::take_back_all);
    }

    /// Moves answers from the ring to the socket, unless the program polls the ring; returns whether it did.
    pub fn leave_unseen(&mut self) -> bool {
        match self.ring_left {
            true => self.take_back(DaemonRing::take_back_all),
            false => self.take_back(DaemonRing::take_back_unless_looked_at),
        }
    }

    fn take_back(&mut self, take: impl FnOnce(&mut DaemonRing, &mut dyn FnMut(Slot)) -> bool) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let (packets, bytes) = (&mut self.packets, &mut self.bytes);
        take(ring, &mut |slot| {
            *bytes += SINGLE;
            packets.push_back(Packet::Single(slot));
        })
    }

    /// Returns whether no packet waits for the socket.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns whether so much waits that the program should read before it sends more requests.
    pub fn is_crowded(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// Returns whether there is no room for unsolicited datagrams.
    pub fn is_full(&self) -> bool {
        self.bytes >= UNASKED_BYTES_MAX
    }

    /// Queues a datagram; writes its length into the head.
    pub fn push(&mut self, mut head: UmadHead, mad: &[u8]) {
        let whole = UMAD_HEAD_BYTES + mad.len();
        head.length = whole as u32;
        if let (Some(ring), Ok(mad)) = (&mut self.ring, mad.try_into())
            && !self.ring_left
            && self.packets.is_empty()
            && ring.push(&head, mad)
        {
            return;
        }
        if whole == SINGLE {
            let mut packet = [0; SINGLE];
            packet[..UMAD_HEAD_BYTES].copy_from_slice(head.as_bytes());
            packet[UMAD_HEAD_BYTES..].copy_from_slice(mad);
            self.bytes += SINGLE;
            self.packets.push_back(Packet::Single(packet));
            return;
        }
        let (first, rest) = mad.split_at(mad.len().min(UMAD_PACKET_BYTES_MAX - UMAD_HEAD_BYTES));
        self.push_other([head.as_bytes(), first].concat());
        for packet in rest.chunks(UMAD_PACKET_BYTES_MAX) {
            self.push_other(packet.to_vec());
        }
    }

    fn push_other(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.packets.push_back(Packet::Other(bytes.into()));
    }

    /// Sends as much as the socket takes without sleeping, including the ring's content if the program sleeps. An error
    /// means that the program is gone.
    pub fn flush(&mut self, fd: impl AsFd) -> io::Result<()> {
        self.take_back(DaemonRing::take_back_from_sleeper);
        while !self.packets.is_empty() {
            let packets = self.packets.iter().map(|packet| IoSlice::new(packet.bytes()));
            match batch::send(&fd, packets) {
                Ok(sent) => {
                    self.ring.iter_mut().for_each(|ring| ring.on_sent(sent));
                    for packet in self.packets.drain(..sent.min(self.packets.len())) {
                        self.bytes -= packet.bytes().len();
                        self.bell &= packet.bytes() != UMAD_BELL;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.ring.iter_mut().for_each(DaemonRing::end_move);
        Ok(())
    }

    /// Rings the program, which holds a datagram that its socket does not show; at most one bell waits at a time.
    pub fn push_bell(&mut self) {
        if !std::mem::replace(&mut self.bell, true) {
            self.push_other(UMAD_BELL.to_vec());
        }
    }

    /// Takes the next packet, for an owner without a socket.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes().len();
        self.bell &= packet.bytes() != UMAD_BELL;
        Some(packet.bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_datagrams_go_on_in_packets_without_a_head() {
        let mut outbox = Outbox::default();
        let mad: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        outbox.push(UmadHead::default(), &mad);
        let (head, first) = outbox.pop().map(|p| (UmadHead::decode(&p).unwrap().0, p[64..].to_vec())).unwrap();
        assert_eq!((head.length, first.len()), (10_064, 4032));
        let rest: Vec<u8> = std::iter::from_fn(|| outbox.pop()).flatten().collect();
        assert_eq!([first, rest].concat(), mad);
        assert!(outbox.is_empty() && outbox.bytes == 0);
    }

    #[test]
    fn what_is_not_read_waits_and_is_counted() {
        let (a, b) = weft_sys::unix::pair().unwrap();
        let mut outbox = Outbox::default();
        while !outbox.is_crowded() {
            outbox.push(UmadHead::default(), &[7; MAD_LEN]);
            outbox.flush(&a).unwrap();
        }
        let mut room = batch::RecvBatch::new(64, SINGLE);
        let mut received = 0;
        while !outbox.is_empty() {
            received += room.recv(&b).unwrap();
            outbox.flush(&a).unwrap();
        }
        while let Ok(count) = room.recv(&b) {
            received += count;
        }
        assert!(received * SINGLE >= BYTES_MAX && outbox.bytes == 0);
        drop(b);
        outbox.push(UmadHead::default(), &[7; MAD_LEN]);
        assert!(outbox.flush(&a).is_err());
    }
}
