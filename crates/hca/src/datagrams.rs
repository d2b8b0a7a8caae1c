//! Datagrams between two processes of one host: the packet as it would be on the wire, in a frame of a ring. If the
//! ring is full, or this process has not met the peer yet, the datagram leaves as a packet: datagrams have no order to
//! lose. On a fabric that carries no packets, a datagram waits until its path is known, and is lost if there is none. A
//! multicast datagram goes to each process that listens where the fabric's copies of it arrive.

use weft_transport::frame::{Frame, FrameKind, Outgoing};
use weft_transport::peers::PeerId;
use weft_transport::{Datagram, LocalRoute, Memory, Peers, RxPacket};
use weft_verbs::{Gid, GidType, Instant, QPN_INDEX_BITS};
use weft_wire::packet::{ICRC_LEN, pad_for};
use weft_wire::{MULTICAST_QPN, Packet, Service};

use crate::context::HcaContext;
use crate::local_datagrams::{Bytes, CODE_ETHERNET, CODE_FABRIC, CODE_GRH, GIDS_LEN};
use crate::paths::{FabricPath, FabricPaths, PathState};
use crate::{Hca, HostInterface};

/// The longest payload of a frame that holds a datagram: GIDs, headers, an MTU of payload, pad and ICRC.
const DATAGRAM_MAX: usize = 4096 + 256;

/// Outcome of sending a datagram over a fabric.
enum Sent {
    /// It was sent or lost; the buffer is free for another.
    Gone(Bytes),
    /// Its path is not known yet.
    Unknown(Bytes),
}

/// Writes GIDs, headers, payload, and room for pad and ICRC.
fn compose(datagram: &Datagram<'_>, memory: &impl Memory, out: &mut Bytes) {
    out.clear();
    out.extend_from_slice(&datagram.target.av.sgid.0);
    out.extend_from_slice(&datagram.target.av.dgid.0);
    out.extend_from_slice(datagram.header().as_slice());
    match datagram.payload {
        Outgoing::Bytes(bytes) => out.extend_from_slice(bytes),
        Outgoing::Memory(ranges) => {
            for range in ranges {
                let from = out.len();
                out.resize(from + range.len as usize, 0);
                memory.read(range.addr, &mut out[from..]);
            }
        }
        // The receiver of a datagram reads no memory of its sender.
        Outgoing::List(_) => {}
    }
    out.resize(out.len() + pad_for(datagram.payload_len() as usize) + ICRC_LEN, 0);
}

/// Starts the frame of a datagram.
fn frame_of(datagram: &Datagram<'_>, code: u8) -> Frame {
    let av = &datagram.target.av;
    let mut frame = Frame::new(FrameKind::Datagram, datagram.src_qpn, datagram.target.remote_qpn);
    frame.code = code;
    frame.key = u32::from(av.traffic_class) << 8 | u32::from(av.hop_limit);
    frame
}

impl<H: HostInterface> HcaContext<H> {
    /// Sends a datagram of the acting device by a frame, if that is its route. `false`: it must leave as a packet.
    pub(crate) fn send_by_frame(&mut self, datagram: &Datagram<'_>) -> bool {
        let Some(device) = self.devices.get(&self.acting) else { return false };
        let sent = match device.on_fabric() {
            true if self.fabric_packets && !device.is_ethernet(datagram.port_num) => false,
            true => {
                self.send_over_fabric(datagram);
                true
            }
            false => self.send_to_neighbour(datagram),
        };
        if sent && let Some(device) = self.devices.get_mut(&self.acting) {
            device.counters.on_sent_by_frame(datagram);
        }
        sent
    }

    /// Sends a datagram to a process of this host that has one of its GIDs.
    fn send_to_neighbour(&mut self, datagram: &Datagram<'_>) -> bool {
        let (av, dest_qpn) = (&datagram.target.av, datagram.target.remote_qpn);
        if dest_qpn == MULTICAST_QPN || !self.is_ours(av.dgid) {
            return false;
        }
        let Some(peer) = self.peers.meet(dest_qpn >> QPN_INDEX_BITS) else { return false };
        self.rings_open = true;
        compose(datagram, &self.memory, &mut self.datagrams.scratch);
        let frame = frame_of(datagram, u8::from(av.gid_type == GidType::IbOrRoceV1));
        self.peers.push(peer, &frame, Outgoing::Bytes(&self.datagrams.scratch))
    }

