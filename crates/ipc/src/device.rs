//! A device as the daemon describes it: enough to answer everything in ibv_query_device and ibv_query_port.

use serde::{Deserialize, Serialize};

use crate::gid::{GidEntry, GidType};
use crate::infiniband::{DEVICE_KIND_IB, IB_DEVICE_INDEX_BASE, InfiniBand};
use crate::limits::{DEVICE_NAME_BYTES_MAX, GID_TABLE_ROWS_MAX, NETDEV_NAME_TEXT_BYTES_MAX, ROCE_V1_ROWS};

/// Type of a device that speaks RoCE v2 on a network interface, like Linux's rxe.
pub const DEVICE_KIND_RXE: &str = "rxe";

/// Type of a device that speaks iWARP on a network interface, like Linux's siw.
pub const DEVICE_KIND_SIW: &str = "siw";

/// Logical state of a port; the numbers are those of `enum ibv_port_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum PortState {
    /// No packets pass.
    Down = 1,
    /// Packets pass.
    Active = 4,
}

/// Physical state of a port; the numbers are those of PortInfo (IBA 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum PhysState {
    /// No carrier.
    Polling = 2,
    /// Switched off by the administrator.
    Disabled = 3,
    /// Carrier.
    LinkUp = 5,
}

/// A device and its single port. A change event carries a whole new one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Identity: no other device gets it while the daemon (or its successor) lives.
    pub index: u32,
    /// Name, such as `rxe_eth0`.
    pub name: String,
    /// Type: [`DEVICE_KIND_RXE`], [`DEVICE_KIND_SIW`] or, for an adapter of a virtual host, [`DEVICE_KIND_IB`].
    pub kind: String,
    /// GUID of the node; `to_be_bytes` gives it in network order.
    pub node_guid: u64,
    /// Network interface under the device.
    pub netdev: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Hardware address of the interface, zero if it has none.
    pub mac: [u8; 6],
    /// MTU of the interface in bytes.
    pub netdev_mtu: u32,
    /// IB MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub active_mtu: u16,
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub phys_state: PhysState,
    /// GID table, by row; rows without an address are left out.
    pub gids: Vec<GidEntry>,
    /// P_Key table.
    pub pkeys: Vec<u16>,
    /// Speed of the interface if its driver reports one.
    pub link_speed_mbps: Option<u32>,
    /// Made by the daemon automatically because the interface has an address.
    pub auto: bool,
    /// Fabric view of an adapter of a virtual host. Such a device has no interface and no rows in [`DeviceInfo::gids`]
    /// and [`DeviceInfo::pkeys`], and its state is that of port 1.
    pub infiniband: Option<Box<InfiniBand>>,
}

/// Bytes that the headers of the longest RoCE v2 request and its ICRC add to the payload: IPv6 40, UDP 8, BTH 12,
/// XRCETH 4, RETH 16, immediate 4, ICRC 4.
const ROCE_V2_OVERHEAD_BYTES: u32 = 88;

/// Returns the largest IB MTU whose packets fit an interface's MTU; 256 if none does.
pub fn active_mtu_bytes(netdev_mtu: u32) -> u16 {
    let room = netdev_mtu.saturating_sub(ROCE_V2_OVERHEAD_BYTES);
    [4096u16, 2048, 1024, 512].into_iter().find(|&mtu| u32::from(mtu) <= room).unwrap_or(256)
}

/// Returns the MTU of an RNIC's port in the steps of `enum ibv_mtu`: the largest that the interface's exceeds or equals.
pub fn iwarp_mtu_bytes(netdev_mtu: u32) -> u16 {
    [4096u16, 2048, 1024, 512].into_iter().find(|&mtu| u32::from(mtu) <= netdev_mtu).unwrap_or(256)
}

/// Returns the GUID of a node whose port has this hardware address: its modified EUI-64 (RFC 4291 appendix A).
pub fn node_guid_of_mac(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Returns the only GID of an RNIC's port: its hardware address, and zeros.
pub fn iwarp_gid_of_mac(mac: [u8; 6]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..mac.len()].copy_from_slice(&mac);
    gid
}

/// Returns whether a device may have this name: it becomes a file name under /sys/class/infiniband.
pub fn valid_device_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= DEVICE_NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b'%')
}

