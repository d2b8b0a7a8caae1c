//! Faults and repairs while the fabric runs: cables cut, joined, flapping or degraded; datagrams lost; nodes powered
//! off.

use crate::cable::Cable;
use crate::flight::Timer;
use crate::node::AgentFault;
use crate::port::NONE;
use crate::topology::{self, End, NodeKind, Speed, Width};
use crate::{Changes, Fabric, PortRef};
use weft_verbs::{Duration, Instant};

/// Reason why a fault is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The fabric has no such node.
    #[error("there is no node {0}")]
    NoSuchNode(u32),
    /// The node has no such port, or it is a switch's port 0, which takes no cable.
    #[error("{0} is no port that takes a cable")]
    NoSuchPort(PortRef),
    /// No cable is plugged in there.
    #[error("{0} has no cable")]
    NoCable(PortRef),
    /// A cable is plugged in there already.
    #[error("{0} has a cable already, to {1}: cut that first")]
    Occupied(PortRef, PortRef),
    /// Both ends are one port.
    #[error("both ends of a cable are {0}")]
    SamePort(PortRef),
}

/// Properties and state of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableView {
    /// Its ends.
    pub ends: [PortRef; 2],
    /// Whether it is plugged in.
    pub plugged: bool,
    /// Largest width that it carries.
    pub width: Option<Width>,
    /// Highest speed that it carries.
    pub speed: Option<Speed>,
    /// Latency of a packet.
    pub latency_ns: u32,
    /// Packets damaged, per million.
    pub errors_ppm: u32,
    /// Management datagrams lost, per million.
    pub drop_ppm: u32,
}

impl Fabric {
    /// Makes the agents of a node answer wrongly, late or not at all; the default fault restores them.
    pub fn set_agent(&mut self, node: u32, fault: AgentFault) -> Result<(), FaultError> {
        self.nodes.get_mut(node as usize).ok_or(FaultError::NoSuchNode(node))?.fault = fault;
        Ok(())
    }

    /// Unplugs the cable at a port. It keeps its properties, and [`Fabric::join`] of the same ports plugs it in again.
    pub fn cut(&mut self, now: Instant, port: PortRef) -> Result<(), FaultError> {
        self.advance(now);
        let cable = self.cable_at(port)?;
        self.cables[cable as usize].rejoined_at = None;
        self.unplug(cable);
        self.send_raised();
        Ok(())
    }

    /// Plugs a cable in between two ports: the one that was cut there, or a new one.
    pub fn join(&mut self, now: Instant, a: PortRef, b: PortRef) -> Result<(), FaultError> {
        self.advance(now);
        let ends = [self.external(a)?, self.external(b)?];
        if a == b {
            return Err(FaultError::SamePort(a));
        }
        for end in ends {
            let port = &self.ports[end as usize];
            if port.peer != NONE {
                return Err(FaultError::Occupied(port.place(), self.ports[port.peer as usize].place()));
            }
        }
        let cable = self.cable_between(ends);
        self.cables[cable as usize].rejoined_at = None;
        self.plug(cable);
        self.train(cable);
        self.send_raised();
        Ok(())
    }

    /// Unplugs the cable at a port and plugs it in again after a time.
    pub fn flap(&mut self, now: Instant, port: PortRef, down: Duration) -> Result<(), FaultError> {
        let cable = self.cable_at(port)?;
        self.cut(now, port)?;
        let at = self.now + down;
        self.cables[cable as usize].rejoined_at = Some(at);
        self.timers.set(at, Timer::Rejoin(cable));
        Ok(())
    }

    pub(crate) fn on_rejoin(&mut self, cable: u32, at: Instant) {
        let spec = &mut self.cables[cable as usize];
        if spec.rejoined_at == Some(at) {
            spec.rejoined_at = None;
            let [a, b] = spec.ends.map(|end| self.ports[end as usize].place());
            // Another cable may have taken a port meanwhile: then this one stays unplugged.
            let _ = self.join(at, a, b);
        }
    }

    /// Limits a cable to this width and speed from now on (`None`: no limit); its link trains anew.
    pub fn degrade(
        &mut self,
        now: Instant,
        port: PortRef,
        width: Option<Width>,
        speed: Option<Speed>,
    ) -> Result<(), FaultError> {
        self.advance(now);
        let cable = self.cable_at(port)?;
        let spec = &mut self.cables[cable as usize];
        (spec.width, spec.speed) = (width, speed);
        self.lose(cable, None);
        self.train(cable);
        self.send_raised();
        Ok(())
    }

    /// Sets a cable's latency.
    pub fn set_latency(&mut self, port: PortRef, ns: u32) -> Result<(), FaultError> {
        let cable = self.cable_at(port)?;
        self.cables[cable as usize].latency_ns = ns.min(topology::limits::LATENCY_NS_MAX);
        self.roughen(cable);
        Ok(())
    }

    /// Sets how many packets per million a cable damages.
    pub fn set_errors(&mut self, port: PortRef, ppm: u32) -> Result<(), FaultError> {
        let cable = self.cable_at(port)?;
        self.cables[cable as usize].errors_ppm = ppm.min(1_000_000);
        self.roughen(cable);
        Ok(())
    }

