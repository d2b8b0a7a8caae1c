//! Data packets on the cables, LRH to VCRC: forwarded hop by hop, counted by every port, with the virtual lane and the
//! VCRC that the last switch gave them. Also packets in flight on cables with latency, and packets that wait for room
//! at the receiver.

use crate::head::Head;
use crate::limits::{TRANSIT_BYTES_MAX, TRANSIT_PACKETS_MAX};
use crate::multicast::{Arrival, PacketInfo};
use crate::port::NONE;
use crate::walk::{Refusal, Why};
use crate::{Counter, Fabric, PortRef};
use std::collections::BTreeMap;
use weft_verbs::{Duration, Instant};
use weft_wire::link_packet::{self, LinkPacket};
use weft_wire::packet::ICRC_LEN;
use weft_wire::{Bth, Packet, WireError};

/// Longest finite HOQLife (IBA 14.2.5.6); here it also stands for the unlimited codes above it.
const HOQ_LIFE_MAX: u8 = 19;
/// HOQLife is this unit times two to the power of its code.
const HOQ_LIFE_UNIT_NS: u64 = 4096;
/// HOQLife where no switch sets one: the port is cabled to another adapter's.
const HOQ_LIFE_NO_SWITCH: u8 = 16;

impl PacketInfo {
    /// Extracts the fields of a packet that switches examine.
    pub fn of(packet: &LinkPacket<'_>) -> Result<PacketInfo, WireError> {
        let bth = packet.bth().ok_or(WireError::Short)?;
        let parsed = Packet::parse(packet.ib).ok();
        let payload = parsed.map_or(packet.ib.len() - Bth::LEN - ICRC_LEN, |parsed| parsed.payload.len());
        // Data packets do not use VL15, whatever their headers say.
        let src_qp = parsed.and_then(|parsed| parsed.ext.deth).map_or(0, |deth| deth.src_qp());
        Ok(PacketInfo {
            dlid: packet.lrh.dlid(),
            path_bits: packet.lrh.slid() as u8,
            sl: packet.lrh.sl(),
            pkey: bth.pkey(),
            src_qp,
            dest_qp: bth.dest_qp(),
            payload: payload as u32,
            // LRH to VCRC, as ports count it.
            words: (u32::from(packet.lrh.packet_length()) * 4 + link_packet::VCRC_LEN as u32).div_ceil(4),
        })
    }
}

impl Fabric {
    /// Forwards a packet that an adapter sends. `arrived` gets the packet from the last cable, once for each port that
    /// a copy arrives at; a dropped packet is counted where it is dropped.
    pub fn forward(
        &mut self,
        now: Instant,
        from: PortRef,
        packet: &mut [u8],
        mut arrived: impl FnMut(Arrival, &[u8]),
    ) -> Result<(), Refusal> {
        self.advance(now);
        let info = self.examine(from, packet)?;
        let mut handed = |arrival: Arrival| {
            arrival.vl.into_iter().for_each(|vl| link_packet::set_vl(packet, vl));
            arrived(arrival, packet);
        };
        self.transmit(now, from, &info, &mut handed)
    }

    /// Checks a packet on behalf of the first switch's port, or of whatever port is at the other end of the adapter's
    /// cable.
    fn examine(&mut self, from: PortRef, packet: &[u8]) -> Result<PacketInfo, Refusal> {
        let start = self.place(from).ok_or(Refusal { at: from, why: Why::NoLink })?;
        let port = &self.ports[start as usize];
        let judge = if port.peer == NONE { start } else { port.peer };
        let parsed = LinkPacket::parse(packet)
            .and_then(|parsed| Ok((parsed.lrh, parsed.grh.map(|grh| grh.sgid()), PacketInfo::of(&parsed)?)));
        let (why, at) = match parsed {
            Ok((lrh, sgid, info)) => {
                if !link_packet::vcrc_holds(packet) {
                    (Why::Damaged, judge)
                } else if !port.owns(lrh.slid()) || sgid.is_some_and(|sgid| !port.has_gid(sgid)) {
                    // The source LID or GID is not the sender's.
                    (Why::Malformed, judge)
                } else if !port.pkeys().contains(&info.pkey) {
                    // The manager has removed the partition meanwhile.
                    (Why::Dropped, start)
                } else {
                    return Ok(info);
                }
            }
            Err(_) => (Why::Malformed, judge),
        };
        Err(self.blame((at, why), &head_of(packet)))
    }

