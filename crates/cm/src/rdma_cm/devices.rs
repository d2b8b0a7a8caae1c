//! The devices, and the mapping of addresses to them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{Family, gid_of_ip};
use super::command::RoceMode;
use super::device::{Device, DeviceGid, LocalAddress, Place, PortKind};
use super::id::Attachment;
use super::limits::{DEVICES_MAX, GIDS_PER_DEVICE_MAX};

/// A port of a device, and the defaults of new ids on it.
#[derive(Debug)]
pub struct Entry {
    /// The port.
    pub device: Device,
    /// Framing.
    pub roce_mode: RoceMode,
    /// Type of service.
    pub roce_tos: u8,
}

/// All ports of devices, and the host's addresses.
#[derive(Debug, Default)]
pub struct Devices {
    map: BTreeMap<Place, Entry>,
    local: Vec<LocalAddress>,
}

impl Devices {
    /// Adds or replaces a port; returns the previous description.
    pub fn set(&mut self, mut device: Device) -> Option<Device> {
        device.gids.truncate(GIDS_PER_DEVICE_MAX);
        if let Some(entry) = self.map.get_mut(&device.place()) {
            return Some(std::mem::replace(&mut entry.device, device));
        }
        if self.map.len() < DEVICES_MAX {
            let entry = Entry { device, roce_mode: RoceMode::V2, roce_tos: 0 };
            self.map.insert(entry.device.place(), entry);
        }
        None
    }

    /// Removes a device.
    pub fn remove(&mut self, index: u32) -> bool {
        let before = self.map.len();
        self.map.retain(|place, _| place.0 != index);
        self.map.len() < before
    }

    /// Returns a port.
    pub fn look(&self, place: Place) -> Option<&Entry> {
        self.map.get(&place)
    }

    /// Returns all ports.
    pub fn ports(&self) -> impl Iterator<Item = &Entry> {
        self.map.values()
    }

    /// Returns the RNIC with a local address; a nonzero `ifindex` restricts the search.
    pub fn rnic_of(&self, ip: IpAddr, ifindex: u32) -> Option<Attachment> {
        let rnics = self.map.values().filter(|entry| entry.device.kind == PortKind::Iwarp);
        rnics.into_iter().find_map(|entry| entry.attach(|row| row.ip == ip && (ifindex == 0 || row.ifindex == ifindex)))
    }

    /// Returns the ports of a device.
    pub fn of_device(&self, index: u32) -> impl Iterator<Item = &Entry> {
        self.map.range((index, 0)..=(index, u8::MAX)).map(|(_, entry)| entry)
    }

    /// Returns the ports of a device, mutably, to change their defaults.
    pub fn change(&mut self, index: u32) -> impl Iterator<Item = &mut Entry> {
        self.map.range_mut((index, 0)..=(index, u8::MAX)).map(|(_, entry)| entry)
    }

    /// Returns whether any port's defaults differ from the initial ones.
    pub fn any_settings(&self) -> bool {
        self.map.values().any(|entry| entry.roce_mode != RoceMode::V2 || entry.roce_tos != 0)
    }

    /// Sets the host's addresses.
    pub fn set_local(&mut self, addresses: Vec<LocalAddress>) {
        self.local = addresses;
    }

    /// Returns whether the host has an address, on a device or not.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.local.iter().any(|local| local.ip == ip) || self.by_ip(ip, 0).is_some()
    }

    /// Returns the device and GID of a local address (`cma_acquire_dev_by_src_ip`); a nonzero `ifindex` restricts the
    /// search.
    pub fn by_ip(&self, ip: IpAddr, ifindex: u32) -> Option<Attachment> {
        let gid = gid_of_ip(ip);
        self.map.values().find_map(|entry| {
            let named = |row: &DeviceGid| row.ip == ip || row.gid == gid;
            entry.attach(|row| named(row) && (ifindex == 0 || row.ifindex == ifindex))
        })
    }

    /// Returns the device of a loopback address: the one with this address, or with any loopback address of that
    /// family.
    pub fn loopback(&self, ip: IpAddr) -> Option<Attachment> {
        let localhost: IpAddr = match ip {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let named = self.by_ip(ip, 0).or_else(|| self.by_ip(localhost, 0));
        named.or_else(|| self.first_active(ip.is_ipv4()))
    }

    /// Returns the first device with an active port and an address of a family: Linux's choice for the loopback.
    fn first_active(&self, v4: bool) -> Option<Attachment> {
        let active = self.map.values().filter(|entry| entry.device.active);
        active.into_iter().find_map(|entry| entry.attach(|row| row.ip.is_ipv4() == v4))
    }

    /// Returns the GID entry of a local address on a port.
    pub fn by_ip_on(&self, place: Place, ip: IpAddr) -> Option<Attachment> {
        self.map.get(&place)?.attach(|row| row.ip == ip)
    }

    /// Returns the GID entry of a port that received a packet.
    pub fn by_gid(&self, place: Place, gid: [u8; 16]) -> Option<Attachment> {
        self.map.get(&place)?.attach(|row| row.gid == gid)
    }
}

