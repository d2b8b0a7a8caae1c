//! Requests of the manager to nodes (Get and Set), and the SMPs that carry them.

use weft_wire::mad::subn::Smp;
use weft_wire::mad::{AttrId, Mad, Method};

use crate::manager::Manager;
use crate::subnet::PortIx;

/// A Get or Set request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    pub what: What,
    /// Target port.
    pub at: PortIx,
    /// Further selector: a block, an input port.
    pub arg: u32,
}

/// Subject of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// NodeInfo of the manager's own node.
    OwnNode,
    /// NodeInfo of the node at the other end of a port's cable.
    NodeInfo,
    /// The same, to check whether two nodes share one GUID: `arg` is the index in [`super::Sweep::doubts`].
    Verify,
    NodeDescription,
    SwitchInfo,
    /// SwitchInfo in a light sweep, which shows whether anything changed.
    Changed,
    PortInfo,
    PKeys,
    /// Clears PortStateChange before the manager reads a switch's ports.
    ClearChange,
    SetSwitchInfo,
    /// Configures a port, and arms it if its link is up.
    SetPort,
    /// Moves a port to Active.
    Activate,
    /// Disables a port for good.
    Disable,
    /// PortInfo of a port after it refused [`What::SetPort`] (`arg` 0) or [`What::Activate`] (1).
    ReadBack,
    SetLft,
    SetMft,
    SetPKeys,
    SetSlToVl,
    SetVlArb,
    SetGuids,
    /// SMInfo in a sweep.
    SmInfo,
    /// SMInfo of the master, polled by a standby: `arg` is the LID to poll, 0 for a directed route.
    Poll,
    /// Set of SMInfo at another manager: `arg` is the control.
    Control,
}

impl What {
    /// Whether the sweep waits for the answer.
    pub fn of_sweep(self) -> bool {
        !matches!(self, What::Poll | What::Control | What::Disable)
    }

    /// Whether the request goes to the far end of a port's cable rather than to the port.
    pub fn is_beyond(self) -> bool {
        matches!(self, What::NodeInfo | What::Verify)
    }

    fn attribute(self) -> (Method, AttrId) {
        use What::*;
        match self {
            OwnNode | NodeInfo | Verify => (Method::GET, AttrId::NODE_INFO),
            NodeDescription => (Method::GET, AttrId::NODE_DESCRIPTION),
            SwitchInfo | Changed => (Method::GET, AttrId::SWITCH_INFO),
            PortInfo | ReadBack => (Method::GET, AttrId::PORT_INFO),
            PKeys => (Method::GET, AttrId::PKEY_TABLE),
            ClearChange | SetSwitchInfo => (Method::SET, AttrId::SWITCH_INFO),
            SetPort | Activate | Disable => (Method::SET, AttrId::PORT_INFO),
            SetLft => (Method::SET, AttrId::LINEAR_FORWARDING_TABLE),
            SetMft => (Method::SET, AttrId::MULTICAST_FORWARDING_TABLE),
            SetPKeys => (Method::SET, AttrId::PKEY_TABLE),
            SetSlToVl => (Method::SET, AttrId::SL_TO_VL_TABLE),
            SetVlArb => (Method::SET, AttrId::VL_ARBITRATION_TABLE),
            SetGuids => (Method::SET, AttrId::GUID_INFO),
            SmInfo | Poll => (Method::GET, AttrId::SM_INFO),
            Control => (Method::SET, AttrId::SM_INFO),
        }
    }
}

/// An SMP with its destination.
pub(crate) struct Addressed {
    pub dlid: u16,
    pub mad: Mad,
}

impl Manager {
    /// Builds the SMP of a request; `None` if the request has become pointless.
    pub(crate) fn datagram(&self, ask: Ask, number: u32) -> Option<Addressed> {
        let (method, attribute) = ask.what.attribute();
        let modifier = self.modifier(ask);
        let key = self.key_for(ask, self.wire.tries(number));
        let mut smp = if ask.what == What::Poll && ask.arg != 0 {
            Smp::lid_routed(method, number.into(), attribute, modifier, key)
        } else {
            let mut smp = Smp::directed(method, number.into(), attribute, modifier, key, &[])?;
            let hops = self.route(ask, &mut smp.initial_path)?;
            smp.set_hop_count(hops);
            smp
        };
        if method == Method::SET {
            smp.data = self.content(ask)?;
        } else if ask.what == What::NodeInfo && self.is_linked(ask.at) {
            return None;
        }
        let dlid = if smp.is_directed() { weft_wire::lrh::LID_PERMISSIVE } else { ask.arg as u16 };
        Some(Addressed { dlid, mad: smp.to_mad() })
    }

    /// Writes the directed route of a request into `path`, and returns the number of hops.
    fn route(&self, ask: Ask, path: &mut [u8; 64]) -> Option<u8> {
        if ask.what == What::OwnNode {
            return Some(0);
        }
        let mut hops = self.subnet.write_route(ask.at, path)?;
        if ask.what.is_beyond() {
            hops += 1;
            *path.get_mut(usize::from(hops))? = ask.at.port;
        }
        Some(hops)
    }

    fn modifier(&self, ask: Ask) -> u32 {
        use What::*;
        let port = u32::from(ask.at.port);
        let is_switch = self.subnet.node(ask.at.node).is_some_and(|node| node.switch.is_some());
        match ask.what {
            PortInfo | ReadBack | SetPort | Activate | Disable => port,
            PKeys | SetPKeys if is_switch => port << 16 | ask.arg,
            SetSlToVl if is_switch => ask.arg,
            SetVlArb if is_switch => ask.arg << 16 | port,
            SetVlArb => ask.arg << 16,
            SetSlToVl => 0,
            PKeys | SetPKeys | SetGuids | SetLft | SetMft | Control => ask.arg,
            _ => 0,
        }
    }

    /// Returns the attribute content of a Set.
    fn content(&self, ask: Ask) -> Option<[u8; 64]> {
        use What::*;
        match ask.what {
            ClearChange | SetSwitchInfo => Some(self.wanted_switch(ask)?.encode()),
            SetPort => Some(self.port_to_send(ask.at)?.encode()),
            Activate => Some(self.port_to_activate(ask.at)?.encode()),
            Disable => Some(self.port_to_disable(ask.at)?.encode()),
            SetLft => self.lft_block(ask.at.node, ask.arg),
            Control => Some(self.sm_info_for(true).encode()),
            _ => self.table_block(ask),
        }
    }
}
