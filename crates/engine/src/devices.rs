//! Devices as the daemon describes them, translated to verbs types.

use weft_ipc::{DeviceInfo, IbPort, InfiniBand};
use weft_verbs::{DeviceAttr, DeviceId, Gid, GidEntry, GidType, IbPortAttr, Mtu, PortAttr, PortState};

/// PortState of a port that carries traffic (IBA 14.2.5.6).
const IB_PORT_ACTIVE: u8 = 4;

/// Snapshot of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Identity, never given to another device.
    pub id: DeviceId,
    /// Attributes.
    pub attr: DeviceAttr,
}

impl DeviceSnapshot {
    /// Whether an adapter on a fabric has an Ethernet port with a cable, and so rows of RoCE v2.
    pub fn has_ethernet_port(&self) -> bool {
        let is_plugged = |port: &PortAttr| port.gids.iter().any(|row| row.gid_type == GidType::RoceV2);
        self.attr.ports.iter().any(|port| port.infiniband.is_some() && is_plugged(port))
    }

    /// Whether an address is one of this device's.
    pub fn owns(&self, gid: Gid) -> bool {
        self.attr.gids().any(|row| row.gid == gid)
    }
}

/// Translates the daemon's description. A process that may open packet sockets has RoCE v1 too.
pub fn snapshot(info: &DeviceInfo) -> DeviceSnapshot {
    let mut info = info.clone();
    if weft_sys::packet::are_allowed() {
        info.add_roce_v1();
    }
    let gids = info.gids.iter().map(roce_row);
    let ports = match info.infiniband.as_deref() {
        Some(adapter) => adapter.ports.iter().map(|port| fabric_port(adapter, port)).collect(),
        None => vec![PortAttr {
            state: match info.state {
                weft_ipc::PortState::Down => PortState::Down,
                weft_ipc::PortState::Active => PortState::Active,
            },
            active_mtu: Mtu::at_most(usize::from(info.active_mtu)).unwrap_or(Mtu::Mtu256),
            gids: gids.collect(),
            link_speed_mbps: info.link_speed_mbps,
            infiniband: None,
        }],
    };
    DeviceSnapshot {
        id: DeviceId(info.index),
        attr: DeviceAttr {
            name: info.name.clone(),
            node_guid: info.node_guid,
            netdev: info.netdev.clone(),
            ifindex: info.ifindex,
            is_iwarp: info.is_iwarp(),
            ports,
        },
    }
}

/// Translates a row of a RoCE port's GID table.
fn roce_row(row: &weft_ipc::GidEntry) -> GidEntry {
    GidEntry {
        index: row.index,
        gid: Gid(row.gid),
        gid_type: match row.gid_type {
            weft_ipc::GidType::RoceV1 => GidType::IbOrRoceV1,
            weft_ipc::GidType::RoceV2 => GidType::RoceV2,
        },
        ifindex: row.ifindex,
    }
}

/// Returns the GID table of a port on a fabric, without its empty rows.
fn fabric_gids(port: &IbPort) -> Vec<GidEntry> {
    if let [_, ..] = port.roce_gids() {
        return port.roce_gids().iter().map(roce_row).collect();
    }
    let row = |index: usize| {
        let gid = Gid(port.gid(index)?);
        (gid != Gid::ZERO).then_some(GidEntry { index: index as u32, gid, gid_type: GidType::IbOrRoceV1, ifindex: 0 })
    };
    (0..port.gid_rows()).filter_map(row).collect()
}

fn fabric_port(adapter: &InfiniBand, port: &IbPort) -> PortAttr {
    PortAttr {
        state: if port.state == IB_PORT_ACTIVE { PortState::Active } else { PortState::Down },
        active_mtu: Mtu::at_most(usize::from(port.active_mtu)).unwrap_or(Mtu::Mtu256),
        gids: fabric_gids(port),
        link_speed_mbps: None,
        infiniband: Some(Box::new(infiniband(adapter, port))),
    }
}

fn infiniband(adapter: &InfiniBand, port: &IbPort) -> IbPortAttr {
    IbPortAttr {
        system_image_guid: adapter.system_image_guid,
        vendor_id: adapter.vendor_id,
        device_id: adapter.device_id,
        revision: adapter.revision,
        is_ethernet: port.is_ethernet(),
        state: port.state,
        phys_state: port.phys_state,
        lid: port.lid,
        lmc: port.lmc,
        sm_lid: port.sm_lid,
        sm_sl: port.sm_sl,
        reregistrations: port.reregistrations,
        capabilities: port.capabilities,
        capabilities2: port.capabilities2,
        max_mtu: port.max_mtu,
        active_width: port.active_width,
        active_speed: port.active_speed,
        vl_cap: port.vl_cap,
        sl_to_vl: port.sl_to_vl,
        subnet_timeout: port.subnet_timeout,
        init_type_reply: port.init_type_reply,
        pkey_violations: port.pkey_violations,
        qkey_violations: port.qkey_violations,
        gid_rows: port.gid_rows() as u32,
        pkeys: port.pkeys.clone(),
    }
}
