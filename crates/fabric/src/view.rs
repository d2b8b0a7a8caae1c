//! State of a fabric for hosts and people, read without a datagram: the port attributes of verbs and of system files.

use crate::counters::Split;
use crate::node::{AgentFault, lane_of};
use crate::tables::{Lft, PKEY_DEFAULT};
use crate::topology::{LinkLayer, Speed};
use crate::{Changes, Counter, Fabric, PortRef, Traffic};
use weft_verbs::Instant;
use weft_wire::lrh::is_unicast;
use weft_wire::mad::notice::LocalChangesDetails;
use weft_wire::mad::subn::{CapabilityMask, NodeDescription, PortInfo, SwitchInfo};

impl Fabric {
    /// Returns the number of nodes.
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the number of a node's external ports.
    pub fn port_count(&self, node: u32) -> u8 {
        self.nodes.get(node as usize).map_or(0, |node| node.ports)
    }

    /// Returns whether a node has power.
    pub fn powered(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.powered)
    }

    /// Returns whether a node's management agents answer wrongly, late or not at all.
    pub fn has_agent_fault(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.fault != AgentFault::default())
    }

    /// Returns a node's NodeDescription.
    pub fn description(&self, node: u32) -> Option<NodeDescription> {
        self.nodes.get(node as usize).map(|node| node.description)
    }

    /// Changes a node's description; its subnet manager gets a trap.
    pub fn set_description(&mut self, now: Instant, node: u32, text: &str) {
        self.advance(now);
        if (node as usize) < self.nodes.len() {
            self.describe(node, NodeDescription::new(text));
            self.send_raised();
        }
    }

    /// Returns a port's PortInfo, including its M_Key.
    pub fn port_info(&self, port: PortRef) -> Option<PortInfo> {
        let port = &self.ports[self.place(port)? as usize];
        Some(PortInfo { local_port_num: port.number, ..port.info })
    }

    /// Returns a switch's SwitchInfo.
    pub fn switch_info(&self, node: u32) -> Option<SwitchInfo> {
        Some(self.nodes.get(node as usize)?.switch.as_ref()?.info)
    }

    /// Returns the port that a switch forwards a LID to; `None` if it has none for it.
    pub fn forwarding(&self, node: u32, lid: u16) -> Option<u8> {
        let switch = self.nodes.get(node as usize)?.switch.as_ref()?;
        let port = switch.lft.port(lid);
        (is_unicast(lid) && lid <= switch.info.linear_fdb_top && port != crate::tables::NO_PORT).then_some(port)
    }

    /// Returns the lane of a switch for a service level from one port to another.
    pub fn lane(&self, node: u32, (from, to): (u8, u8), sl: u8) -> Option<u8> {
        let held = self.nodes.get(node as usize)?;
        Some(lane_of(held.switch.as_ref()?.sl2vl(held.ports, from, to), sl))
    }

    /// Returns SLtoVLMappingTable of an adapter's port: four bits for each service level, the highest for level 0.
    pub fn sl_to_vl(&self, port: PortRef) -> Option<u64> {
        Some(self.ports[self.place(port)? as usize].lanes_of_service_levels())
    }

    /// Number of LIDs in a block of a forwarding table.
    pub const FORWARDING_BLOCK: usize = Lft::BLOCK;

    /// Sets or clears capabilities of a host's port, as its programs do: a subnet manager, a communication manager. Its
    /// subnet manager gets a trap.
    pub fn set_capabilities(&mut self, now: Instant, port: PortRef, which: CapabilityMask, set: bool) {
        self.advance(now);
        let Some(at) = self.place(port) else { return };
        let info = &mut self.ports[at as usize].info;
        let before = info.capability_mask;
        info.capability_mask.set(which, set);
        if info.capability_mask != before {
            self.tell(at, Changes::CAPABILITIES);
            self.on_local_change(at, LocalChangesDetails::default());
            self.send_raised();
        }
    }

    /// Returns the NodeGUID.
    pub fn node_guid(&self, node: u32) -> Option<u64> {
        self.nodes.get(node as usize).map(|node| node.guid)
    }

    /// Returns the link layer.
    pub fn link_layer(&self, port: PortRef) -> Option<LinkLayer> {
        Some(self.ports[self.place(port)? as usize].link_layer)
    }

    /// Returns the PortGUID.
    pub fn port_guid(&self, port: PortRef) -> Option<u64> {
        Some(self.ports[self.place(port)? as usize].guid)
    }

    /// Returns the GID of entry `index`: all zeros for an empty entry, `None` for a missing one.
    pub fn gid(&self, port: PortRef, index: u8) -> Option<[u8; 16]> {
        let port = &self.ports[self.place(port)? as usize];
        if index >= port.info.guid_cap {
            return None;
        }
        let guid = match index {
            0 => port.guid,
            index => port.tables.as_ref().map_or(0, |tables| tables.guid(index.into())),
        };
        let prefix = if guid == 0 { 0 } else { port.info.gid_prefix };
        Some((u128::from(prefix) << 64 | u128::from(guid)).to_be_bytes())
    }

    /// Returns the filled part of the P_Key table.
    pub fn pkeys(&self, port: PortRef) -> &[u16] {
        self.place(port).map_or(&[PKEY_DEFAULT], |place| self.ports[place as usize].pkeys())
    }

    /// Returns how many times the subnet manager asked programs at a port to register again.
    pub fn reregistrations(&self, port: PortRef) -> u32 {
        self.place(port).map_or(0, |place| self.ports[place as usize].reregistrations)
    }

    /// Returns the speed of the link at a port; `None` without a link.
    pub fn speed(&self, port: PortRef) -> Option<Speed> {
        let port = &self.ports[self.place(port)? as usize];
        (port.is_up() || port.is_up_on_ethernet()).then_some(port.active_speed)
    }

    /// Returns the port at the other end of the cable.
    pub fn peer(&self, port: PortRef) -> Option<PortRef> {
        let peer = self.ports[self.place(port)? as usize].peer;
        self.ports.get(peer as usize).map(|port| port.place())
    }

    /// Returns a counter of a port since power-on.
    pub fn counter(&self, port: PortRef, counter: Counter) -> u64 {
        self.place(port).map_or(0, |place| self.ports[place as usize].counters.total(counter))
    }

    /// Returns the traffic of a port since power-on.
    pub fn traffic(&self, port: PortRef) -> Traffic {
        self.place(port).map_or(Traffic::default(), |place| self.ports[place as usize].counters.traffic())
    }

    /// Returns the four-byte words, from LRH to VCRC, that a port sent and received at a service level since power-on.
    pub fn traffic_of_level(&self, port: PortRef, sl: u8) -> (u64, u64) {
        let of = |place: u32, split| self.ports[place as usize].counters.part_total(split, sl.into());
        self.place(port).map_or((0, 0), |place| (of(place, Split::XmitData), of(place, Split::RcvData)))
    }

    /// Returns the first port that has a LID by its base LID and LMC. Searches every port.
    pub fn by_lid(&self, lid: u16) -> Option<PortRef> {
        let owns = |port: &&crate::port::Port| is_unicast(lid) && !port.is_external() && port.owns(lid);
        self.ports.iter().find(owns).map(|port| port.place())
    }
}