/// Returns whether an interface may have this name, which also becomes a file name. The kernel forbids only slashes,
/// colons and blanks; an interface with an unprintable name gets no device.
pub fn valid_netdev_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NETDEV_NAME_TEXT_BYTES_MAX
        && name != "."
        && name != ".."
        && name.chars().all(|c| !c.is_control() && !c.is_whitespace() && c != '/')
}

impl DeviceInfo {
    /// Returns whether the device is an RNIC: its transport is iWARP.
    pub fn is_iwarp(&self) -> bool {
        self.kind == DEVICE_KIND_SIW
    }

    /// Adds the rows for RoCE v1, for programs that may open packet sockets: the GIDs of the first rows again, in
    /// [`ROCE_V1_ROWS`], so that the first rows are the same for every program.
    pub fn add_roce_v1(&mut self) {
        let again = |row: &GidEntry| {
            let index = row.index + ROCE_V1_ROWS.start;
            let fits = row.gid_type == GidType::RoceV2 && ROCE_V1_ROWS.contains(&index);
            fits.then_some(GidEntry { index, gid_type: GidType::RoceV1, ..*row })
        };
        let more: Vec<GidEntry> = self.gids.iter().filter_map(again).collect();
        self.gids.extend(more);
    }

    /// Returns whether a daemon may send this. The daemon can belong to another user: `weft run` makes files with these
    /// names, as root if root runs it, and programs trust the rows of the GID table.
    pub fn is_sane(&self) -> bool {
        let rows = GID_TABLE_ROWS_MAX as u32;
        valid_device_name(&self.name)
            && valid_device_name(&self.kind)
            && match &self.infiniband {
                None => valid_netdev_name(&self.netdev) && self.index < IB_DEVICE_INDEX_BASE,
                Some(infiniband) => {
                    self.netdev.is_empty()
                        && self.kind == DEVICE_KIND_IB
                        && self.index >= IB_DEVICE_INDEX_BASE
                        && infiniband.is_sane()
                }
            }
            && self.gids.len() <= GID_TABLE_ROWS_MAX
            && self.gids.iter().all(|entry| entry.index < rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roce_v1_has_rows_of_its_own() {
        let mut device = DeviceInfo { gids: Vec::new(), ..sample() };
        for index in [0, 5, 31, 64] {
            device.gids.push(GidEntry { index, gid: [index as u8; 16], gid_type: GidType::RoceV2, ifindex: 3 });
        }
        device.add_roce_v1();
        let rows: Vec<_> = device.gids.iter().skip(4).map(|row| (row.index, row.gid[0], row.gid_type)).collect();
        assert_eq!(rows, [0, 5, 31].map(|index| (u32::from(index) + 32, index, GidType::RoceV1)));
    }

    fn sample() -> DeviceInfo {
        DeviceInfo {
            index: 0,
            name: "rxe0".into(),
            kind: DEVICE_KIND_RXE.into(),
            node_guid: 1,
            netdev: "eth0".into(),
            ifindex: 3,
            mac: [2, 0, 0, 0, 0, 1],
            netdev_mtu: 1500,
            active_mtu: 1024,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            link_speed_mbps: None,
            gids: Vec::new(),
            pkeys: vec![0xffff],
            auto: true,
            infiniband: None,
        }
    }

    #[test]
    fn names_of_interfaces_are_file_names() {
        for good in ["lo", "eth0.5", "wlan\u{fffd}", "veth@if7"] {
            assert!(valid_netdev_name(good), "{good:?}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "a b", "\u{1b}[2J", &"x".repeat(46)] {
            assert!(!valid_netdev_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn mtu_fits_the_interface() {
        for (netdev, ib) in
            [(0, 256), (300, 256), (600, 512), (1500, 1024), (2200, 2048), (4200, 4096), (9000, 4096), (65536, 4096)]
        {
            assert_eq!(active_mtu_bytes(netdev), ib, "interface MTU {netdev}");
        }
    }

    #[test]
    fn guid_is_the_modified_eui64() {
        assert_eq!(node_guid_of_mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]), 0x5054_00ff_fe12_3456);
    }

    #[test]
    fn names_are_file_names() {
        assert!(valid_device_name("rxe_eth0.5"));
        for bad in ["", ".", "..", "a/b", "a b", "ä", "%d", &"x".repeat(64)] {
            assert!(!valid_device_name(bad), "{bad:?}");
        }
    }
}
