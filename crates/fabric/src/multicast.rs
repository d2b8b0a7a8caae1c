//! Multicast packets, of which switches send copies along their multicast tables (IBA 18.2.4.3.3), and datagram packets
//! to one port, hop by hop. The payload stays with the sender: the output is the list of arrivals.

use crate::flight::Replica;
use crate::head::Head;
use crate::limits::{COPIES_MAX, HOPS_MAX, MULTICAST_FDB_CAP};
use crate::node::lane_of;
use crate::port::NONE;
use crate::tables::Mft;
use crate::topology::NodeKind;
use crate::walk::{Failed, Refusal, Why};
use crate::{Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::lrh::{LID_MULTICAST_FIRST, is_multicast, is_unicast};

/// A data packet as switches see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Destination LID, of a port or of a group.
    pub dlid: u16,
    /// Low bits of the source LID.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// P_Key.
    pub pkey: u16,
    /// Source queue pair.
    pub src_qp: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Words of four bytes on the wire, from LRH to VCRC.
    pub words: u32,
}

/// Arrival of a packet, or of a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The port.
    pub port: PortRef,
    /// Latency of its cables.
    pub latency_ns: u64,
    /// Virtual lane on the last cable; `None` if it did not leave its port.
    pub vl: Option<u8>,
}

impl Fabric {
    /// Sends a packet of a host: every port on its path counts it. Calls `arrived` for each port that it arrives at;
    /// for a packet to one port that is dropped, returns the port and the reason.
    pub fn transmit(
        &mut self,
        now: Instant,
        from: PortRef,
        packet: &PacketInfo,
        mut arrived: impl FnMut(Arrival),
    ) -> Result<(), Refusal> {
        self.advance(now);
        let start = self.place(from).ok_or(Refusal { at: from, why: Why::NoLink })?;
        let info = &self.ports[start as usize].info;
        let head = Head {
            slid: info.lid | u16::from(packet.path_bits) & ((1 << (info.lmc & 7)) - 1),
            dlid: packet.dlid,
            sl: packet.sl & 0xf,
            management: false,
            pkey: packet.pkey,
            src_qp: packet.src_qp,
            dest_qp: packet.dest_qp.max(2),
            payload: packet.payload,
            words: packet.words.into(),
        };
        let sent = if is_multicast(packet.dlid) {
            self.flood(start, &head, &mut arrived)
        } else if is_unicast(packet.dlid) {
            self.carry(start, &head).map(|(at, latency_ns, vl)| {
                arrived(Arrival { port: self.ports[at as usize].place(), latency_ns, vl });
            })
        } else {
            Err(Refusal { at: from, why: Why::NoRoute })
        };
        self.send_raised();
        sent
    }

    /// Sends copies along the multicast tables, each counted on its own.
    fn flood(&mut self, from: u32, head: &Head, arrived: &mut impl FnMut(Arrival)) -> Result<(), Refusal> {
        let lane = lane_of(self.ports[from as usize].lanes_of_service_levels(), head.sl);
        let may = self.check_lane(from, from, lane).and_then(|()| self.leave(from, head));
        may.map_err(|failed| self.blame(failed, head))?;
        let (at, ns) = self.cross(from, head, true)?;
        let mut work = std::mem::take(&mut self.copies);
        work.clear();
        work.push(Replica { at, hops: 1, latency_ns: ns, vl: lane });
        let (mut budget, mut outs) = (COPIES_MAX, Vec::new());
        while let Some(copy) = work.pop() {
            self.spread(copy, head, &mut work, (&mut budget, &mut outs), arrived);
        }
        self.copies = work;
        Ok(())
    }

    /// Handles a copy that arrived at a port.
    fn spread(
        &mut self,
        copy: Replica,
        head: &Head,
        work: &mut Vec<Replica>,
        (budget, outs): (&mut usize, &mut Vec<u32>),
        arrived: &mut impl FnMut(Arrival),
    ) {
        let entered = self.enter(copy.at, head);
        if let Err(failed) = entered {
            self.blame(failed, head);
            return;
        }
        self.on_data(copy.at, head);
        match self.branch(copy.at, head, outs) {
            Err(failed) => drop(self.blame(failed, head)),
            Ok(true) => {
                let port = self.ports[copy.at as usize].place();
                arrived(Arrival { port, latency_ns: copy.latency_ns, vl: Some(copy.vl) });
            }
            Ok(false) if usize::from(copy.hops) >= HOPS_MAX || *budget == 0 => {
                self.blame((copy.at, Why::Loop), head);
            }
            Ok(false) => outs.iter().for_each(|out| self.copy_out(copy, *out, head, work, budget)),
        }
    }

