//! The adapters of a virtual host as its programs see them.

use weft_fabric::topology::{LinkLayer, Node, Speed, Topology};
use weft_fabric::{Counter, EthernetGid, Fabric, PortRef};
use weft_ipc::umad::IbCounters;
use weft_ipc::{
    DEVICE_KIND_IB, DeviceInfo, EthernetLink, GidEntry, GidType, IB_DEVICE_INDEX_BASE, IB_PKEYS_MAX, IB_PORTS_MAX,
    IbPort, InfiniBand, PhysState, PortState,
};

/// Bits of a device's identity for the index of its node; the bits above are the fabric's number.
const NODE_BITS: u32 = 17;
/// Ports of a Linux bridge (`BR_MAX_PORTS` is 1,024).
const SWITCH_PORTS_MAX: u32 = 1023;
/// Ethernet interfaces of a host.
const ETHERNET_INTERFACES_MAX: usize = 32;
const GENERATION_MASK: u64 = (1 << (30 - NODE_BITS)) - 1;

/// Returns the identity of a node's device on the fabric of this number.
fn index_of(generation: u64, node: u32) -> u32 {
    IB_DEVICE_INDEX_BASE | ((generation & GENERATION_MASK) as u32) << NODE_BITS | node
}

/// Returns the port that a device's identity and a port number name, if the device is one of the host's adapters.
pub fn port_of(generation: u64, adapters: &[u32], device: u32, port: u8) -> Option<PortRef> {
    let node = adapters.iter().copied().find(|node| index_of(generation, *node) == device)?;
    (port >= 1 && usize::from(port) <= IB_PORTS_MAX).then_some(PortRef::new(node, port))
}

/// Returns the identities of the devices at these nodes.
pub fn indexes(generation: u64, adapters: &[u32]) -> Vec<u32> {
    adapters.iter().map(|node| index_of(generation, *node)).collect()
}

/// Returns the InfiniBand ports of a host's adapters (given by node index), with their devices.
pub fn ports_of(fabric: &Fabric, generation: u64, adapters: &[u32]) -> Vec<(u32, PortRef)> {
    let numbers = || 1..=IB_PORTS_MAX as u8;
    let ports = adapters.iter().flat_map(|node| numbers().map(move |port| PortRef::new(*node, port)));
    let there = ports.filter(|port| fabric.link_layer(*port) == Some(LinkLayer::InfiniBand));
    there.map(|port| (index_of(generation, port.node), port)).collect()
}

/// Describes a host's adapters, given by node index.
pub fn describe(
    fabric: &Fabric,
    topology: &Topology,
    generation: u64,
    host: &str,
    adapters: &[u32],
) -> Vec<DeviceInfo> {
    let mut umad = 0;
    let nodes = adapters.iter().filter_map(|place| Some((*place, topology.nodes.get(*place as usize)?)));
    let of_host = (host, &ethernet_interfaces(fabric, adapters)[..]);
    nodes.map(|(place, node)| device(fabric, of_host, index_of(generation, place), (place, node), &mut umad)).collect()
}

fn device(
    fabric: &Fabric,
    (host, netdevs): (&str, &[(PortRef, String)]),
    index: u32,
    (place, node): (u32, &Node),
    umad: &mut u32,
) -> DeviceInfo {
    let ports: Vec<IbPort> = (1..=node.port_count())
        .take(IB_PORTS_MAX)
        .filter_map(|number| {
            let at = PortRef::new(place, number);
            let netdev = netdevs.iter().find(|(port, _)| *port == at).map_or("", |(_, name)| name);
            let port = describe_port(fabric, at, *umad, netdev)?;
            *umad += 1;
            Some(port)
        })
        .collect();
    let first = ports.first();
    let state = if first.is_some_and(|port| port.state == PortState::Active as u8) {
        PortState::Active
    } else {
        PortState::Down
    };
    let phys_state = match first.map_or(0, |port| port.phys_state) {
        5 => PhysState::LinkUp,
        3 => PhysState::Disabled,
        _ => PhysState::Polling,
    };
    let active_mtu = first.map_or(256, |port| port.active_mtu);
    let description =
        fabric.description(place).map(|text| text.text().replace(char::is_control, "?")).unwrap_or_default();
    DeviceInfo {
        index,
        name: node.adapter.clone(),
        kind: DEVICE_KIND_IB.to_owned(),
        node_guid: node.guid,
        netdev: String::new(),
        ifindex: 0,
        mac: [0; 6],
        netdev_mtu: 0,
        active_mtu,
        state,
        phys_state,
        gids: Vec::new(),
        pkeys: Vec::new(),
        link_speed_mbps: first.map(|port| port.lanes() * port.lane_speed().0 * 100),
        auto: true,
        infiniband: Some(Box::new(InfiniBand {
            host: host.to_owned(),
            node_description: description,
            system_image_guid: node.system_image_guid,
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            revision: 0,
            ports,
        })),
    }
}

/// Returns the names of the Ethernet interfaces of a host, by port; at most 32, and none beyond
/// the switch's ports.
pub fn ethernet_interfaces(fabric: &Fabric, adapters: &[u32]) -> Vec<(PortRef, String)> {
    let numbers = || 1..=IB_PORTS_MAX as u8;
    let ports = adapters.iter().flat_map(|node| numbers().map(move |port| PortRef::new(*node, port)));
    let plugged = ports.filter(|port| fabric.ethernet().number(*port).is_some_and(|at| at < SWITCH_PORTS_MAX));
    plugged.take(ETHERNET_INTERFACES_MAX).enumerate().map(|(number, port)| (port, format!("eth{number}"))).collect()
}

