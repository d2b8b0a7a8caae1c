//! Flows: the packets of a batch with the same path, from one address to one slot of another. Recently used flows are
//! kept with all data needed for sending on them.

use std::io;
use std::net::IpAddr;

use weft_sys::udp::Path;
use weft_transport::{TxBatch, TxPacket};
use weft_verbs::{Gid, QPN_INDEX_BITS};
use weft_wire::ROCE_V2_PORT;
use weft_wire::icrc;
use weft_wire::roce::IpMeta;

use crate::ether::EtherLink;
use crate::peer::PeerSocket;
use crate::seal::Seeds;
use crate::sockets::TxSockets;

/// Maximum number of flows kept between batches; one batch may use more.
const FLOWS_MAX: usize = 64;

/// Hop limit if the address vector has none.
const HOP_LIMIT_DEFAULT: u8 = weft_sys::udp::HOP_LIMIT_DEFAULT;

/// Messages after which a flow gets a socket of its own: its cost is soon recovered.
const MESSAGES_TO_EARN: u32 = 64;
/// Factor on that number after a flow has given up its socket.
const EARN_AGAIN_FACTOR: u32 = 64;

/// The fields that packets of one flow have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowKey {
    sgid: Gid,
    dgid: Gid,
    ifindex: u32,
    slot: u32,
    traffic_class: u8,
    hop_limit: u8,
}

impl FlowKey {
    /// Returns the key of a packet.
    #[inline]
    pub fn of(packet: &TxPacket) -> FlowKey {
        let av = &packet.av;
        FlowKey {
            sgid: av.sgid,
            dgid: av.dgid,
            ifindex: av.ifindex,
            slot: packet.dest_qpn >> QPN_INDEX_BITS,
            traffic_class: av.traffic_class,
            hop_limit: av.hop_limit,
        }
    }

    fn path(&self) -> Path {
        // The routing table knows best which interface leads to an address, unless the address means nothing without an
        // interface.
        let scoped = self.dgid.is_link_local() || self.dgid.is_multicast();
        Path {
            src: self.sgid.ip(),
            dst: self.dgid.ip(),
            port: ROCE_V2_PORT,
            ifindex: if scoped { self.ifindex } else { 0 },
            traffic_class: self.traffic_class,
            hop_limit: if self.hop_limit == 0 { HOP_LIMIT_DEFAULT } else { self.hop_limit },
        }
    }
}

/// A flow.
#[derive(Debug)]
pub struct Flow {
    key: FlowKey,
    /// Path of its packets.
    pub path: Path,
    /// Index of the shared socket that it uses.
    pub socket: usize,
    /// Source port of that socket.
    pub sport: u16,
    /// ICRC seeds of its packets on that socket.
    pub seeds: Seeds,
    /// Its own socket, if it has one.
    pub peer: Option<PeerSocket>,
    /// Messages sent since it last gave up its own socket, or ever, and the number that earns it one.
    messages: u32,
    earns_at: u32,
    /// Its packets in the current batch, by index.
    pub packets: Vec<u16>,
}

impl Flow {
    /// Returns the headers beneath its packets' BTH.
    pub fn meta(&self, sport: u16, ip_id: u16) -> IpMeta {
        IpMeta {
            src: self.path.src,
            dst: self.path.dst,
            sport,
            traffic_class: self.path.traffic_class,
            hop_limit: self.path.hop_limit,
            ip_id,
        }
    }

    /// Counts sent messages.
    #[inline]
    pub fn on_sent(&mut self, messages: usize) {
        self.messages = self.messages.saturating_add(messages as u32);
    }

    /// Whether its use so far earns it a socket of its own now.
    #[inline]
    pub fn earns_peer(&self) -> bool {
        self.peer.is_none() && self.messages >= self.earns_at
    }