    /// Sends a datagram where the fabric lets it go; it is lost if no path leads there.
    fn send_over_fabric(&mut self, datagram: &Datagram<'_>) {
        let Some((path, frame)) = self.fabric_route(datagram) else { return };
        let mut bytes = std::mem::take(&mut self.datagrams.scratch);
        compose(datagram, &self.memory, &mut bytes);
        self.datagrams.scratch = match self.send_on_path(&path, frame, bytes) {
            Sent::Gone(room) => room,
            Sent::Unknown(bytes) => self.datagrams.hold(path, frame, bytes),
        };
    }

    /// Returns a datagram's path over the fabric, and its frame; `None` if its addresses contradict each other.
    fn fabric_route(&self, datagram: &Datagram<'_>) -> Option<(FabricPath, Frame)> {
        let attr = self.devices.get(&self.acting)?.attr.port(datagram.port_num)?;
        let port = attr.infiniband.as_ref()?;
        let (av, dest_qpn) = (&datagram.target.av, datagram.target.remote_qpn);
        let group = dest_qpn == MULTICAST_QPN;
        // The Ethernet switch of a fabric's hosts carries no RoCE multicast.
        if group != (av.dgid.is_multicast() && av.is_global) || group && port.is_ethernet {
            return None;
        }
        let path = FabricPath {
            device: self.acting,
            port: datagram.port_num,
            dlid: if port.is_ethernet { 0 } else { av.dlid },
            dgid: if port.is_ethernet { av.dgid } else { Gid::ZERO },
            sl: av.sl,
            pkey: datagram.bth.pkey(),
            // One path for datagrams of every length: the port's MTU bounds them.
            mtu: attr.active_mtu.bytes() as u16,
            slot: if group { 0 } else { dest_qpn >> QPN_INDEX_BITS },
            there_and_back: false,
        };
        let framing = u8::from(av.gid_type == GidType::IbOrRoceV1);
        if port.is_ethernet {
            return Some((path, frame_of(datagram, framing | CODE_ETHERNET)));
        }
        let mask = (1_u16 << port.lmc.min(7)) - 1;
        let slid = port.source_lid(av.src_path_bits);
        let mut frame = frame_of(datagram, framing | CODE_FABRIC | if av.is_global { CODE_GRH } else { 0 });
        frame.imm = u32::from(slid) << 16 | u32::from(av.sl) << 8 | u32::from((path.dlid & mask) as u8);
        frame.addr = path.dlid.into();
        Some((path, frame))
    }

    /// Sends a datagram along its path, if that is known.
    fn send_on_path(&mut self, path: &FabricPath, frame: Frame, bytes: Bytes) -> Sent {
        if frame.dest_qpn == MULTICAST_QPN {
            return self.send_to_group(path, frame, bytes);
        }
        match self.paths.state(path) {
            PathState::Open => {
                let Some(peer) = self.peers.meet(path.slot) else { return Sent::Unknown(bytes) };
                self.datagrams.count(*path, &frame, bytes.len());
                Sent::Gone(self.push_datagram(peer, frame, bytes))
            }
            PathState::Closed => {
                self.datagrams.count_lost(*path, &frame, bytes.len());
                Sent::Gone(bytes)
            }
            PathState::Asked => Sent::Unknown(bytes),
        }
    }

    /// Sends a copy to each process that listens where the packet arrives. A process that cannot be met counts as
    /// unreachable, as if its host were down.
    fn send_to_group(&mut self, path: &FabricPath, frame: Frame, bytes: Bytes) -> Sent {
        let Some(slots) = self.paths.group(path) else { return Sent::Unknown(bytes) };
        let mut members = std::mem::take(&mut self.datagrams.members);
        members.extend(slots.iter().filter_map(|slot| self.peers.peer_of_slot(*slot)));
        self.datagrams.count(*path, &frame, bytes.len());
        for peer in members.drain(..) {
            self.push_datagram(peer, frame, bytes.clone());
        }
        self.datagrams.members = members;
        Sent::Gone(bytes)
    }