impl Entry {
    /// Returns the first entry that fits, preferably one with the default framing.
    fn attach(&self, fits: impl Fn(&&DeviceGid) -> bool) -> Option<Attachment> {
        let rows = || self.device.gids.iter().filter(|row| fits(row));
        let row = rows().find(|row| row.mode == self.roce_mode).or_else(|| rows().next())?;
        Some(Attachment {
            device: self.device.index,
            port: self.device.port,
            sgid_index: row.index,
            sgid: row.gid,
            ifindex: row.ifindex,
            mode: row.mode,
        })
    }
}

/// Returns the loopback address of a family.
pub fn localhost(family: Family) -> IpAddr {
    match family {
        Family::Inet => Ipv4Addr::LOCALHOST.into(),
        Family::Inet6 | Family::Ib => Ipv6Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, addresses: &[&str]) -> Device {
        let gids = (0..).zip(addresses).map(|(row, text)| DeviceGid {
            index: row,
            gid: gid_of_ip(text.parse().unwrap()),
            ip: text.parse().unwrap(),
            mode: RoceMode::V2,
            ifindex: index + 10,
        });
        Device {
            index,
            port: 1,
            name: format!("rxe{index}"),
            node_guid: u64::from(index),
            ifindex: index + 10,
            loopback: addresses.contains(&"127.0.0.1"),
            active: true,
            active_mtu: 3,
            rate: 0,
            kind: PortKind::Roce,
            pkeys: vec![0xffff],
            gids: gids.collect(),
        }
    }

    #[test]
    fn an_address_belongs_to_the_device_that_has_it() {
        let mut devices = Devices::default();
        devices.set(device(0, &["10.0.0.1", "fe80::1"]));
        devices.set(device(1, &["10.0.1.1", "fe80::1"]));
        devices.set(device(2, &["127.0.0.1", "::1"]));
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let at = |text, ifindex| devices.by_ip(ip(text), ifindex).map(|found| (found.device, found.sgid_index));
        assert_eq!(at("10.0.1.1", 0), Some((1, 0)));
        assert_eq!(at("fe80::1", 11), Some((1, 1)));
        assert_eq!(at("10.0.0.9", 0), None);
        assert_eq!(devices.loopback(ip("127.0.0.1")).map(|found| found.device), Some(2));
        assert_eq!(devices.loopback(ip("127.8.8.8")).map(|found| found.device), Some(2));
        assert!(devices.is_local(ip("10.0.0.1")) && !devices.is_local(ip("192.0.2.1")));
    }

    #[test]
    fn each_port_has_its_own_addresses() {
        let mut devices = Devices::default();
        devices.set(device(7, &["10.0.0.1"]));
        devices.set(Device { port: 2, ..device(7, &["10.0.0.2"]) });
        let port_of = |text: &str| devices.by_ip(text.parse().unwrap(), 0).map(|found| (found.device, found.port));
        assert_eq!(port_of("10.0.0.1"), Some((7, 1)));
        assert_eq!(port_of("10.0.0.2"), Some((7, 2)));
        assert!(devices.by_ip_on((7, 1), "10.0.0.2".parse().unwrap()).is_none());
        assert_eq!(devices.of_device(7).count(), 2);
        assert!(devices.remove(7) && devices.of_device(7).count() == 0 && !devices.remove(7));
    }

    #[test]
    fn the_default_framing_chooses_the_row() {
        let mut devices = Devices::default();
        let mut both = device(0, &["10.0.0.1", "10.0.0.1"]);
        both.gids[0].mode = RoceMode::V1;
        devices.set(both);
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(devices.by_ip(ip, 0).map(|found| found.sgid_index), Some(1));
        devices.change(0).for_each(|entry| entry.roce_mode = RoceMode::V1);
        assert_eq!(devices.by_ip(ip, 0).map(|found| found.sgid_index), Some(0));
    }
}
