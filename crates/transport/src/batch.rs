//! Outgoing packets. A batch refers to payload instead of holding it: headers and inline bytes are in one arena,
//! payload stays in registered memory as (host address, length). The link layer turns a packet into one gather list
//! (header, payload, pad and ICRC), and consecutive packets of one flow and size into one system call.

use std::ops::Range;

use weft_verbs::{AddressVector, DeviceId};

/// Most packets from one call of [`crate::Qp::poll_transmit`], so that queue pairs take turns.
pub const TX_BURST_PACKETS: u32 = 64;

/// A piece of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Registered memory, already checked; valid until the adapter's lock is released.
    Host {
        /// Host address.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// Bytes of the batch's arena.
    Arena {
        /// Offset.
        start: u32,
        /// Bytes.
        len: u32,
    },
}

/// One packet: BTH to the end of the payload. The link layer adds the headers below (UDP, IP), the pad bytes that the
/// BTH announces, and the ICRC.
#[derive(Clone, Debug)]
pub struct TxPacket {
    /// Destination.
    pub av: AddressVector,
    /// Destination queue pair number: the link distinguishes slots by it.
    pub dest_qpn: u32,
    /// Number of the sending queue pair: entropy for the UDP source port.
    pub src_qpn: u32,
    /// BTH and extended headers, in the arena.
    pub header: Range<u32>,
    /// Payload pieces, in [`TxBatch::pieces`].
    pub pieces: Range<u32>,
    /// Sum of the pieces' lengths.
    pub payload_len: u32,
    /// Others may write to the payload during transmission: the packet and its ICRC must come from one copy.
    pub copy_before_send: bool,
    /// A FLUSH with the ICRC that Linux's rxe computes.
    pub flush_for_rxe: bool,
    /// Bits of the ICRC that leave changed: an injected fault damages the packet.
    pub icrc_damage: u32,
    /// Output port and source address on an InfiniBand fabric; `None` elsewhere.
    pub source: Option<LocalSource>,
}

/// Output port of a packet on an InfiniBand fabric, and its local route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalSource {
    /// The device.
    pub device: DeviceId,
    /// Number of its port.
    pub port: u8,
    /// Source LID.
    pub slid: u16,
    /// Virtual lane of the packet at that port.
    pub vl: u8,
}

/// Packets collected for one call of the link layer.
#[derive(Debug, Default)]
pub struct TxBatch {
    /// Packets, in order.
    pub packets: Vec<TxPacket>,
    /// Headers and inline payload.
    pub arena: Vec<u8>,
    /// Payload pieces of all packets.
    pub pieces: Vec<Piece>,
}

impl TxBatch {
    /// Most packets in one batch; a queue pair that fills it continues in the next batch.
    pub const PACKETS_MAX: usize = 256;

    /// Empties the batch but keeps its memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.arena.clear();
        self.pieces.clear();
    }

    /// Returns whether another packet fits.
    pub fn has_room(&self) -> bool {
        self.packets.len() < Self::PACKETS_MAX
    }

    /// Starts a packet: copies `header` to the arena; payload pieces follow by [`TxBatch::piece`].
    pub fn begin(&mut self, av: AddressVector, dest_qpn: u32, src_qpn: u32, header: &[u8]) {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(header);
        let pieces = self.pieces.len() as u32;
        self.packets.push(TxPacket {
            av,
            dest_qpn,
            src_qpn,
            header: start..self.arena.len() as u32,
            pieces: pieces..pieces,
            payload_len: 0,
            copy_before_send: false,
            flush_for_rxe: false,
            icrc_damage: 0,
            source: None,
        });
    }

    /// Starts a copy of another batch's packet, with this copy of its header; payload pieces follow.
    pub fn begin_as(&mut self, packet: &TxPacket, header: &[u8]) {
        self.begin(packet.av, packet.dest_qpn, packet.src_qpn, header);
        if let Some(copy) = self.packets.last_mut() {
            let (header, pieces) = (copy.header.clone(), copy.pieces.clone());
            *copy = TxPacket { header, pieces, payload_len: 0, ..packet.clone() };
        }
    }

    /// Adds registered memory to the packet begun last.
    pub fn piece(&mut self, addr: u64, len: u32) {
        self.push(Piece::Host { addr, len }, len);
    }

    /// Copies bytes into the packet begun last.
    pub fn bytes(&mut self, data: &[u8]) {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(data);
        let len = data.len() as u32;
        self.push(Piece::Arena { start, len }, len);
    }

    /// Marks the packet begun last: others may write to its payload during transmission.
    pub fn copy_before_send(&mut self) {
        if let Some(packet) = self.packets.last_mut() {
            packet.copy_before_send = true;
        }
    }

    /// Marks the FLUSH begun last: its ICRC is the one that Linux's rxe computes.
    pub fn flush_for_rxe(&mut self) {
        if let Some(packet) = self.packets.last_mut() {
            packet.flush_for_rxe = true;
        }
    }

    fn push(&mut self, piece: Piece, len: u32) {
        if len == 0 {
            return;
        }
        self.pieces.push(piece);
        if let Some(packet) = self.packets.last_mut() {
            packet.pieces.end = self.pieces.len() as u32;
            packet.payload_len += len;
        }
    }
}
