//! Ports: hardware properties, settings of the manager, and counters.

use crate::counters::Counters;
use crate::fec::Fec;
use crate::limits::{GUIDS, MTU_CAP, VL_ARBITRATION_CAP, VL_CAP};
use crate::tables::{PKEY_DEFAULT, PortTables, pkey_enters, pkeys_match};
use crate::topology::{self, LinkLayer, Node as NodeSpec, NodeKind, Speed, Width};
use crate::{Changes, PortRef};
use weft_verbs::Instant;
use weft_wire::mad::subn::{
    CapabilityMask, CapabilityMask2, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortInfo, PortState,
};

/// Index that means no port.
pub(crate) const NONE: u32 = u32::MAX;
/// Prefix of link-local GIDs, the default until a manager sets another (IBA 4.1.1).
const GID_PREFIX_DEFAULT: u64 = 0xfe80_0000_0000_0000;
/// SubnetTimeOut until a manager sets another: about a second.
const SUBNET_TIMEOUT_DEFAULT: u8 = 18;
/// RespTimeValue: about a quarter of a second.
const RESP_TIME: u8 = 16;
/// LocalPhyErrors and OverrunErrors until a manager sets others.
const THRESHOLD_DEFAULT: u8 = 8;
/// MTU of RoCE over an Ethernet MTU of 1500 bytes: 1024 bytes.
const ETHERNET_MTU: u8 = 3;

/// A port of a running fabric. Tens of thousands of them exceed every cache, so the fields that a passing SMP reads and
/// counts come first and fill one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// Index of the port at the other end of its cable.
    pub peer: u32,
    /// Index of its cable.
    pub cable: u32,
    /// Index that port number 0 of its node has, or would have.
    pub base: u32,
    /// Index of its node.
    pub node: u32,
    pub counters: Counters,
    pub number: u8,
    /// External ports of its node.
    pub count: u8,
    pub kind: NodeKind,
    /// Whether there is a link: PortPhysicalState is LinkUp.
    up: bool,
    /// Whether its cable has latency, or damages or loses packets.
    pub rough: bool,
    /// Lanes that its arbitration tables serve, one bit each.
    pub served: u16,
    pub info: PortInfo,
    pub tables: Option<Box<PortTables>>,
    pub guid: u64,
    pub width: Width,
    pub speed: Speed,
    /// Speed of the active link.
    pub active_speed: Speed,
    /// Its error correction modes.
    pub fec: Fec,
    /// Changes not yet reported to its host.
    pub changes: Changes,
    /// When the lease period of a violated M_Key ends.
    pub lease_end: Option<Instant>,
    /// Damaged packets since the last that counted against the link's integrity.
    pub damaged: u8,
    /// Times that the subnet manager asked programs to register again.
    pub reregistrations: u32,
    pub link_layer: LinkLayer,
    /// Whether it has a cable to the Ethernet switch.
    is_on_ethernet: bool,
}

const _: () = assert!(std::mem::offset_of!(Port, served) <= 64);

impl Port {
    /// Creates external port `number` of a node, or port 0 of a switch, in its power-on state.
    pub fn new(spec: &NodeSpec, node: u32, base: u32, number: u8) -> Port {
        let port_0 = || topology::Port::infiniband(spec.guid, Width::X4, Speed::Sdr);
        let hardware = spec.port(number).copied().unwrap_or_else(port_0);
        let mut port = Port {
            peer: NONE,
            cable: NONE,
            base,
            node,
            up: false,
            rough: false,
            number,
            count: spec.port_count(),
            kind: spec.kind,
            served: u16::MAX,
            info: PortInfo::default(),
            counters: Counters::default(),
            tables: None,
            guid: hardware.guid,
            width: hardware.width,
            speed: hardware.speed,
            active_speed: Speed::Sdr,
            fec: Fec::new(hardware.speed),
            changes: Changes::empty(),
            lease_end: None,
            damaged: 0,
            reregistrations: 0,
            link_layer: hardware.link_layer,
            is_on_ethernet: hardware.is_on_ethernet,
        };
        port.reset();
        port
    }

    /// Resets everything written since power-on.
    pub fn reset(&mut self) {
        self.info = self.power_on();
        self.up = self.number == 0;
        self.counters = Counters::default();
        self.tables = None;
        self.served = u16::MAX;
        (self.lease_end, self.damaged, self.active_speed) = (None, 0, Speed::Sdr);
        self.fec = Fec::new(self.speed);
    }