    /// Puts a datagram into a ring, or behind those waiting for room in one; returns the buffer if its bytes were
    /// copied.
    fn push_datagram(&mut self, peer: PeerId, frame: Frame, bytes: Bytes) -> Bytes {
        self.rings_open = true;
        if self.datagrams.full.is_empty() && self.peers.push(peer, &frame, Outgoing::Bytes(&bytes)) {
            self.datagrams.marks.insert(peer, self.peers.ring_mark(peer));
            return bytes;
        }
        self.datagrams.wait_for_room(self.now, peer, frame, bytes)
    }

    /// Pushes the waiting datagrams, if rings have room again.
    #[inline]
    pub(crate) fn push_full(&mut self, now: Instant) {
        if !self.datagrams.full.is_empty() {
            self.push_waiting(now);
        }
    }

    #[cold]
    fn push_waiting(&mut self, now: Instant) {
        self.datagrams.retry_at = None;
        while let Some((peer, frame, bytes)) = self.datagrams.full.pop_front() {
            let pushed = self.peers.push(peer, &frame, Outgoing::Bytes(&bytes));
            if pushed {
                self.datagrams.marks.insert(peer, self.peers.ring_mark(peer));
            } else if self.peers.is_alive(peer) {
                self.datagrams.full.push_front((peer, frame, bytes));
                self.datagrams.retry_later(now);
                return;
            }
        }
    }

    /// Whether a GID is an Ethernet port's of an adapter on a fabric: elsewhere the sender's GID is this host's, too.
    fn has_ethernet_port(&self, gid: Gid) -> bool {
        let ports = self.devices.values().filter(|device| !device.gone).flat_map(|device| &device.attr.ports);
        let mut ethernet = ports.filter(|port| port.infiniband.as_ref().is_some_and(|port| port.is_ethernet));
        ethernet.any(|port| port.gids.iter().any(|row| row.gid == gid))
    }

    /// Whether a GID belongs to this host.
    fn is_ours(&mut self, gid: Gid) -> bool {
        if let Some((last, ours)) = self.datagrams.last
            && last == gid
        {
            return ours;
        }
        let ours = self.devices.values().any(|device| !device.gone && device.owns(gid));
        self.datagrams.last = Some((gid, ours));
        ours
    }
}

impl<H: HostInterface> Hca<H> {
    /// Whether all other processes have taken the fabric datagrams sent to them.
    pub fn datagrams_are_taken(&mut self) -> bool {
        let (marks, peers) = (&self.context.datagrams.marks, &self.context.peers);
        let own = peers.peer_of_slot(self.slot);
        let mut others = marks.iter().filter(|(peer, _)| Some(**peer) != own);
        others.all(|(peer, mark)| peers.has_taken(*peer, *mark))
    }

    /// Handles new path information: the datagrams that waited for it are sent or lost.
    pub fn release_datagrams(&mut self) {
        for (path, frame, bytes) in self.context.datagrams.take_held() {
            if let Sent::Unknown(bytes) = self.context.send_on_path(&path, frame, bytes) {
                self.context.datagrams.hold(path, frame, bytes);
            }
        }
    }

    /// Handles a datagram from a process of this host: the current frame of its ring.
    #[inline(never)]
    pub(crate) fn handle_datagram(&mut self, now: Instant, frame: &Frame) {
        let mut bytes = [0; DATAGRAM_MAX];
        let Some(bytes) = bytes.get_mut(..frame.bytes as usize).filter(|bytes| bytes.len() > GIDS_LEN) else { return };
        self.context.peers.peek(0, bytes);
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
        // On a fabric whose packets go hop by hop, the switches alone bring them.
        if local.is_some() && self.context.fabric_packets {
            return;
        }
        // The kernel would enforce the same: no process sends in the name of another host, or to one. Over a fabric the
        // sender is another host, and the daemon has said whose path it is.
        let ours = match local {
            Some(local) if frame.dest_qpn == MULTICAST_QPN => local.global && dgid.is_multicast(),
            Some(local) => !local.global || self.context.is_ours(dgid),
            None if frame.code & CODE_ETHERNET != 0 => self.context.has_ethernet_port(dgid),
            None => self.context.is_ours(sgid) && self.context.is_ours(dgid),
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
