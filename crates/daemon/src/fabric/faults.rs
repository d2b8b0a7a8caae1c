//! Faults and repairs on a running fabric: cables and nodes by name, and error messages for impossible changes.

use std::time::Duration;

use weft_fabric::topology::{Speed, Width};
use weft_fabric::{AgentFault, CableView, FaultError, PortRef};
use weft_ipc::Refusal;
use weft_ipc::fabric::{CableChange, NodeChange, PortName};
use weft_verbs::Instant;

use super::Running;
use crate::refusal::{EINVAL, ENODEV, refuse};

/// Longest time in milliseconds that a cable or a node is away before it comes back by itself.
const AWAY_MS_MAX: u32 = 3_600_000;
/// One million per million: all packets.
const PPM_MAX: u32 = 1_000_000;

impl Running {
    /// Changes a cable, named by both ends or by one.
    pub fn change_cable(
        &mut self,
        now: Instant,
        a: &PortName,
        b: Option<&PortName>,
        change: &CableChange,
    ) -> Result<(), Refusal> {
        let a = self.port(a)?;
        let b = b.map(|b| self.port(b)).transpose()?;
        self.repairs += 1;
        if *change == CableChange::Join {
            let b = b.map_or_else(|| self.hanging(a), Ok)?;
            return self.fabric.join(now, a, b).map_err(|error| self.refuse(error));
        }
        let view = self.plugged(a, b)?;
        let done = match change {
            CableChange::Cut => self.fabric.cut(now, a),
            CableChange::Join => Ok(()),
            CableChange::Flap { down_ms } => self.fabric.flap(now, a, away(*down_ms)?),
            CableChange::Degrade { lanes, speed } => {
                let width = lanes.map_or(Ok(view.width), |lanes| width(lanes).map(Some))?;
                let speed = speed.as_deref().map_or(Ok(view.speed), |word| speed_of(word).map(Some))?;
                self.fabric.degrade(now, a, width, speed)
            }
            CableChange::Mend => self.mend(now, a),
            CableChange::Errors { ppm } => self.fabric.set_errors(a, checked(*ppm)?),
            CableChange::Drop { ppm } => self.fabric.set_drop(Some(a), checked(*ppm)?),
        };
        done.map_err(|error| self.refuse(error))
    }

    /// Changes a node.
    pub fn change_node(&mut self, now: Instant, name: &str, change: NodeChange) -> Result<(), Refusal> {
        let node = self.node(name)?;
        self.repairs += 1;
        let done = match change {
            NodeChange::Off => self.fabric.power_off(now, node),
            NodeChange::On => self.fabric.power_on(now, node),
            NodeChange::Reboot { down_ms } => self.fabric.reboot(now, node, away(down_ms)?),
            NodeChange::Agent { silent, delay_ms, guid, ports } => {
                let delay = if delay_ms == 0 { Duration::ZERO } else { away(delay_ms)? };
                self.fabric.set_agent(node, AgentFault { silent, delay, guid, ports })
            }
        };
        done.map_err(|error| self.refuse(error))
    }

    /// Drops this many management datagrams per million on every cable.
    pub fn drop_datagrams(&mut self, ppm: u32) -> Result<(), Refusal> {
        self.repairs += 1;
        self.fabric.set_drop(None, checked(ppm)?).map_err(|error| self.refuse(error))
    }

    /// Returns the index of a node, by its name.
    fn node(&self, name: &str) -> Result<u32, Refusal> {
        self.nodes.get(name).copied().ok_or_else(|| {
            refuse(ENODEV, format!("the fabric has no node {name:?}: `weft topology` shows the names of all"))
        })
    }

    fn port(&self, name: &PortName) -> Result<PortRef, Refusal> {
        let node = self.node(&name.node)?;
        let ports = self.fabric.port_count(node);
        if name.port == 0 || name.port > ports {
            return Err(refuse(EINVAL, format!("{} has no port {}: its ports are 1 to {ports}", name.node, name.port)));
        }
        Ok(PortRef::new(node, name.port))
    }

    /// Returns the cable at a port, and checks that it leads to the other port if one is given.
    fn plugged(&self, a: PortRef, b: Option<PortRef>) -> Result<CableView, Refusal> {
        let cable = self.fabric.cable(a).ok_or_else(|| self.refuse(FaultError::NoCable(a)))?;
        let far = if cable.ends[0] == a { cable.ends[1] } else { cable.ends[0] };
        match b.filter(|b| *b != far) {
            None => Ok(cable),
            Some(b) => {
                let (a, b, far) = (self.spell(a), self.spell(b), self.spell(far));
                Err(refuse(
                    EINVAL,
                    format!("the cable at {a} does not lead to {b} but to {far}: name that, or one end"),
                ))
            }
        }
    }

    /// Returns the far end of the cable that was cut at a port.
    fn hanging(&self, a: PortRef) -> Result<PortRef, Refusal> {
        let cut = self.fabric.cables().find(|cable| !cable.plugged && cable.ends.contains(&a));
        let far = cut.and_then(|cable| cable.ends.into_iter().find(|end| *end != a));
        far.ok_or_else(|| {
            let text = format!("no cable was cut at {}: name both ends of the one to plug", self.spell(a));
            refuse(ENODEV, text)
        })
    }

    /// Removes a cable's faults and limits, so that it carries whatever its ends support.
    fn mend(&mut self, now: Instant, a: PortRef) -> Result<(), FaultError> {
        self.fabric.set_errors(a, 0)?;
        self.fabric.set_drop(Some(a), 0)?;
        self.fabric.degrade(now, a, None, None)
    }

    fn spell(&self, port: PortRef) -> String {
        let node = self.topology.nodes.get(port.node as usize);
        format!("{}:{}", node.map_or("?", |node| &node.name), port.port)
    }

    /// Converts an impossible fault to a message for people.
    fn refuse(&self, error: FaultError) -> Refusal {
        match error {
            FaultError::NoSuchNode(_) | FaultError::NoSuchPort(_) => refuse(ENODEV, error.to_string()),
            FaultError::NoCable(port) => {
                let text = format!("{} has no cable: `weft cable join` plugs one in", self.spell(port));
                refuse(ENODEV, text)
            }
            FaultError::Occupied(port, peer) => {
                let (port, peer) = (self.spell(port), self.spell(peer));
                refuse(EINVAL, format!("{port} has a cable already, to {peer}: cut that first"))
            }
            FaultError::SamePort(port) => {
                refuse(EINVAL, format!("both ends of the cable are {}: name two ports", self.spell(port)))
            }
        }
    }
}

fn width(lanes: u8) -> Result<Width, Refusal> {
    Width::from_lanes(lanes)
        .ok_or_else(|| refuse(EINVAL, format!("no link has {lanes} lanes: choose 1x, 2x, 4x, 8x or 12x")))
}

fn speed_of(word: &str) -> Result<Speed, Refusal> {
    let text = || format!("unknown speed `{word}`; choose SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR");
    Speed::parse(word).ok_or_else(|| refuse(EINVAL, text()))
}

fn checked(ppm: u32) -> Result<u32, Refusal> {
    let text = || format!("{ppm} of a million: choose 0 to {PPM_MAX}");
    if ppm <= PPM_MAX { Ok(ppm) } else { Err(refuse(EINVAL, text())) }
}

fn away(ms: u32) -> Result<Duration, Refusal> {
    let text = || format!("{ms} ms are too long: at most {AWAY_MS_MAX}, or bring it back yourself");
    if ms <= AWAY_MS_MAX { Ok(Duration::from_millis(ms.into())) } else { Err(refuse(EINVAL, text())) }
}
