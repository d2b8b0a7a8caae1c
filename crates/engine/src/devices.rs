//! Devices as the daemon tells of them, in the nouns of verbs.

use weft_ipc::DeviceInfo;
use weft_verbs::{DeviceAttr, DeviceId, Gid, GidEntry, GidType, Mtu, PortAttr, PortState};

/// A device as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Identity, never given to another device.
    pub id: DeviceId,
    /// What it is.
    pub attr: DeviceAttr,
}

impl DeviceSnapshot {
    /// Whether an address is one of this device's.
    pub fn owns(&self, gid: Gid) -> bool {
        self.attr.port.gids.iter().any(|row| row.gid == gid)
    }
}

/// Translate. A process that may open packet sockets has RoCE v1 too.
pub fn snapshot(info: &DeviceInfo) -> DeviceSnapshot {
    let mut info = info.clone();
    if weft_sys::packet::are_allowed() {
        info.add_roce_v1();
    }
    let gids = info.gids.iter().map(|row| GidEntry {
        index: row.index,
        gid: Gid(row.gid),
        gid_type: match row.gid_type {
            weft_ipc::GidType::RoceV1 => GidType::IbOrRoceV1,
            weft_ipc::GidType::RoceV2 => GidType::RoceV2,
        },
        ifindex: row.ifindex,
    });
    let port = PortAttr {
        state: match info.state {
            weft_ipc::PortState::Down => PortState::Down,
            weft_ipc::PortState::Active => PortState::Active,
        },
        active_mtu: Mtu::at_most(usize::from(info.active_mtu)).unwrap_or(Mtu::Mtu256),
        gids: gids.collect(),
        link_speed_mbps: info.link_speed_mbps,
    };
    DeviceSnapshot {
        id: DeviceId(info.index),
        attr: DeviceAttr {
            name: info.name.clone(),
            node_guid: info.node_guid,
            netdev: info.netdev.clone(),
            ifindex: info.ifindex,
            port,
        },
    }
}
