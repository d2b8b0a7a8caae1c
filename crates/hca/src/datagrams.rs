//! Datagrams between two processes of one host: the packet as it would be on the wire, in a frame of a lane. If the
//! lane is full, or this process has not met the peer yet, the datagram goes over the wire: datagrams have no order to
//! lose. On an InfiniBand fabric there is no wire: a datagram waits until its path is known, and is lost if there is
//! none. A multicast datagram goes to each process that listens where the fabric's copies of it arrive.

use std::collections::{BTreeMap, VecDeque};

use weft_transport::same_host::{FabricWay, Frame, FrameKind, Outgoing, PeerId, WayState};
use weft_transport::{LocalRoute, Memory, Passed, Piece, RxPacket, TxBatch, TxPacket};
use weft_verbs::{DeviceId, Gid, GidType, Instant, QPN_INDEX_BITS, Qpn};
use weft_wire::packet::{ICRC_LEN, pad_for};
use weft_wire::{MULTICAST_QPN, Packet, Service};

use crate::Hca;

/// Bytes of a BTH and of a GRH.
const BTH_LEN: usize = 12;
const GRH_LEN: usize = 40;
/// Bytes of the two GIDs in front of the packet.
const GIDS_LEN: usize = 32;
/// The longest payload of a frame that holds a datagram: GIDs, headers, an MTU of payload, pad and ICRC.
const DATAGRAM_MAX: usize = 4096 + 256;

/// Maximum number of datagrams waiting for path information, like the buffer of a link.
const HELD_MAX: usize = 1024;
/// Maximum number of datagrams waiting for room in a lane.
const FULL_MAX: usize = 4096;
/// Bit of a datagram's frame: it came over a fabric, and `imm` has its local route.
const CODE_FABRIC: u8 = 2;
/// Bit of a datagram's frame: it has a GRH.
const CODE_GRH: u8 = 4;
/// Position of the P_Key in a BTH.
const PKEY_AT: std::ops::Range<usize> = 2..4;

/// Outcome of sending a datagram over a fabric.
enum Sent {
    /// It was sent or lost; the buffer is free for another.
    Gone(Vec<u8>),
    /// Its path is not known yet.
    Unknown(Vec<u8>),
}

/// Source of the datagrams of a queue pair on a fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FabricSource {
    pub device: DeviceId,
    pub port: u8,
    pub pkey_index: u16,
}

/// State for the datagrams of a batch.
#[derive(Debug, Default)]
pub(crate) struct LocalDatagrams {
    scratch: Vec<u8>,
    /// Datagrams whose path is being requested.
    held: VecDeque<(FabricWay, Frame, Vec<u8>)>,
    /// Datagrams whose path is open and whose lane is full: a fabric has credits, and loses nothing while there is
    /// room.
    full: VecDeque<(PeerId, Frame, Vec<u8>)>,
    /// Traffic of each path, of at most [`HELD_MAX`] paths.
    passed: BTreeMap<FabricWay, Passed>,
    /// Datagrams lost because no process receives at their destination, by path and the queue pairs at its ends; at
    /// most as many entries.
    lost: BTreeMap<(FabricWay, Qpn, Qpn), Passed>,
    /// Positions up to which datagrams over the fabric were written into lanes.
    marks: BTreeMap<PeerId, u64>,
    /// Buffer for the receiving processes of a multicast datagram.
    peers: Vec<PeerId>,
    /// The GID of the last lookup, and whether it belongs to this host.
    last: Option<(Gid, bool)>,
}

impl LocalDatagrams {
    /// Forgets the last GID lookup, after a change of the GID tables.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    pub(crate) fn take_passed(&mut self) -> Vec<(FabricWay, Passed)> {
        std::mem::take(&mut self.passed).into_iter().collect()
    }

    pub(crate) fn take_lost(&mut self) -> Vec<((FabricWay, Qpn, Qpn), Passed)> {
        std::mem::take(&mut self.lost).into_iter().collect()
    }

    fn count(&mut self, way: FabricWay, frame: &Frame, bytes: usize) {
        add(&mut self.passed, way, frame, bytes);
    }

    fn count_lost(&mut self, way: FabricWay, frame: &Frame, bytes: usize) {
        add(&mut self.lost, (way, frame.src_qpn, frame.dest_qpn), frame, bytes);
    }
}