    fn power_on(&self) -> PortInfo {
        let info = PortInfo {
            link_width_supported: LinkWidth::from_bits_retain(self.width.supported(self.speed)),
            link_width_enabled: LinkWidth::from_bits_retain(self.width.supported(self.speed)),
            link_width_active: LinkWidth::X4,
            link_speed_supported: LinkSpeed::from_bits_retain(self.speed.supported()),
            link_speed_enabled: LinkSpeed::from_bits_retain(self.speed.supported()),
            link_speed_active: LinkSpeed::SDR,
            link_speed_ext_supported: LinkSpeedExt::from_bits_retain(self.speed.supported_ext()),
            link_speed_ext_enabled: LinkSpeedExt::from_bits_retain(self.speed.supported_ext()),
            link_speed_ext_supported2: LinkSpeedExt2::from_bits_retain(self.speed.supported_ext2()),
            link_speed_ext_enabled2: LinkSpeedExt2::from_bits_retain(self.speed.supported_ext2()),
            port_state: PortState::DOWN,
            port_physical_state: PhysState::POLLING,
            link_down_default_state: PhysState::POLLING,
            neighbor_mtu: MTU_CAP,
            mtu_cap: MTU_CAP,
            vl_cap: VL_CAP,
            operational_vls: VL_CAP,
            vl_arbitration_low_cap: VL_ARBITRATION_CAP,
            vl_arbitration_high_cap: VL_ARBITRATION_CAP,
            local_phy_errors: THRESHOLD_DEFAULT,
            overrun_errors: THRESHOLD_DEFAULT,
            ..PortInfo::default()
        };
        match self.link_layer {
            LinkLayer::Ethernet => self.without_fabric(info),
            LinkLayer::InfiniBand if self.is_external() => info,
            LinkLayer::InfiniBand => self.with_agent(info),
        }
    }

    /// Adds the fields that only a port with an agent of its own has: an adapter's, a router's, a switch's port 0.
    fn with_agent(&self, mut info: PortInfo) -> PortInfo {
        info.gid_prefix = GID_PREFIX_DEFAULT;
        info.subnet_timeout = SUBNET_TIMEOUT_DEFAULT;
        info.resp_time_value = RESP_TIME;
        (info.capability_mask, info.capability_mask2) = (self.capabilities(), self.capabilities2());
        if self.number == 0 {
            // Port 0 has no link: it is up as long as the switch has power.
            (info.port_state, info.port_physical_state) = (PortState::ACTIVE, PhysState::LINK_UP);
            info.neighbor_mtu = MTU_CAP;
            info.guid_cap = 1;
        } else {
            info.guid_cap = GUIDS;
        }
        info
    }

    /// Changes the fields that differ at an Ethernet port. Verbs and system files show it as they show ConnectX-3's, where
    /// bit 26 of the mask stands for IP-based GIDs.
    fn without_fabric(&self, info: PortInfo) -> PortInfo {
        PortInfo {
            port_physical_state: PhysState::DISABLED,
            link_down_default_state: PhysState::NO_CHANGE,
            capability_mask: CapabilityMask::COMMUNICATION_MANAGEMENT | CapabilityMask::OTHER_LOCAL_CHANGES_NOTICE,
            gid_prefix: GID_PREFIX_DEFAULT,
            guid_cap: 1,
            ..info
        }
    }

    /// Brings up the link of an Ethernet port with a cable: the switch at its other end always has power.
    pub fn link_ethernet(&mut self) {
        if self.is_on_ethernet {
            let info = &mut self.info;
            (info.port_state, info.port_physical_state) = (PortState::ACTIVE, PhysState::LINK_UP);
            info.link_width_active = LinkWidth::from_bits_retain(self.width.bit());
            info.neighbor_mtu = ETHERNET_MTU;
            self.active_speed = self.speed;
        }
    }

    /// Returns whether it has a link to the Ethernet switch.
    pub fn is_up_on_ethernet(&self) -> bool {
        self.is_on_ethernet && self.info.port_state == PortState::ACTIVE
    }

    fn capabilities(&self) -> CapabilityMask {
        let common = CapabilityMask::TRAP
            | CapabilityMask::SL_MAPPING
            | CapabilityMask::LED_INFO
            | CapabilityMask::SYSTEM_IMAGE_GUID
            | CapabilityMask::EXTENDED_SPEEDS
            | CapabilityMask::CAPABILITY_MASK2
            | CapabilityMask::CAPABILITY_MASK_NOTICE
            | CapabilityMask::OTHER_LOCAL_CHANGES_NOTICE
            | CapabilityMask::CLIENT_REREGISTRATION;
        match self.kind {
            NodeKind::Switch => common | CapabilityMask::MULTICAST_FDB_TOP,
            _ => common | CapabilityMask::AUTO_MIGRATION,
        }
    }