    /// Sets how many management datagrams per million a cable loses; without a port, every cable.
    pub fn set_drop(&mut self, port: Option<PortRef>, ppm: u32) -> Result<(), FaultError> {
        let ppm = ppm.min(1_000_000);
        match port {
            Some(port) => {
                let cable = self.cable_at(port)?;
                self.cables[cable as usize].drop_ppm = ppm;
                self.roughen(cable);
            }
            None => self.drop_ppm = ppm,
        }
        Ok(())
    }

    /// Updates a cable's ports after a change of its faults: the ports know whether to check them.
    fn roughen(&mut self, cable: u32) {
        let spec = &self.cables[cable as usize];
        let rough = spec.is_rough();
        for end in spec.ends {
            self.ports[end as usize].rough = rough;
        }
        self.bump();
    }

    /// Powers a node off: its links go down, and its settings are lost.
    pub fn power_off(&mut self, now: Instant, node: u32) -> Result<(), FaultError> {
        self.advance(now);
        let places = self.nodes.get(node as usize).ok_or(FaultError::NoSuchNode(node))?.places();
        if !std::mem::take(&mut self.nodes[node as usize].powered) {
            return Ok(());
        }
        for place in places {
            let cable = self.ports[place as usize].cable;
            if cable != NONE {
                self.lose(cable, Some(place));
            }
            self.ports[place as usize].reset();
            self.tell(place, Changes::POWER_OFF | Changes::STATE);
        }
        let node = &mut self.nodes[node as usize];
        node.reset();
        node.boot_at = None;
        self.bump();
        self.send_raised();
        Ok(())
    }

    /// Powers a node on.
    pub fn power_on(&mut self, now: Instant, node: u32) -> Result<(), FaultError> {
        self.advance(now);
        let spec = self.nodes.get_mut(node as usize).ok_or(FaultError::NoSuchNode(node))?;
        spec.boot_at = None;
        if std::mem::replace(&mut spec.powered, true) {
            return Ok(());
        }
        for place in spec.places() {
            self.ports[place as usize].link_ethernet();
            self.tell(place, Changes::POWER_ON | Changes::STATE);
            let cable = self.ports[place as usize].cable;
            if cable != NONE {
                self.train(cable);
            }
        }
        self.bump();
        self.send_raised();
        Ok(())
    }

    /// Powers a node off, and on again after a time.
    pub fn reboot(&mut self, now: Instant, node: u32, down: Duration) -> Result<(), FaultError> {
        self.power_off(now, node)?;
        let at = self.now + down;
        self.nodes[node as usize].boot_at = Some(at);
        self.timers.set(at, Timer::Boot(node));
        Ok(())
    }

    pub(crate) fn on_boot(&mut self, node: u32, at: Instant) {
        if self.nodes[node as usize].boot_at == Some(at) {
            let _ = self.power_on(at, node);
        }
    }

    /// Returns the cable plugged into a port.
    pub fn cable(&self, port: PortRef) -> Option<CableView> {
        self.cable_at(port).ok().map(|cable| self.view(&self.cables[cable as usize]))
    }

    /// Returns every cable, including the cut ones.
    pub fn cables(&self) -> impl Iterator<Item = CableView> + '_ {
        self.cables.iter().map(|cable| self.view(cable))
    }

    fn view(&self, cable: &Cable) -> CableView {
        CableView {
            ends: cable.ends.map(|end| self.ports[end as usize].place()),
            plugged: cable.plugged,
            width: cable.width,
            speed: cable.speed,
            latency_ns: cable.latency_ns,
            errors_ppm: cable.errors_ppm,
            drop_ppm: cable.drop_ppm,
        }
    }

    fn external(&self, port: PortRef) -> Result<u32, FaultError> {
        self.place(port).filter(|_| port.port != 0).ok_or(FaultError::NoSuchPort(port))
    }

    fn cable_at(&self, port: PortRef) -> Result<u32, FaultError> {
        match self.ports[self.external(port)? as usize].cable {
            NONE => Err(FaultError::NoCable(port)),
            cable => Ok(cable),
        }
    }

    /// Returns the cable that was cut between two ports; else reuses the entry of one that was cut at either, or adds
    /// one.
    fn cable_between(&mut self, ends: [u32; 2]) -> u32 {
        let [a, b] = ends;
        let hangs = |cable: &&Cable| !cable.plugged;
        let same = |cable: &Cable| cable.ends == [a, b] || cable.ends == [b, a];
        let touches = |cable: &Cable| cable.ends.contains(&a) || cable.ends.contains(&b);
        let find = |wanted: &dyn Fn(&Cable) -> bool| {
            self.cables.iter().position(|cable| hangs(&cable) && wanted(cable)).map(|place| place as u32)
        };
        if let Some(cable) = find(&same) {
            return cable;
        }
        let end = |place: u32| {
            let port = self.ports[place as usize].place();
            End { node: port.node, port: port.port }
        };
        let fresh = Cable::new(ends, &topology::Cable::new(end(a), end(b)));
        match find(&touches) {
            Some(cable) => {
                self.cables[cable as usize] = fresh;
                cable
            }
            None => {
                self.cables.push(fresh);
                self.cables.len() as u32 - 1
            }
        }
    }

    /// Returns the kind of a node.
    pub fn kind(&self, node: u32) -> Option<NodeKind> {
        self.nodes.get(node as usize).map(|node| node.kind)
    }
}
