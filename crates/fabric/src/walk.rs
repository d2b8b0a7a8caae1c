//! A packet's path from port to port. The rules for each step are in one place and change no state: both forwarding
//! with its counters and verdicts use them.

use crate::counters::Counter;
use crate::head::Head;
use crate::limits::HOPS_MAX;
use crate::node::{SL2VL_DEFAULT, lane_of};
use crate::port::{NONE, Port};
use crate::tables::NO_PORT;
use crate::topology::NodeKind;
use crate::{Fabric, PortRef};
use weft_wire::lrh::{LID_PERMISSIVE, VL_MANAGEMENT, is_unicast};
use weft_wire::mad::subn::PortState;

/// Reason why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// No cable, or no link on it.
    #[error("there is no link")]
    NoLink,
    /// The port's state does not let the packet pass.
    #[error("the port is not active: the subnet manager has not brought it up")]
    NotActive,
    /// The forwarding table has no port for the LID.
    #[error("the forwarding table has no port for the LID")]
    NoRoute,
    /// The forwarding table sends it back out of its input port, or it crossed more than 64 links.
    #[error("the forwarding tables send it in a loop")]
    Loop,
    /// The service level maps to no lane in use.
    #[error("the service level has no virtual lane that is in use")]
    NoLane,
    /// The arbitration tables never serve the lane.
    #[error("the arbitration tables never serve virtual lane {0}")]
    NotServed(u8),
    /// Longer than the link's MTU.
    #[error("longer than the link's MTU")]
    TooLong,
    /// The switch's port filters the partition on input.
    #[error("the switch's port does not let the partition in")]
    PartitionIn,
    /// The switch's port filters the partition on output.
    #[error("the switch's port does not let the partition out")]
    PartitionOut,
    /// The port is not in the partition, or both ends are limited members.
    #[error("the port is not in the partition, or both ends are limited members")]
    Partition,
    /// The port has another LID.
    #[error("the port that it led to has another LID")]
    NotHere,
    /// Dropped by an injected fault.
    #[error("dropped by a fault")]
    Dropped,
    /// Damaged by the cable.
    #[error("damaged by the cable")]
    Damaged,
    /// More in flight than the fabric holds.
    #[error("too much is on the way")]
    NoRoom,
    /// Invalid headers.
    #[error("its headers are malformed")]
    Malformed,
    /// The receiver had no room for longer than the port lets a packet wait.
    #[error("it waited too long at the head of the queue of virtual lane {0}")]
    TooLate(u8),
}

impl Why {
    /// Returns the counters of the port for this drop.
    fn counters(self, management: bool) -> &'static [Counter] {
        match self {
            Why::NoLink | Why::NotActive => &[Counter::XmitDiscards, Counter::InactiveDiscards],
            Why::NoRoute => &[Counter::RcvSwitchRelayErrors, Counter::DlidMappingErrors],
            Why::Loop => &[Counter::RcvSwitchRelayErrors, Counter::LoopingErrors],
            Why::NoLane => &[Counter::RcvSwitchRelayErrors, Counter::VlMappingErrors],
            Why::NotServed(_) | Why::TooLate(_) => &[Counter::XmitDiscards, Counter::SwHoqLifetimeLimitDiscards],
            Why::TooLong => &[Counter::XmitDiscards, Counter::NeighborMtuDiscards],
            Why::PartitionIn => &[Counter::RcvConstraintErrors],
            Why::PartitionOut => &[Counter::XmitConstraintErrors],
            // PortInfo has the counter, see [`crate::violation`].
            Why::Partition => &[],
            Why::NotHere | Why::Malformed => &[Counter::RcvErrors, Counter::MalformedPacketErrors],
            Why::Dropped | Why::NoRoom if management => &[Counter::Vl15Dropped],
            Why::Dropped | Why::NoRoom => &[Counter::XmitDiscards],
            Why::Damaged => &[Counter::SymbolErrors, Counter::RcvErrors, Counter::LocalPhysicalErrors],
        }
    }
}

/// Location and reason of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Refusal {
    /// The port that dropped it.
    pub at: PortRef,
    /// The reason.
    pub why: Why,
}