/// Counts a packet: the bytes that a port counts besides LRH, BTH and ICRC, which every packet has.
fn add<K: Ord>(sums: &mut BTreeMap<K, Passed>, key: K, frame: &Frame, bytes: usize) {
    if sums.len() < HELD_MAX || sums.contains_key(&key) {
        let grh = if frame.code & CODE_GRH != 0 { GRH_LEN } else { 0 };
        let passed = sums.entry(key).or_default();
        passed.packets += 1;
        passed.bytes += (bytes.saturating_sub(GIDS_LEN + BTH_LEN + ICRC_LEN) + grh) as u64;
    }
}

impl<M: Memory> Hca<M> {
    /// Takes the datagrams from `before` on that are for processes of this host out of the batch.
    pub(crate) fn divert(&mut self, tx: &mut TxBatch, before: usize) {
        let mut kept = before;
        for at in before..tx.packets.len() {
            if !self.passes_within(tx, at) {
                tx.packets.swap(kept, at);
                kept += 1;
            }
        }
        tx.packets.truncate(kept);
    }

    fn passes_within(&mut self, tx: &TxBatch, at: usize) -> bool {
        let packet = &tx.packets[at];
        if packet.dest_qpn == MULTICAST_QPN || !self.is_ours(packet.av.dgid) {
            return false;
        }
        let Some(peer) = self.context.memory.neighbour(packet.dest_qpn >> QPN_INDEX_BITS) else { return false };
        self.lanes = true;
        self.compose(tx, packet);
        let mut frame = Frame::new(FrameKind::Datagram, packet.src_qpn, packet.dest_qpn);
        frame.code = u8::from(packet.av.gid_type == GidType::IbOrRoceV1);
        frame.key = u32::from(packet.av.traffic_class) << 8 | u32::from(packet.av.hop_limit);
        self.context.memory.push(peer, &frame, Outgoing::Bytes(&self.diversion.scratch))
    }

    /// Takes all packets from `before` on out of the batch: datagrams go where the fabric lets them, all others are
    /// lost.
    pub(crate) fn divert_to_fabric(&mut self, tx: &mut TxBatch, before: usize, datagrams: bool, source: FabricSource) {
        for at in before..tx.packets.len() {
            if datagrams {
                self.pass_over_fabric(tx, at, source);
            }
        }
        tx.packets.truncate(before);
    }

    fn pass_over_fabric(&mut self, tx: &TxBatch, at: usize, source: FabricSource) {
        let packet = &tx.packets[at];
        let Some(device) = self.context.devices.get(&source.device) else { return };
        let Some(attr) = device.attr.port(source.port) else { return };
        let Some(port) = &attr.infiniband else { return };
        let group = packet.dest_qpn == MULTICAST_QPN;
        if group != (packet.av.dgid.is_multicast() && packet.av.is_global) {
            return;
        }
        let way = FabricWay {
            device: source.device,
            port: source.port,
            dlid: packet.av.dlid,
            sl: packet.av.sl,
            pkey: device.pkey(source.port, source.pkey_index),
            // One path for datagrams of every length: the port's MTU bounds them.
            mtu: attr.active_mtu.bytes() as u16,
            slot: if group { 0 } else { packet.dest_qpn >> QPN_INDEX_BITS },
            there_and_back: false,
        };
        let (low, mask) = (packet.av.src_path_bits, (1_u16 << port.lmc.min(7)) - 1);
        let slid = port.lid | u16::from(low) & mask;
        let mut frame = Frame::new(FrameKind::Datagram, packet.src_qpn, packet.dest_qpn);
        frame.code = u8::from(true) | CODE_FABRIC | if packet.av.is_global { CODE_GRH } else { 0 };
        frame.key = u32::from(packet.av.traffic_class) << 8 | u32::from(packet.av.hop_limit);
        frame.imm = u32::from(slid) << 16 | u32::from(packet.av.sl) << 8 | u32::from((way.dlid & mask) as u8);
        frame.addr = way.dlid.into();
        self.compose(tx, packet);
        let pkey = GIDS_LEN + PKEY_AT.start..GIDS_LEN + PKEY_AT.end;
        if let Some(bytes) = self.diversion.scratch.get_mut(pkey) {
            bytes.copy_from_slice(&way.pkey.to_be_bytes());
        }
        let bytes = std::mem::take(&mut self.diversion.scratch);
        match self.send_over_fabric(&way, frame, bytes) {
            Sent::Gone(room) => self.diversion.scratch = room,
            Sent::Unknown(bytes) if self.diversion.held.len() < HELD_MAX => {
                self.diversion.held.push_back((way, frame, bytes));
            }
            Sent::Unknown(bytes) => self.diversion.scratch = bytes,
        }
    }

