//! Links: peer detection, training, and the width and speed that both ends and the cable support.

use crate::cable::Cable;
use crate::flight::Timer;
use crate::head::Head;
use crate::limits::TRAINING;
use crate::port::{NONE, Port};
use crate::state::{self, LinkEvent, PhysEvent, Step};
use crate::topology::{self, NodeKind, Speed, Width};
use crate::{Changes, Counter, Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::mad::subn::{LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortState};

impl Fabric {
    /// Installs a cable of the topology, with its link up at once.
    pub(crate) fn install(&mut self, spec: &topology::Cable) {
        let ends = [spec.a, spec.b].map(|end| self.place(PortRef::from(end)).unwrap_or(NONE));
        let free = |place: &u32| *place != NONE && self.ports[*place as usize].cable == NONE;
        if ends[0] == ends[1] || !ends.iter().all(free) || [spec.a, spec.b].iter().any(|end| end.port == 0) {
            return;
        }
        let cable = self.cables.len() as u32;
        self.cables.push(Cable::new(ends, spec));
        self.plug(cable);
        if self.begin_training(cable) {
            self.cables[cable as usize].trained_at = Some(self.now);
            self.on_trained(cable, self.now);
        }
    }

    /// Plugs a cable's ends into its ports.
    pub(crate) fn plug(&mut self, cable: u32) {
        let [a, b] = self.cables[cable as usize].ends;
        self.cables[cable as usize].plugged = true;
        let rough = self.cables[cable as usize].is_rough();
        for (own, peer) in [(a, b), (b, a)] {
            let port = &mut self.ports[own as usize];
            (port.peer, port.cable) = (peer, cable);
            port.rough = rough;
        }
        self.bump();
    }

    /// Unplugs a cable.
    pub(crate) fn unplug(&mut self, cable: u32) {
        let ends = self.cables[cable as usize].ends;
        self.lose(cable, None);
        let cable = &mut self.cables[cable as usize];
        (cable.plugged, cable.trained_at) = (false, None);
        for end in ends {
            let port = &mut self.ports[end as usize];
            (port.peer, port.cable) = (NONE, NONE);
        }
        self.bump();
    }

    /// Trains the link if both ends see each other and have a common mode.
    pub(crate) fn train(&mut self, cable: u32) {
        if self.begin_training(cable) {
            let at = self.now + TRAINING;
            self.cables[cable as usize].trained_at = Some(at);
            self.timers.set(at, Timer::Train(cable));
        }
    }

    fn begin_training(&mut self, cable: u32) -> bool {
        let spec = &self.cables[cable as usize];
        let ends = spec.ends;
        let ports = ends.map(|end| &self.ports[end as usize]);
        let powered = ports.iter().all(|port| self.nodes[port.node as usize].powered);
        let states = ports.map(|port| port.info.port_physical_state);
        if !spec.plugged || !powered || !states.contains(&PhysState::POLLING) || self.common(cable).is_none() {
            return false;
        }
        let steps = states.map(|state| state::physical(state, PhysEvent::PeerSeen, PhysState::POLLING));
        let [Step::To(a), Step::To(b)] = steps else { return false };
        for (end, state) in ends.into_iter().zip([a, b]) {
            self.ports[end as usize].set_physical_state(state);
        }
        true
    }

    /// Returns the best width and speed that both ends and the cable support.
    fn common(&self, cable: u32) -> Option<(LinkWidth, Speed)> {
        let cable = &self.cables[cable as usize];
        let [a, b] = cable.ends.map(|end| &self.ports[end as usize]);
        let widths = a.info.link_width_enabled & b.info.link_width_enabled;
        let limit = cable.width.unwrap_or(Width::X12).lanes();
        let width = Width::ALL
            .into_iter()
            .rev()
            .find(|width| width.lanes() <= limit && widths.contains(LinkWidth::from_bits_retain(width.bit())))?;
        let limit = cable.speed.unwrap_or(Speed::Xdr).min(a.speed).min(b.speed);
        let works = |speed: &Speed| match speed {
            // On FDR hardware FDR10 is used only where one of the ends or the cable is limited to it.
            Speed::Fdr10 => limit == Speed::Fdr10,
            speed => {
                let both = a.speed_enabled(*speed) && b.speed_enabled(*speed);
                *speed <= limit && both && a.fec.common(&b.fec, *speed).is_some()
            }
        };
        let speed = Speed::ALL.into_iter().rev().find(works)?;
        Some((LinkWidth::from_bits_retain(width.bit()), speed))
    }

    /// Ends the training of a cable's link.
    pub(crate) fn on_trained(&mut self, cable: u32, at: Instant) {
        if self.cables[cable as usize].trained_at != Some(at) {
            return;
        }
        self.cables[cable as usize].trained_at = None;
        let Some((width, speed)) = self.common(cable) else { return self.lose(cable, None) };
        let ends = self.cables[cable as usize].ends;
        let [a, b] = ends.map(|end| self.ports[end as usize].fec);
        let fec = a.common(&b, speed).unwrap_or_default();
        for end in ends {
            let port = &mut self.ports[end as usize];
            let step = state::physical(port.info.port_physical_state, PhysEvent::Trained, PhysState::POLLING);
            if let Step::To(state) = step {
                port.set_physical_state(state);
                port.run_at(width, speed);
                port.fec.active = fec;
                self.link_event(end, LinkEvent::PhyUp);
            }
        }
        self.measure(cable);
    }

    /// Writes the link's round-trip latency into both ends.
    fn measure(&mut self, cable: u32) {
        let cable = &self.cables[cable as usize];
        let round_trip = (cable.latency_ns / 2).min(0xff_ffff);
        for end in cable.ends {
            self.ports[end as usize].info.link_round_trip_latency = round_trip;
        }
    }

    /// Takes a cable's link down. `by` caused it; the other end counts LinkDowned.
    pub(crate) fn lose(&mut self, cable: u32, by: Option<u32>) {
        self.cables[cable as usize].trained_at = None;
        for end in self.cables[cable as usize].ends {
            let port = &mut self.ports[end as usize];
            let (physical, default) = (port.info.port_physical_state, port.info.link_down_default_state);
            if let Step::To(state) = state::physical(physical, PhysEvent::Lost, default) {
                port.set_physical_state(state);
            }
            let was_up = physical == PhysState::LINK_UP;
            if was_up && by != Some(end) {
                port.counters.count(Counter::LinkDowned);
            }
            self.link_event(end, LinkEvent::PhyDown);
        }
    }

    /// Applies an event to a port's logical state; returns whether that was allowed.
    pub(crate) fn link_event(&mut self, place: u32, event: LinkEvent) -> bool {
        let port = &mut self.ports[place as usize];
        match state::link(port.info.port_state, event) {
            Step::Refuse => return false,
            Step::Stay => return true,
            Step::To(state) => {
                let (kind, number, node) = (port.kind, port.number, port.node);
                let was = std::mem::replace(&mut port.info.port_state, state);
                self.bump();
                self.tell(place, Changes::STATE);
                let noted = state == PortState::DOWN || was == PortState::DOWN;
                if kind == NodeKind::Switch && number != 0 && noted {
                    self.on_port_state_change(node);
                }
            }
        }
        true
    }

    /// Handles a data packet received by a port.
    #[inline]
    pub(crate) fn on_data(&mut self, place: u32, head: &Head) {
        if !head.management && self.ports[place as usize].info.port_state == PortState::ARMED {
            self.link_event(place, LinkEvent::Data);
        }
    }

    /// Sets a port's physical state, as a manager may. Its link, if it has one, goes down and trains anew.
    pub(crate) fn set_physical(&mut self, place: u32, event: PhysEvent) {
        let cable = self.ports[place as usize].cable;
        if cable != NONE {
            self.lose(cable, Some(place));
        }
        let port = &mut self.ports[place as usize];
        let info = &port.info;
        if let Step::To(state) = state::physical(info.port_physical_state, event, info.link_down_default_state) {
            port.set_physical_state(state);
            self.tell(place, Changes::STATE);
        }
        if cable != NONE {
            self.train(cable);
        }
    }
}

impl Port {
    /// Brings the link up at this width and speed.
    fn run_at(&mut self, width: LinkWidth, speed: Speed) {
        self.active_speed = speed;
        let info = &mut self.info;
        info.link_width_active = width;
        info.link_speed_active = LinkSpeed::from_bits_retain(speed.bit());
        info.link_speed_ext_active = LinkSpeedExt::from_bits_retain(speed.bit_ext());
        info.link_speed_ext_active2 = LinkSpeedExt2::from_bits_retain(speed.bit_ext2());
    }
}