    /// Returns how long packets for this adapter's port wait at the far end of its cable for room at the adapter.
    pub fn patience(&self, to: PortRef) -> Duration {
        let peer = self.place(to).map(|place| self.ports[place as usize].peer).filter(|peer| *peer != NONE);
        let life = peer.map(|peer| &self.ports[peer as usize]).filter(|port| port.is_external());
        let code = life.map_or(HOQ_LIFE_NO_SWITCH, |port| port.info.hoq_life.min(HOQ_LIFE_MAX));
        Duration::from_nanos(HOQ_LIFE_UNIT_NS << code)
    }

    /// Drops a packet for this adapter's port, because it waited too long for room or too much was in flight on a cable
    /// with latency: the port at the other end of its cable counts it.
    pub fn discard(&mut self, to: PortRef, packet: &[u8], late: bool) {
        let Some(place) = self.place(to) else { return };
        let peer = self.ports[place as usize].peer;
        let at = if peer == NONE { place } else { peer };
        let why = if late { Why::TooLate(lane_of(packet)) } else { Why::NoRoom };
        self.blame((at, why), &head_of(packet));
    }

    /// Counts a packet that a host did not send from this port, since it is malformed.
    pub fn refuse(&mut self, from: PortRef) {
        if let Some(place) = self.place(from) {
            self.ports[place as usize].counters.count(Counter::XmitDiscards);
        }
    }

    /// Counts the time that packets for this adapter's port waited for room, the first of them on this lane: the port
    /// at the other end of its cable had data to send but could not.
    pub fn waited(&mut self, to: PortRef, vl: u8, since: Instant, until: Instant) {
        let Some(place) = self.place(to) else { return };
        let peer = self.ports[place as usize].peer;
        if peer != NONE {
            self.ports[peer as usize].counters.waited(vl, since, until);
        }
    }
}

/// Returns the lane of a packet.
pub fn lane_of(packet: &[u8]) -> u8 {
    LinkPacket::parse(packet).map_or(0, |parsed| parsed.lrh.vl())
}

/// Returns the header fields to report for a dropped packet, as far as they can be read.
fn head_of(packet: &[u8]) -> Head {
    let parsed = LinkPacket::parse(packet).ok();
    let info = parsed.and_then(|parsed| PacketInfo::of(&parsed).ok());
    Head {
        slid: parsed.map_or(0, |parsed| parsed.lrh.slid()),
        dlid: info.map_or(0, |info| info.dlid),
        sl: info.map_or(0, |info| info.sl),
        management: false,
        pkey: info.map_or(0, |info| info.pkey),
        src_qp: info.map_or(0, |info| info.src_qp),
        dest_qp: info.map_or(0, |info| info.dest_qp),
        payload: 0,
        words: packet.len().div_ceil(4) as u64,
    }
}

/// A packet in flight: destination port, sender, and bytes.
type Bound = (PortRef, u32, Box<[u8]>);

/// Packets on cables with latency, by arrival time; those of one time in the order of departure.
#[derive(Debug, Default)]
pub struct Transit {
    packets: BTreeMap<(Instant, u64), Bound>,
    count: u64,
    bytes: usize,
}

impl Transit {
    /// Adds a packet in flight until `until`; `sender` is returned on arrival. Returns `false` if too much is in
    /// flight: the packet is then lost.
    #[must_use]
    pub fn depart(&mut self, until: Instant, to: PortRef, sender: u32, packet: &[u8]) -> bool {
        if self.packets.len() >= TRANSIT_PACKETS_MAX || self.bytes + packet.len() > TRANSIT_BYTES_MAX {
            return false;
        }
        self.count += 1;
        self.bytes += packet.len();
        self.packets.insert((until, self.count), (to, sender, packet.into()));
        true
    }

    /// Returns the time of the next arrival.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.packets.keys().next().map(|(at, _)| *at)
    }

    /// Returns the next packet that has arrived: its port, its sender, and its bytes.
    pub fn arrive(&mut self, now: Instant) -> Option<(PortRef, u32, Box<[u8]>)> {
        let first = self.packets.first_entry().filter(|first| first.key().0 <= now)?;
        let arrived = first.remove();
        self.bytes -= arrived.2.len();
        Some(arrived)
    }

    /// Drops all packets in flight.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }
}