    /// Sends a datagram along its path, if that is known.
    fn send_over_fabric(&mut self, way: &FabricWay, frame: Frame, bytes: Vec<u8>) -> Sent {
        if frame.dest_qpn == MULTICAST_QPN {
            return self.send_to_group(way, frame, bytes);
        }
        match self.context.memory.fabric_way(way) {
            WayState::Open(peer) => {
                self.diversion.count(*way, &frame, bytes.len());
                Sent::Gone(self.push_datagram(peer, frame, bytes))
            }
            WayState::Closed => {
                self.diversion.count_lost(*way, &frame, bytes.len());
                Sent::Gone(bytes)
            }
            WayState::Asked => Sent::Unknown(bytes),
        }
    }

    /// Sends a copy to each process that listens where the packet arrives.
    fn send_to_group(&mut self, way: &FabricWay, frame: Frame, bytes: Vec<u8>) -> Sent {
        let mut peers = std::mem::take(&mut self.diversion.peers);
        let known = self.context.memory.fabric_group(way, &mut peers);
        let sent = if known {
            self.diversion.count(*way, &frame, bytes.len());
            for peer in &peers {
                self.push_datagram(*peer, frame, bytes.clone());
            }
            Sent::Gone(bytes)
        } else {
            Sent::Unknown(bytes)
        };
        self.diversion.peers = peers;
        sent
    }

    /// Puts a datagram into a lane, or behind those waiting for room in one; returns the buffer if its bytes were
    /// copied.
    fn push_datagram(&mut self, peer: PeerId, frame: Frame, bytes: Vec<u8>) -> Vec<u8> {
        self.lanes = true;
        if self.diversion.full.is_empty() && self.context.memory.push(peer, &frame, Outgoing::Bytes(&bytes)) {
            self.diversion.marks.insert(peer, self.context.memory.lane_mark(peer));
            return bytes;
        }
        if self.diversion.full.len() >= FULL_MAX {
            return bytes;
        }
        self.diversion.full.push_back((peer, frame, bytes));
        let now = self.context.now;
        self.owed_acks.look_by(now);
        Vec::new()
    }

    /// Pushes the waiting datagrams, if lanes have room again.
    #[inline]
    pub(crate) fn push_full(&mut self, now: Instant) {
        if !self.diversion.full.is_empty() {
            self.push_waiting(now);
        }
    }

    #[cold]
    fn push_waiting(&mut self, now: Instant) {
        while let Some((peer, frame, bytes)) = self.diversion.full.pop_front() {
            let pushed = self.context.memory.push(peer, &frame, Outgoing::Bytes(&bytes));
            if pushed {
                self.diversion.marks.insert(peer, self.context.memory.lane_mark(peer));
            } else if self.context.memory.is_alive(peer) {
                self.diversion.full.push_front((peer, frame, bytes));
                self.owed_acks.look_by(now);
                return;
            }
        }
    }

    /// Whether all other processes have taken the fabric datagrams sent to them.
    pub fn datagrams_are_taken(&mut self) -> bool {
        if self.diversion.marks.is_empty() {
            return true;
        }
        let memory = &mut self.context.memory;
        let own = memory.neighbour(self.slot);
        let mut others = self.diversion.marks.iter().filter(|(peer, _)| Some(**peer) != own);
        others.all(|(peer, mark)| memory.has_taken(*peer, *mark))
    }