fn ethernet_link(fabric: &Fabric, at: PortRef, netdev: &str) -> Option<EthernetLink> {
    let row = |(index, row): (u32, EthernetGid)| GidEntry {
        index,
        gid: row.gid,
        gid_type: if row.is_v2 { GidType::RoceV2 } else { GidType::RoceV1 },
        ifindex: 0,
    };
    let gids = (0..).zip(fabric.ethernet().gids(at)).map(row).collect();
    let is_ethernet = fabric.link_layer(at) == Some(LinkLayer::Ethernet);
    is_ethernet.then(|| EthernetLink { netdev: netdev.to_owned(), gids })
}

fn describe_port(fabric: &Fabric, at: PortRef, umad: u32, netdev: &str) -> Option<IbPort> {
    let ethernet = ethernet_link(fabric, at, netdev);
    let info = fabric.port_info(at)?;
    let guid_of = |row: u8| fabric.gid(at, row).map(|gid| (u128::from_be_bytes(gid) & u128::from(u64::MAX)) as u64);
    let mut pkeys = fabric.pkeys(at).to_vec();
    pkeys.resize(pkeys.len().max(weft_fabric::limits::PKEYS.into()).min(IB_PKEYS_MAX), 0);
    Some(IbPort {
        number: at.port,
        umad,
        guid: match ethernet.as_ref().and_then(|link| link.gids.first()) {
            // The kernel's GUID of such a port is that of its Ethernet address.
            Some(row) => u128::from_be_bytes(row.gid) as u64,
            None => fabric.port_guid(at)?,
        },
        ethernet,
        gid_prefix: info.gid_prefix,
        alias_guids: (1..info.guid_cap).map_while(guid_of).collect(),
        lid: info.lid,
        lmc: info.lmc,
        sm_lid: info.master_sm_lid,
        sm_sl: info.master_sm_sl,
        reregistrations: fabric.reregistrations(at),
        state: info.port_state.0,
        phys_state: info.port_physical_state.0,
        active_width: info.link_width_active.bits(),
        active_speed: fabric.speed(at).map_or(1, verbs_speed),
        max_mtu: mtu_bytes(info.mtu_cap),
        active_mtu: mtu_bytes(info.neighbor_mtu),
        capabilities: info.capability_mask.bits(),
        capabilities2: info.capability_mask2.bits(),
        vl_cap: info.vl_cap,
        sl_to_vl: fabric.sl_to_vl(at)?,
        subnet_timeout: info.subnet_timeout,
        init_type_reply: info.init_type_reply,
        pkey_violations: info.pkey_violations,
        qkey_violations: info.qkey_violations,
        pkeys,
    })
}

/// Returns the bytes of an MTU's code.
fn mtu_bytes(code: u8) -> u16 {
    128 << code.clamp(1, 5)
}

/// Returns a speed in the numbers of `ibv_port_attr`.
fn verbs_speed(speed: Speed) -> u16 {
    match speed {
        Speed::Sdr => 1,
        Speed::Ddr => 2,
        Speed::Qdr => 4,
        Speed::Fdr10 => 8,
        Speed::Fdr => 16,
        Speed::Edr => 32,
        Speed::Hdr => 64,
        Speed::Ndr => 128,
        Speed::Xdr => 256,
    }
}

/// Returns the counters of a port.
pub fn counters(fabric: &Fabric, port: PortRef) -> IbCounters {
    let of = |counter| fabric.counter(port, counter);
    let (sent, received) = (of(Counter::XmitPackets), of(Counter::RcvPackets));
    let (sent_to_groups, received_for_groups) = (of(Counter::MulticastXmitPackets), of(Counter::MulticastRcvPackets));
    IbCounters {
        symbol_error: of(Counter::SymbolErrors),
        link_error_recovery: of(Counter::LinkErrorRecovery),
        link_downed: of(Counter::LinkDowned),
        port_rcv_errors: of(Counter::RcvErrors),
        port_rcv_remote_physical_errors: of(Counter::RcvRemotePhysicalErrors),
        port_rcv_switch_relay_errors: of(Counter::RcvSwitchRelayErrors),
        port_xmit_discards: of(Counter::XmitDiscards),
        port_xmit_constraint_errors: of(Counter::XmitConstraintErrors),
        port_rcv_constraint_errors: of(Counter::RcvConstraintErrors),
        local_link_integrity_errors: of(Counter::LocalLinkIntegrityErrors),
        excessive_buffer_overrun_errors: of(Counter::ExcessiveBufferOverrunErrors),
        vl15_dropped: of(Counter::Vl15Dropped),
        port_xmit_wait: of(Counter::XmitWait),
        port_xmit_data: of(Counter::XmitData),
        port_rcv_data: of(Counter::RcvData),
        port_xmit_packets: sent,
        port_rcv_packets: received,
        unicast_xmit_packets: sent.saturating_sub(sent_to_groups),
        unicast_rcv_packets: received.saturating_sub(received_for_groups),
        multicast_xmit_packets: sent_to_groups,
        multicast_rcv_packets: received_for_groups,
    }
}