    /// Returns where a copy that entered by a port goes on: whether it stays there, and by which ports it leaves the
    /// switch.
    pub(crate) fn branch(&self, at: u32, head: &Head, outs: &mut Vec<u32>) -> Result<bool, Failed> {
        outs.clear();
        let port = &self.ports[at as usize];
        if port.kind != NodeKind::Switch {
            return if port.admits(head.pkey) { Ok(true) } else { Err((at, Why::Partition)) };
        }
        if port.info.partition_enforcement_inbound && !port.lets_in(head.pkey) {
            return Err((at, Why::PartitionIn));
        }
        if !self.has_group(at, head.dlid) {
            outs.push(self.default_port(at)?);
            return Ok(false);
        }
        for position in 0..Mft::positions(port.count) {
            let mut mask = self.group_mask(at, head.dlid, position);
            while mask != 0 {
                let number = position as u32 * Mft::POSITION as u32 + mask.trailing_zeros();
                mask &= mask - 1;
                // Neither back, nor to the switch itself, which is in no group.
                if number != 0 && port.base + number != at {
                    outs.push(port.base + number);
                }
            }
        }
        Ok(false)
    }

    /// Returns the port for groups missing from the table of the switch.
    fn default_port(&self, at: u32) -> Result<u32, Failed> {
        let port = &self.ports[at as usize];
        let Some(switch) = &self.nodes[port.node as usize].switch else { return Err((at, Why::NoRoute)) };
        let primary = switch.info.default_multicast_primary_port;
        let number = if port.number == primary { switch.info.default_multicast_not_primary_port } else { primary };
        if number == 0 || number > port.count || number == port.number {
            return Err((at, Why::NoRoute));
        }
        Ok(port.base + u32::from(number))
    }

    /// Sends one copy out of a port.
    fn copy_out(&mut self, copy: Replica, out: u32, head: &Head, work: &mut Vec<Replica>, budget: &mut usize) {
        if self.ports[out as usize].peer == NONE || *budget == 0 {
            return;
        }
        *budget -= 1;
        let vl = match self.may_copy(copy.at, out, head) {
            Ok(vl) => vl,
            Err(failed) => {
                self.blame(failed, head);
                return;
            }
        };
        if let Ok((at, ns)) = self.cross(out, head, true) {
            work.push(Replica { at, hops: copy.hops + 1, latency_ns: copy.latency_ns + ns, vl });
        }
    }

    /// Returns the lane for a copy from one port of a switch to another, or why it may not go.
    pub(crate) fn may_copy(&self, from: u32, out: u32, head: &Head) -> Result<u8, Failed> {
        let (port, to) = (&self.ports[from as usize], &self.ports[out as usize]);
        let lanes = self.nodes[port.node as usize].switch.as_ref();
        let lanes = lanes.map_or(0, |switch| switch.sl2vl(port.count, port.number, to.number));
        let lane = lane_of(lanes, head.sl);
        self.check_lane(from, out, lane)?;
        self.leave(out, head).map(|()| lane)
    }

    /// Returns whether the switch's table has an entry for a group.
    fn has_group(&self, at: u32, mlid: u16) -> bool {
        let port = &self.ports[at as usize];
        let Some(switch) = &self.nodes[port.node as usize].switch else { return false };
        // A top of 0 means that no manager set it; one below the first group means an empty table.
        let top = match switch.info.multicast_fdb_top {
            0 => LID_MULTICAST_FIRST + (MULTICAST_FDB_CAP - 1),
            top => top,
        };
        mlid <= top && switch.mft.has(mlid, switch.positions)
    }

    fn group_mask(&self, at: u32, mlid: u16, position: usize) -> u16 {
        let switch = &self.nodes[self.ports[at as usize].node as usize].switch;
        let row = switch.as_ref().map_or(&[][..], |switch| switch.mft.row(mlid, switch.positions));
        row.get(position).copied().unwrap_or(0)
    }
}
