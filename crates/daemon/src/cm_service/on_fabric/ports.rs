//! A fabric's ports as the connection manager knows them: devices with GIDs, and local addresses.

use std::net::{IpAddr, Ipv6Addr};

use weft_cm::rdma_cm::{Device, DeviceGid, LocalAddress, PortKind, RoceMode, ip_of_gid};
use weft_fabric::PKEY_DEFAULT;
use weft_ipc::{DeviceInfo, IbPort};

use super::super::devices::{mtu_number, rate_number, roce_gid};

/// PortState of a port that carries traffic (IBA 14.2.5.6).
const PORT_ACTIVE: u8 = 4;

/// Returns the local addresses of a row of a GID table: its interface's, and the GID itself, which `AF_IB` has in place of
/// an address.
pub(super) fn local_addresses(row: &DeviceGid) -> impl Iterator<Item = LocalAddress> {
    let of_gid = ip_of_gid(row.gid);
    let addresses = [Some(row.ip), (row.ip != of_gid).then_some(of_gid)];
    let ifindex = row.ifindex;
    addresses.into_iter().flatten().map(move |ip| LocalAddress { ifindex, ip })
}

/// Describes a port to the connection manager; its first GID maps to its address, and every GID to itself.
pub(super) fn describe(info: &DeviceInfo, port: &IbPort, ip: Option<IpAddr>) -> Device {
    let device = describe_infiniband(info, port, ip);
    if !port.is_ethernet() {
        return device;
    }
    let gids = port.roce_gids().iter().filter_map(roce_gid);
    let gids = gids.map(|row| DeviceGid { ifindex: device.ifindex, ..row }).collect();
    let rate = rate_number(Some(port.lanes() * port.lane_speed().0 * 100));
    Device { kind: PortKind::Roce, rate, gids, pkeys: vec![PKEY_DEFAULT], ..device }
}

fn describe_infiniband(info: &DeviceInfo, port: &IbPort, ip: Option<IpAddr>) -> Device {
    let ifindex = port.umad + 1;
    let row = |index: u8, gid: [u8; 16], ip| DeviceGid { index, gid, ip, mode: RoceMode::V1, ifindex };
    let named = (0u8..).zip((0..port.gid_rows()).filter_map(|row| port.gid(row)));
    let gids = named.filter(|(_, gid)| *gid != [0; 16]).map(|(index, gid)| match (index, ip) {
        (0, Some(ip)) => row(0, gid, ip),
        _ => row(index, gid, Ipv6Addr::from(gid).into()),
    });
    Device {
        index: info.index,
        port: port.number,
        name: info.name.clone(),
        node_guid: info.node_guid,
        ifindex,
        loopback: false,
        active: port.state == PORT_ACTIVE,
        active_mtu: mtu_number(port.active_mtu),
        rate: 0,
        kind: PortKind::InfiniBand,
        pkeys: port.pkeys.clone(),
        gids: gids.collect(),
    }
}
