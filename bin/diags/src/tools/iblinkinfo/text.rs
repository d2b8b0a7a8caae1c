//! Output of iblinkinfo: a line for each port, in blocks for each node or (`-l`) by itself.

use std::fmt::Write;

use crate::ib::format::Format;
use crate::ib::names::NodeNames;
use crate::ibnet::link::{Rate, could_be};
use crate::ibnet::port::STATE_DOWN;
use crate::ibnet::{Fabric, Kind, Node, Port};

/// Width of PortInfo's state fields in bits.
const STATE_BITS: u16 = 4;

/// The output's contents and format.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Names of nodes.
    pub names: &'a NodeNames,
    /// Show only links that are down.
    pub down_only: bool,
    /// Show everything about a link in its line.
    pub lines: bool,
    /// Also show HOQLife and VLStallCount.
    pub switch_settings: bool,
    /// Hide ports that are down both now and in this fabric.
    pub known_down: Option<&'a Fabric>,
}

/// State and rate of a port's link, in parentheses.
pub fn link(node: &Node, port: &Port) -> String {
    let state = Format::PortState.text(port.state().into(), STATE_BITS);
    let phys = Format::PhysState.text(port.phys_state().into(), STATE_BITS);
    if port.state() == STATE_DOWN {
        // In this state no other field of PortInfo is valid (C14-24.2.1).
        return format!("(              {state:>6}/{phys:>8})");
    }
    let rate = Rate::of(node, port);
    format!("({:>3} {:>18} {state:>6}/{phys:>8})", rate.width_text(), rate.speed_text())
}

/// The port number, followed by `[NN]`, the number printed on the chassis if there is one.
pub fn external(port: &Port) -> String {
    let num = if port.external == 0 { String::new() } else { port.external.to_string() };
    format!("{:>4}[{num:>2}]", port.num)
}

impl Writer<'_> {
    /// Writes a node's heading and ports.
    pub fn node(&self, out: &mut String, node: &Node, prefix: &str) {
        let mut headed = false;
        for port in node.external_ports() {
            if !self.down_only || port.state() == STATE_DOWN {
                self.head(out, node, &mut headed, prefix);
                self.port(out, node, port, prefix);
            }
        }
    }

    /// Writes a node's heading, once.
    pub fn head(&self, out: &mut String, node: &Node, headed: &mut bool, prefix: &str) {
        if *headed || self.lines {
            return;
        }
        let name = node.called(self.names);
        let kind = match node.kind {
            Kind::SWITCH => {
                let guid = node.port(0).map_or(node.info_port_guid(), |port| port.guid);
                format!("Switch: 0x{guid:016x}")
            }
            Kind::CA => "CA:".to_owned(),
            Kind::ROUTER => "Router:".to_owned(),
            _ => "??:".to_owned(),
        };
        let _ = writeln!(out, "{prefix}{kind} {name}:");
        *headed = true;
    }

    /// Writes a port's line.
    pub fn port(&self, out: &mut String, node: &Node, port: &Port, prefix: &str) {
        if port.state() == STATE_DOWN && self.is_known_down(node, port) {
            return;
        }
        let mut link = link(node, port);
        if self.switch_settings && port.state() != STATE_DOWN {
            let _ = write!(link, " (HOQ:{} VL_Stall:{})", port.hoq_life(), port.vl_stall_count());
        }
        if self.lines {
            let name = node.called(self.names);
            let _ = write!(out, "{prefix}0x{:016x} \"{name:>30}\" ", port.guid);
        } else {
            let _ = write!(out, "{prefix}      ");
        }
        let lid = if node.is_switch() {
            node.sma_lid
        } else {
            if !self.lines {
                let _ = write!(out, "0x{:016x} ", port.guid);
            }
            port.lid
        };
        let _ = write!(out, "{lid:6} {} =={link}==>  {}", external(port), self.remote(node, port));
    }

    /// The other end of the link, up to the newline.
    fn remote(&self, node: &Node, port: &Port) -> String {
        let Some((remote_node, remote)) = self.fabric.remote(port) else {
            return match port.state() {
                STATE_DOWN => "           [  ] \"\" ( )\n".to_owned(),
                _ => "    \"Port not available\"\n".to_owned(),
            };
        };
        let guid = if self.lines { format!("0x{:016x} ", remote.guid) } else { String::new() };
        guid + &remote_text(self.fabric, self.names, (node, port), (remote_node, remote))
    }

    fn is_known_down(&self, node: &Node, port: &Port) -> bool {
        let Some(known) = self.known_down else { return false };
        let twin = known.find_node(node.guid).and_then(|index| known.node(index).port(port.num));
        twin.is_some_and(|twin| twin.state() == STATE_DOWN)
    }
}

/// The other end of a cable: LID, port, name, and the possible width and speed.
pub fn remote_text(
    fabric: &Fabric,
    names: &NodeNames,
    (node, port): (&Node, &Port),
    (remote_node, remote): (&Node, &Port),
) -> String {
    let (width, speed) = could_be(fabric, node, port);
    let lid = if remote.lid != 0 { remote.lid } else { remote_node.sma_lid };
    format!("{lid:6} {} \"{}\" ({width} {speed})\n", external(remote), remote_node.called(names))
}