/// Next step of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It leaves by this port, on this lane.
    Out(u32, u8),
    /// It has arrived at this port.
    Here(u32),
}

/// A failed step: the port, and the reason.
pub(crate) type Failed = (u32, Why);

impl Fabric {
    /// Returns the first step of a packet that a host's port, or a switch's port 0, sends.
    #[inline]
    pub(crate) fn start(&self, from: u32, head: &Head) -> Result<Next, Failed> {
        let port = &self.ports[from as usize];
        if port.kind == NodeKind::Switch {
            return self.relay(from, head);
        }
        if is_unicast(head.dlid) && port.owns(head.dlid) {
            return self.accept(from, head).map(|()| Next::Here(from));
        }
        let mut lane = VL_MANAGEMENT;
        if !head.management {
            lane = lane_of(port.lanes_of_service_levels(), head.sl);
            self.check_lane(from, from, lane)?;
        }
        self.leave(from, head).map(|()| Next::Out(from, lane))
    }

    /// Returns a switch's step for a packet that entered by `from`.
    #[inline]
    pub(crate) fn relay(&self, from: u32, head: &Head) -> Result<Next, Failed> {
        let port = &self.ports[from as usize];
        let own = port.base;
        let info = &port.info;
        if !head.management && info.partition_enforcement_inbound && port.number != 0 && !port.lets_in(head.pkey) {
            return Err((from, Why::PartitionIn));
        }
        let Some(switch) = self.nodes[port.node as usize].switch.as_deref() else { return Err((from, Why::NoRoute)) };
        let number = match head.dlid {
            LID_PERMISSIVE if head.management => 0,
            dlid if dlid > switch.info.linear_fdb_top || !is_unicast(dlid) => NO_PORT,
            dlid => switch.lft.port(dlid),
        };
        if number > port.count {
            return Err((from, Why::NoRoute));
        }
        let out = own + u32::from(number);
        if number == 0 {
            return self.accept(own, head).map(|()| Next::Here(own));
        }
        if out == from {
            return Err((from, Why::Loop));
        }
        let mut lane = VL_MANAGEMENT;
        if !head.management {
            lane = lane_of(switch.sl2vl(port.count, port.number, number), head.sl);
            self.check_lane(from, out, lane)?;
        }
        self.leave(out, head).map(|()| Next::Out(out, lane))
    }

    /// Checks that a lane is in use and served at a port.
    pub(crate) fn check_lane(&self, from: u32, out: u32, lane: u8) -> Result<(), Failed> {
        let port = &self.ports[out as usize];
        if lane >= port.lanes() {
            return Err((from, Why::NoLane));
        }
        if port.lanes() > 1 && port.served & 1 << lane == 0 {
            return Err((out, Why::NotServed(lane)));
        }
        Ok(())
    }

    /// Checks that a packet may leave by a port.
    #[inline]
    pub(crate) fn leave(&self, out: u32, head: &Head) -> Result<(), Failed> {
        let port = &self.ports[out as usize];
        let info = &port.info;
        if !port.is_up() {
            return Err((out, Why::NoLink));
        }
        if head.management {
            return Ok(());
        }
        if info.port_state != PortState::ACTIVE {
            return Err((out, Why::NotActive));
        }
        if head.payload > 128 << info.neighbor_mtu {
            return Err((out, Why::TooLong));
        }
        if info.partition_enforcement_outbound && port.is_external() && !port.admits(head.pkey) {
            return Err((out, Why::PartitionOut));
        }
        Ok(())
    }

    /// Checks that a packet may enter by a port.
    #[inline]
    pub(crate) fn enter(&self, at: u32, head: &Head) -> Result<(), Failed> {
        let state = self.ports[at as usize].info.port_state;
        let open = head.management || state == PortState::ACTIVE || state == PortState::ARMED;
        if open { Ok(()) } else { Err((at, Why::NotActive)) }
    }

