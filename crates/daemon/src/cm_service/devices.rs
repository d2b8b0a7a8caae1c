//! The devices as the connection manager sees them, and their changes since the last update.

use std::collections::BTreeMap;

use weft_cm::rdma_cm::{Device, DeviceGid, LocalAddress, PortKind, RoceMode, Service, ip_of_gid};
use weft_ipc::{DeviceInfo, GidType, PortState};
use weft_verbs::{Instant, Mtu};

use crate::devices::Devices;

/// The state last given to the service.
#[derive(Debug, Default)]
pub struct Known {
    devices: BTreeMap<(u32, u8), Device>,
    addresses: Vec<LocalAddress>,
}

impl Known {
    /// Gives the changes to the service; returns whether devices changed.
    pub fn follow(
        &mut self,
        service: &mut Service,
        now: Instant,
        devices: Vec<Device>,
        addresses: Vec<LocalAddress>,
    ) -> bool {
        let list: BTreeMap<_, Device> = devices.into_iter().map(|device| (device.place(), device)).collect();
        // Devices come and go with all their ports.
        let gone: Vec<u32> = self.devices.keys().filter(|at| !list.contains_key(at)).map(|(index, _)| *index).collect();
        let mut changed = !gone.is_empty();
        for index in gone {
            service.remove_device(now, index);
        }
        for (place, device) in &list {
            if self.devices.get(place) != Some(device) {
                service.set_device(now, device.clone());
                changed = true;
            }
        }
        self.devices = list;
        if addresses != self.addresses {
            service.set_local_addresses(addresses.clone());
            self.addresses = addresses;
        }
        changed
    }
}

/// Returns the devices on this machine's interfaces.
pub fn of_machine(devices: &Devices) -> Vec<Device> {
    let rnics = devices.list().into_iter().filter(|info| info.is_iwarp()).map(|info| describe_rnic(info, devices));
    with_roce_v1(devices).iter().map(|info| describe(info, devices)).chain(rnics).collect()
}

/// Describes an RNIC: it has one GID, and the addresses of its interface.
fn describe_rnic(info: &DeviceInfo, devices: &Devices) -> Device {
    let netdev = devices.netdevs.by_index(info.ifindex);
    let gid = info.gids.first().map_or([0; 16], |row| row.gid);
    let row = |ip| DeviceGid { index: 0, gid, ip, mode: RoceMode::V2, ifindex: info.ifindex };
    let addresses = netdev.map(crate::netdev::Netdev::usable_addresses).unwrap_or_default();
    Device {
        kind: PortKind::Iwarp,
        gids: addresses.into_iter().map(|address| row(address.ip)).collect(),
        ..describe(info, devices)
    }
}

/// Returns the addresses of this machine's interfaces.
pub fn addresses_of_machine(devices: &Devices) -> Vec<LocalAddress> {
    let of_netdev = |netdev: &crate::netdev::Netdev| {
        let ifindex = netdev.ifindex;
        netdev.usable_addresses().into_iter().map(move |address| LocalAddress { ifindex, ip: address.ip })
    };
    devices.netdevs.iter().flat_map(of_netdev).collect()
}

/// Returns the RoCE devices, with rows for RoCE v1 if the daemon may speak it.
pub fn with_roce_v1(devices: &Devices) -> Vec<DeviceInfo> {
    let mut list: Vec<DeviceInfo> = devices.list().into_iter().filter(|info| !info.is_iwarp()).cloned().collect();
    if weft_sys::packet::are_allowed() {
        list.iter_mut().for_each(DeviceInfo::add_roce_v1);
    }
    list
}

fn describe(info: &DeviceInfo, devices: &Devices) -> Device {
    let loopback = devices.netdevs.by_index(info.ifindex).is_some_and(crate::netdev::Netdev::is_loopback);
    Device {
        index: info.index,
        port: 1,
        name: info.name.clone(),
        node_guid: info.node_guid,
        ifindex: info.ifindex,
        loopback,
        active: info.state == PortState::Active,
        active_mtu: mtu_number(info.active_mtu),
        rate: rate_number(info.link_speed_mbps),
        kind: PortKind::Roce,
        pkeys: info.pkeys.clone(),
        gids: info.gids.iter().filter_map(roce_gid).collect(),
    }
}

/// Translates a row of a RoCE port's GID table; `None` beyond the rows that the connection manager can name.
pub fn roce_gid(entry: &weft_ipc::GidEntry) -> Option<DeviceGid> {
    let index = u8::try_from(entry.index).ok()?;
    let mode = match entry.gid_type {
        GidType::RoceV1 => RoceMode::V1,
        GidType::RoceV2 => RoceMode::V2,
    };
    Some(DeviceGid { index, gid: entry.gid, ip: ip_of_gid(entry.gid), mode, ifindex: entry.ifindex })
}

/// Returns the value of `enum ibv_mtu`.
pub fn mtu_number(bytes: u16) -> u8 {
    (1u8..).zip(Mtu::ALL).find(|(_, mtu)| mtu.bytes() == usize::from(bytes)).map_or(0, |(number, _)| number)
}

/// Returns the value of `enum ibv_rate` for an interface's speed, as in Linux's connection manager (`iboe_get_rate`).
pub fn rate_number(mbps: Option<u32>) -> u8 {
    match mbps.unwrap_or(0) {
        40_000.. => 7,
        30_000.. => 4,
        20_000.. => 6,
        10_000.. => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_verbs_h() {
        assert_eq!([256, 1024, 4096, 1500].map(mtu_number), [1, 3, 5, 0]);
        assert_eq!([None, Some(1000), Some(10_000), Some(25_000), Some(100_000)].map(rate_number), [0, 0, 3, 6, 7]);
    }
}