    fn capabilities2(&self) -> CapabilityMask2 {
        CapabilityMask2::SET_NODE_DESCRIPTION
            | CapabilityMask2::PORT_INFO_EXTENDED
            | CapabilityMask2::LINK_WIDTH_2X
            | CapabilityMask2::LINK_SPEED_HDR
            | CapabilityMask2::LINK_SPEED_NDR
            | CapabilityMask2::EXTENDED_SPEEDS2
            | CapabilityMask2::LINK_SPEED_XDR
    }

    pub fn place(&self) -> PortRef {
        PortRef::new(self.node, self.number)
    }

    /// Returns whether it is a switch's external port.
    #[inline]
    pub fn is_external(&self) -> bool {
        self.kind == NodeKind::Switch && self.number != 0
    }

    /// Sets the physical state.
    pub fn set_physical_state(&mut self, state: PhysState) {
        self.info.port_physical_state = state;
        self.up = state == PhysState::LINK_UP;
    }

    /// Returns whether there is a link.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.up && self.peer != NONE
    }

    /// Returns whether a unicast LID is its own, by base LID and LMC.
    #[inline]
    pub fn owns(&self, lid: u16) -> bool {
        let mask = u16::MAX << (self.info.lmc & 7);
        self.info.lid != 0 && lid & mask == self.info.lid & mask
    }

    /// Returns whether a GID is one of this port's; the link-local prefix is valid on every port (IBA 4.1.1).
    pub fn has_gid(&self, gid: [u8; 16]) -> bool {
        let (prefix, guid) = ((u128::from_be_bytes(gid) >> 64) as u64, u128::from_be_bytes(gid) as u64);
        let in_table = || {
            let tables = self.tables.as_ref();
            tables.is_some_and(|tables| (1..self.info.guid_cap).any(|at| tables.guid(at.into()) == guid))
        };
        let known = prefix == self.info.gid_prefix || prefix == GID_PREFIX_DEFAULT;
        guid != 0 && known && (guid == self.guid || in_table())
    }

    /// Returns the data lanes in use.
    #[inline]
    pub fn lanes(&self) -> u8 {
        match self.info.operational_vls {
            5 => 15,
            code => 1 << code.clamp(1, 4).saturating_sub(1),
        }
    }

    pub fn pkeys(&self) -> &[u16] {
        self.tables.as_ref().map_or(&[PKEY_DEFAULT], |tables| tables.pkeys())
    }

    /// Returns whether its table has a P_Key that matches this one.
    pub fn admits(&self, pkey: u16) -> bool {
        self.pkeys().iter().any(|own| pkeys_match(*own, pkey))
    }

    /// Returns the table entry that matches a packet's P_Key, and its P_Key, which the answer carries: a limited member
    /// that copied a full member's P_Key from the packet would claim to be one, and its switch would drop the answer
    /// (IBA 10.9.3).
    pub fn answering_pkey(&self, pkey: u16) -> (u16, u16) {
        let rows = (0_u16..).zip(self.pkeys());
        rows.map(|(row, own)| (row, *own)).find(|(_, own)| pkeys_match(*own, pkey)).unwrap_or((0, pkey))
    }

    /// Returns whether a switch lets a P_Key in here.
    pub fn lets_in(&self, pkey: u16) -> bool {
        self.pkeys().iter().any(|own| pkey_enters(*own, pkey))
    }

    pub fn tables(&mut self) -> &mut PortTables {
        self.tables.get_or_insert_default()
    }

    /// Returns whether this speed is enabled, or, for FDR10, possible at all.
    pub fn speed_enabled(&self, speed: Speed) -> bool {
        let info = &self.info;
        match speed {
            // Vendor-specific, without a bit in PortInfo: only hardware or cable can limit a link to it.
            Speed::Fdr10 => self.speed >= Speed::Fdr10,
            _ if speed > self.speed => false,
            Speed::Xdr => info.link_speed_ext_enabled2.bits() & speed.bit_ext2() != 0,
            _ if speed.bit_ext() != 0 => info.link_speed_ext_enabled.bits() & speed.bit_ext() != 0,
            _ => info.link_speed_enabled.bits() & speed.bit() != 0,
        }
    }
}