    /// Handles new path information: the datagrams that waited for it are sent or lost.
    pub fn release_datagrams(&mut self) {
        for _ in 0..self.diversion.held.len() {
            let Some((way, frame, bytes)) = self.diversion.held.pop_front() else { return };
            if let Sent::Unknown(bytes) = self.send_over_fabric(&way, frame, bytes) {
                self.diversion.held.push_back((way, frame, bytes));
            }
        }
    }

    fn is_ours(&mut self, gid: Gid) -> bool {
        if let Some((last, ours)) = self.diversion.last
            && last == gid
        {
            return ours;
        }
        let ours = self.context.devices.values().any(|device| !device.gone && device.owns(gid));
        self.diversion.last = Some((gid, ours));
        ours
    }

    /// Writes GIDs, headers, payload, and room for pad and ICRC.
    fn compose(&mut self, tx: &TxBatch, packet: &TxPacket) {
        let out = &mut self.diversion.scratch;
        out.clear();
        out.extend_from_slice(&packet.av.sgid.0);
        out.extend_from_slice(&packet.av.dgid.0);
        out.extend_from_slice(&tx.arena[packet.header.start as usize..packet.header.end as usize]);
        for piece in &tx.pieces[packet.pieces.start as usize..packet.pieces.end as usize] {
            match *piece {
                Piece::Host { addr, len } => {
                    let from = out.len();
                    out.resize(from + len as usize, 0);
                    self.context.memory.read(addr, &mut out[from..]);
                }
                Piece::Arena { start, len } => {
                    out.extend_from_slice(&tx.arena[start as usize..(start + len) as usize]);
                }
            }
        }
        out.resize(out.len() + pad_for(packet.payload_len as usize) + ICRC_LEN, 0);
    }

    /// Handles a datagram from a process of this host: the current frame of its lane.
    #[inline(never)]
    pub(crate) fn handle_datagram(&mut self, now: Instant, _peer: PeerId, frame: &Frame) {
        let mut bytes = [0; DATAGRAM_MAX];
        let Some(bytes) = bytes.get_mut(..frame.bytes as usize).filter(|bytes| bytes.len() > GIDS_LEN) else { return };
        self.context.memory.peek(0, bytes);
        let (gids, ib) = bytes.split_at(GIDS_LEN);
        let gid = |from: usize| Gid(std::array::from_fn(|i| gids[from + i]));
        let (sgid, dgid) = (gid(0), gid(16));
        let Ok(packet) = Packet::parse(ib) else { return };
        if packet.info.service != Service::Ud || packet.bth.dest_qp() != frame.dest_qpn {
            return;
        }
        let [high, low, sl, path_bits] = frame.imm.to_be_bytes();
        let local = (frame.code & CODE_FABRIC != 0).then_some(LocalRoute {
            slid: u16::from_be_bytes([high, low]),
            dlid: frame.addr as u16,
            sl,
            path_bits,
            global: frame.code & CODE_GRH != 0,
            came_to: None,
            sender: None,
        });
        // The kernel would enforce the same: no process sends in the name of another host, or to one. Over a fabric the
        // sender is another host, and the daemon has said whose path it is.
        let ours = match local {
            Some(local) if frame.dest_qpn == MULTICAST_QPN => local.global && dgid.is_multicast(),
            Some(local) => !local.global || self.is_ours(dgid),
            None => self.is_ours(sgid) && self.is_ours(dgid),
        };
        if !ours {
            return;
        }
        let [.., traffic_class, hop_limit] = frame.key.to_be_bytes();
        let gid_type = if frame.code & 1 == 0 { GidType::RoceV2 } else { GidType::IbOrRoceV1 };
        let rx = RxPacket { packet, sgid, dgid, traffic_class, hop_limit, ifindex: 0, gid_type, local };
        self.handle_packet(now, &rx);
    }
}