    /// Gives it one if possible: a group of receivers is no peer, and only IPv6 can name an interface.
    #[cold]
    pub fn connect(&mut self, segments: bool, entropy: u32) {
        let nameable = self.path.ifindex == 0 || self.path.dst.is_ipv6();
        if nameable && !self.key.dgid.is_multicast() {
            self.peer = PeerSocket::open(&self.path, segments, entropy).ok();
        }
        if self.peer.is_none() {
            self.disconnect();
        }
    }

    /// Returns to the shared socket, for a long time.
    #[cold]
    pub fn disconnect(&mut self) {
        self.peer = None;
        self.messages = 0;
        self.earns_at = self.earns_at.saturating_mul(EARN_AGAIN_FACTOR);
    }
}

/// The flows of the current batch and the recently used ones.
#[derive(Debug, Default)]
pub struct Flows {
    flows: Vec<Flow>,
    /// Flows of the current batch, in order of their first packets.
    active: Vec<usize>,
    /// Whether the current batch holds packets for another link.
    passed_over: bool,
}

impl Flows {
    /// Sorts a batch's packets into flows, except those of RoCE v1. Returns how many cannot be sent at all (addresses
    /// of different families, no socket available).
    pub fn sort(&mut self, batch: &TxBatch, sockets: &mut TxSockets) -> u64 {
        let mut refused = 0;
        let mut last: Option<usize> = None;
        for (index, packet) in batch.packets.iter().enumerate() {
            if EtherLink::takes(packet) {
                self.passed_over = true;
                continue;
            }
            let key = FlowKey::of(packet);
            let at = match last {
                Some(at) if self.flows[at].key == key => at,
                _ => match self.find(key, sockets) {
                    Ok(at) => at,
                    Err(_) => {
                        refused += 1;
                        continue;
                    }
                },
            };
            if self.flows[at].packets.is_empty() {
                self.active.push(at);
            }
            self.flows[at].packets.push(index as u16);
            last = Some(at);
        }
        refused
    }

    /// Takes the nth flow with packets; [`Flows::put_back`] returns its list.
    pub fn take_active(&mut self, nth: usize) -> Option<(&mut Flow, Vec<u16>)> {
        let at = *self.active.get(nth)?;
        let flow = self.flows.get_mut(at)?;
        let packets = std::mem::take(&mut flow.packets);
        Some((flow, packets))
    }

    /// Returns the list of packets for reuse.
    pub fn put_back(&mut self, nth: usize, mut packets: Vec<u16>) {
        packets.clear();
        if let Some(flow) = self.active.get(nth).and_then(|&at| self.flows.get_mut(at)) {
            flow.packets = packets;
        }
    }

    /// Ends the batch; returns whether it holds packets for another link.
    pub fn finish(&mut self) -> bool {
        self.active.clear();
        self.flows.truncate(FLOWS_MAX);
        std::mem::take(&mut self.passed_over)
    }

    fn find(&mut self, key: FlowKey, sockets: &mut TxSockets) -> io::Result<usize> {
        if let Some(found) = self.flows.iter().position(|f| f.key == key) {
            return Ok(found);
        }
        let path = key.path();
        let socket = sockets.index(path.dst, key.slot)?;
        let sport = sockets.get(socket).map_or(0, |s| s.port);
        let covered = match (path.src, path.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => icrc::Flow::V4 { src, dst, sport },
            (IpAddr::V6(src), IpAddr::V6(dst)) => icrc::Flow::V6 { src, dst, sport },
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let seeds = Seeds::new(covered);
        let (peer, messages, earns_at) = (None, 0, MESSAGES_TO_EARN);
        let flow = Flow { key, path, socket, sport, seeds, peer, messages, earns_at, packets: Vec::new() };
        let idle = self.flows.iter().position(|f| f.packets.is_empty());
        match idle.filter(|_| self.flows.len() >= FLOWS_MAX) {
            Some(idle) => {
                self.flows[idle] = flow;
                Ok(idle)
            }
            None => {
                self.flows.push(flow);
                Ok(self.flows.len() - 1)
            }
        }
    }
}