    /// Checks that a unicast packet is for this port.
    #[inline]
    pub(crate) fn accept(&self, at: u32, head: &Head) -> Result<(), Failed> {
        let port = &self.ports[at as usize];
        let here = port.owns(head.dlid) || head.management && head.dlid == LID_PERMISSIVE;
        match here {
            false => Err((at, Why::NotHere)),
            true if head.management || port.admits(head.pkey) => Ok(()),
            true => Err((at, Why::Partition)),
        }
    }

    /// Returns the step at the other end of a port's cable.
    #[inline]
    pub(crate) fn land(&self, at: u32, head: &Head) -> Result<Next, Failed> {
        self.enter(at, head)?;
        match self.ports[at as usize].kind {
            NodeKind::Switch => self.relay(at, head),
            _ => self.accept(at, head).map(|()| Next::Here(at)),
        }
    }

    /// Forwards a unicast packet: returns the destination port, the latency of its cables, and the lane of the last
    /// one.
    pub(crate) fn carry(&mut self, from: u32, head: &Head) -> Result<(u32, u64, Option<u8>), Refusal> {
        let (mut latency_ns, mut vl) = (0, None);
        let mut next = self.start(from, head);
        for _ in 0..=HOPS_MAX {
            match next.map_err(|failed| self.blame(failed, head))? {
                Next::Here(at) => return Ok((at, latency_ns, vl)),
                Next::Out(out, lane) => {
                    vl = Some(lane);
                    let (at, ns) = self.cross(out, head, false)?;
                    latency_ns += ns;
                    next = self.land(at, head);
                    // Data makes an armed port active, as the state table defines.
                    self.on_data(at, head);
                }
            }
        }
        Err(self.blame((from, Why::Loop), head))
    }

    /// Crosses one cable, from the sending port to the port at its other end, with all effects of cables on packets.
    #[inline]
    pub(crate) fn cross(&mut self, out: u32, head: &Head, multicast: bool) -> Result<(u32, u64), Refusal> {
        let port = &mut self.ports[out as usize];
        let (at, cable) = (port.peer, port.cable);
        if at == NONE {
            return Err(self.blame((out, Why::NoLink), head));
        }
        port.counters.sent(1, head.words, head.sl, multicast);
        let rough = port.rough || self.drop_ppm != 0;
        let ns = if rough { self.wear(at, cable, head)? } else { 0 };
        self.ports[at as usize].counters.received(1, head.words, head.sl, multicast);
        Ok((at, ns))
    }

    /// Applies the latency and faults of a cable to a packet.
    fn wear(&mut self, at: u32, cable: u32, head: &Head) -> Result<u64, Refusal> {
        let cable = &self.cables[cable as usize];
        let (ns, errors_ppm) = (u64::from(cable.latency_ns), cable.errors_ppm);
        let drop_ppm = if head.dest_qp <= 1 { cable.drop_ppm.max(self.drop_ppm) } else { 0 };
        if self.rng.chance(errors_ppm) {
            return Err(self.blame((at, Why::Damaged), head));
        }
        if self.rng.chance(drop_ppm) {
            return Err(self.blame((at, Why::Dropped), head));
        }
        Ok(ns)
    }

    /// Counts a dropped packet, and reports the drop where required.
    #[cold]
    pub(crate) fn blame(&mut self, (at, why): Failed, head: &Head) -> Refusal {
        let port = &mut self.ports[at as usize];
        for counter in why.counters(head.management) {
            port.counters.count(*counter);
        }
        let refusal = Refusal { at: port.place(), why };
        match why {
            Why::Damaged => self.on_damage(at),
            Why::NotServed(vl) | Why::TooLate(vl) => port.counters.congested(vl),
            Why::Partition => self.on_bad_pkey(at, head),
            Why::PartitionIn | Why::PartitionOut => self.on_bad_pkey_switch(at, head),
            _ => {}
        }
        refusal
    }
}

impl Port {
    /// Returns the lanes of an adapter's service levels.
    pub(crate) fn lanes_of_service_levels(&self) -> u64 {
        self.tables.as_ref().and_then(|tables| tables.sl2vl).unwrap_or(SL2VL_DEFAULT)
    }
}
