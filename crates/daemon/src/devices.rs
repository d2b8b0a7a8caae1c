//! The devices. The daemon makes a RoCE device automatically on every interface that has an address, unless a user made a
//! device there by name. Devices follow their interfaces; every change is reported once, as a complete new description.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_ipc::{
    DEVICE_KIND_RXE, DEVICE_KIND_SIW, DEVICES_MAX, DeviceInfo, Event, GidEntry, GidType, IB_DEVICE_INDEX_BASE,
    PhysState, PortState, Refusal, active_mtu_bytes, iwarp_gid_of_mac, iwarp_mtu_bytes, node_guid_of_mac,
    valid_device_name, valid_netdev_name,
};

use crate::gid_table::GidTable;
use crate::netdev::{Netdev, Netdevs};
use crate::refusal::{EEXIST, EINVAL, ENODEV, ENOSPC, refuse};

/// P_Key of the default partition, full member: the only one that RoCE has.
const PKEY_DEFAULT: u16 = 0xffff;
/// Largest next-device number accepted from a predecessor: half of the numbers for devices on interfaces.
const RESTORED_INDEX_MAX: u32 = IB_DEVICE_INDEX_BASE / 2;

/// Properties of a device that its interface does not determine.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Device {
    index: u32,
    name: String,
    ifindex: u32,
    kind: Kind,
    auto: bool,
    gids: GidTable,
    published: Option<DeviceInfo>,
}

/// Protocol of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// RoCE v2.
    Rxe,
    /// iWARP.
    Siw,
}

impl Kind {
    /// The types that a user may name.
    const ALL: [Kind; 2] = [Kind::Rxe, Kind::Siw];

    fn name(self) -> &'static str {
        match self {
            Kind::Rxe => DEVICE_KIND_RXE,
            Kind::Siw => DEVICE_KIND_SIW,
        }
    }

    fn parse(name: &str) -> Result<Kind, Refusal> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(" and ");
            refuse(EINVAL, format!("unknown device type {name:?}: types are {names}"))
        })
    }
}

/// A device as saved for a successor of this daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedDevice {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) kind: Kind,
    pub(crate) auto: bool,
    pub(crate) rows: Vec<Option<[u8; 16]>>,
}

/// All devices and the interfaces under them.
#[derive(Clone, Debug)]
pub struct Devices {
    /// Interfaces and addresses.
    pub netdevs: Netdevs,
    map: BTreeMap<u32, Device>,
    next_index: u32,
    /// Seed for GUIDs of devices whose interface has no hardware address.
    namespace: u64,
}

impl Devices {
    /// Makes an empty list. `namespace` stays the same while the network namespace lives.
    pub fn new(namespace: u64) -> Devices {
        Devices { netdevs: Netdevs::default(), map: BTreeMap::new(), next_index: 0, namespace }
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there are no devices.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns whether a user made a device by name, or renamed an automatic one.
    pub fn any_settings(&self) -> bool {
        self.map.values().any(|device| !device.auto || self.is_renamed(device))
    }

    fn is_renamed(&self, device: &Device) -> bool {
        self.netdevs.by_index(device.ifindex).is_some_and(|netdev| {
            let name = automatic_name(&netdev.name);
            device.name != name && device.name != beside(&name, device.ifindex)
        })
    }

    /// Returns descriptions in the order of enumeration, by interface. Programs take the first device and the first row
    /// of its GID table, so devices that cannot be reached from another link come last, after the loopback.
    pub fn list(&self) -> Vec<&DeviceInfo> {
        let mut list: Vec<(bool, bool, u32, &DeviceInfo)> = self
            .map
            .values()
            .filter_map(|device| {
                let loopback = self.netdevs.by_index(device.ifindex).is_some_and(Netdev::is_loopback);
                let info = device.published.as_ref()?;
                Some((!is_reachable(info), loopback, device.ifindex, info))
            })
            .collect();
        list.sort_by_key(|&(unreachable, loopback, ifindex, _)| (unreachable, loopback, ifindex));
        list.into_iter().map(|(.., info)| info).collect()
    }

    /// Adds a device by name, as `rdma link add`. The automatic device of the interface becomes the new one, or makes way for
    /// one of another type. Returns the identity of the device that made way.
    pub fn add(&mut self, name: &str, kind: &str, netdev: &str) -> Result<Option<u32>, Refusal> {
        let kind = Kind::parse(kind)?;
        check_name(name)?;
        let Some(ifindex) = self.netdevs.by_name(netdev).map(|netdev| netdev.ifindex) else {
            return Err(refuse(ENODEV, format!("no network interface {netdev} in this network namespace")));
        };
        let stands = |device: &&Device| device.ifindex == ifindex && (device.auto || device.kind == kind);
        let standing = self.map.values().find(stands).map(|device| device.index);
        if let Some(other) = self.map.values().find(|device| device.name == name && Some(device.index) != standing) {
            return Err(refuse(EEXIST, format!("device {} exists already", other.name)));
        }
        if let Some(device) = standing.and_then(|index| self.map.get_mut(&index)) {
            if !device.auto {
                let text = format!("device {} stands on {netdev} already: remove it first", device.name);
                return Err(refuse(EEXIST, text));
            }
            if device.kind == kind {
                // Programs that use the automatic one keep working: it is the same adapter under another name.
                device.auto = false;
                name.clone_into(&mut device.name);
                return Ok(None);
            }
            let index = device.index;
            self.map.remove(&index);
            self.insert(name.to_owned(), ifindex, kind, false);
            return Ok(Some(index));
        }
        if self.map.len() >= DEVICES_MAX {
            let text = format!("there are {DEVICES_MAX} devices already, the most there can be");
            return Err(refuse(ENOSPC, text));
        }
        self.insert(name.to_owned(), ifindex, kind, false);
        Ok(None)
    }

    /// Removes a device that was added by name, as `rdma link delete`; programs that use it lose it.
    pub fn remove(&mut self, name: &str) -> Result<u32, Refusal> {
        let device = self.by_name(name)?;
        if device.auto {
            return Err(refuse(
                EINVAL,
                format!("{name} was made by the daemon of itself, because its interface has an address; it stays"),
            ));
        }
        let index = device.index;
        self.map.remove(&index);
        Ok(index)
    }

    /// Renames a device, as `rdma dev set ... name`.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), Refusal> {
        check_name(new)?;
        let index = self.by_name(old)?.index;
        if self.map.values().any(|device| device.name == new && device.index != index) {
            return Err(refuse(EEXIST, format!("device {new} exists already")));
        }
        if let Some(device) = self.map.get_mut(&index) {
            new.clone_into(&mut device.name);
        }
        Ok(())
    }

    fn by_name(&self, name: &str) -> Result<&Device, Refusal> {
        let found = self.map.values().find(|device| device.name == name);
        found.ok_or_else(|| refuse(ENODEV, format!("no device {name}: `weft dev` lists them")))
    }

    fn insert(&mut self, name: String, ifindex: u32, kind: Kind, auto: bool) {
        let index = self.next_index;
        self.next_index += 1;
        self.map.insert(index, Device { index, name, ifindex, kind, auto, gids: GidTable::default(), published: None });
    }

    /// Updates the devices from the interfaces and returns the changes since the last call. `in_use` says whether
    /// programs hold devices open, so that rows of GID tables must not move.
    pub fn refresh(&mut self, in_use: bool) -> Vec<Event> {
        let mut events = Vec::new();
        self.map.retain(|&index, device| {
            let lives = self.netdevs.by_index(device.ifindex).is_some();
            if !lives && device.published.is_some() {
                events.push(Event::DeviceRemoved { index });
            }
            lives
        });
        self.make_automatic();
        let namespace = self.namespace;
        for device in self.map.values_mut() {
            let Some(netdev) = self.netdevs.by_index(device.ifindex) else { continue };
            device.gids.follow(&netdev.usable_addresses(), in_use);
            let info = describe(device, netdev, namespace);
            if device.published.as_ref() != Some(&info) {
                events.push(Event::DeviceChanged(info.clone()));
                device.published = Some(info);
            }
        }
        events
    }

    fn make_automatic(&mut self) {
        let wanting: Vec<(u32, String)> = self
            .netdevs
            .iter()
            .filter(|netdev| !self.map.values().any(|device| device.ifindex == netdev.ifindex))
            .filter(|netdev| {
                valid_netdev_name(&netdev.name) && netdev.addresses.iter().any(|address| address.is_usable())
            })
            .map(|netdev| (netdev.ifindex, netdev.name.clone()))
            .collect();
        for (ifindex, netdev) in wanting {
            if self.map.len() >= DEVICES_MAX {
                return;
            }
            let mut name = automatic_name(&netdev);
            if self.map.values().any(|device| device.name == name) {
                // Another device took the automatic name; an interface's index is unique.
                name = beside(&name, ifindex);
            }
            self.insert(name, ifindex, Kind::Rxe, true);
        }
    }

    /// Returns the state for a successor: the next device's number, and the devices.
    pub fn save(&self) -> (u32, Vec<SavedDevice>) {
        let devices = self.map.values().map(|device| SavedDevice {
            index: device.index,
            name: device.name.clone(),
            ifindex: device.ifindex,
            kind: device.kind,
            auto: device.auto,
            rows: device.gids.rows().to_vec(),
        });
        (self.next_index, devices.collect())
    }

    /// Replaces the devices by a predecessor's; `refresh` then returns the changes.
    pub fn restore(&mut self, next_index: u32, devices: Vec<SavedDevice>) -> Vec<Event> {
        let events = self
            .map
            .values()
            .filter(|device| device.published.is_some())
            .map(|device| Event::DeviceRemoved { index: device.index })
            .collect();
        // Numbers that this daemon's clients have seen must not come back for other devices.
        self.next_index = self.next_index.max(next_index.min(RESTORED_INDEX_MAX));
        self.map.clear();
        for saved in devices.into_iter().take(DEVICES_MAX) {
            let taken = self.map.values().any(|device| device.name == saved.name);
            if saved.index >= self.next_index || taken || !valid_device_name(&saved.name) {
                continue;
            }
            let gids = GidTable::from_rows(saved.rows);
            let SavedDevice { index, name, ifindex, kind, auto, .. } = saved;
            self.map.insert(index, Device { index, name, ifindex, kind, auto, gids, published: None });
        }
        events
    }
}

/// Refuses what cannot be a device's name.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    if valid_device_name(name) {
        return Ok(());
    }
    let text = format!("{name:?} cannot be a device's name: 1 to 63 visible characters without / and %");
    Err(refuse(EINVAL, text))
}

fn automatic_name(netdev: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    // An interface's name has at most 15 bytes, so this has at most 63.
    "rxe_".chars().chain(netdev.chars().map(clean)).take(40).collect()
}

/// Returns the name of an automatic device whose first choice is taken.
fn beside(name: &str, ifindex: u32) -> String {
    format!("{name}_{ifindex}")
}

fn describe(device: &Device, netdev: &Netdev, namespace: u64) -> DeviceInfo {
    let active = netdev.is_running();
    DeviceInfo {
        index: device.index,
        name: device.name.clone(),
        kind: device.kind.name().to_owned(),
        node_guid: node_guid(netdev, namespace),
        netdev: netdev.name.clone(),
        ifindex: netdev.ifindex,
        mac: netdev.mac,
        netdev_mtu: netdev.mtu,
        active_mtu: match device.kind {
            Kind::Rxe => active_mtu_bytes(netdev.mtu),
            Kind::Siw => iwarp_mtu_bytes(netdev.mtu),
        },
        state: if active { PortState::Active } else { PortState::Down },
        phys_state: match (active, netdev.is_up()) {
            (true, _) => PhysState::LinkUp,
            (false, true) => PhysState::Polling,
            (false, false) => PhysState::Disabled,
        },
        gids: match device.kind {
            Kind::Rxe => {
                let row = |(index, gid)| GidEntry { index, gid, gid_type: GidType::RoceV2, ifindex: netdev.ifindex };
                device.gids.entries().map(row).collect()
            }
            Kind::Siw => {
                let gid = iwarp_gid_of_mac(netdev.mac);
                vec![GidEntry { index: 0, gid, gid_type: GidType::RoceV1, ifindex: netdev.ifindex }]
            }
        },
        pkeys: match device.kind {
            Kind::Rxe => vec![PKEY_DEFAULT],
            Kind::Siw => Vec::new(),
        },
        link_speed_mbps: netdev.speed_mbps,
        auto: device.auto,
        infiniband: None,
    }
}

/// Whether a device is up and has an address that is not link-local.
fn is_reachable(info: &DeviceInfo) -> bool {
    let is_link_local = |row: &GidEntry| std::net::Ipv6Addr::from(row.gid).is_unicast_link_local();
    info.state == PortState::Active && !info.gids.iter().all(is_link_local)
}

fn node_guid(netdev: &Netdev, namespace: u64) -> u64 {
    if netdev.mac != [0; 6] {
        return node_guid_of_mac(netdev.mac);
    }
    // Locally administered (the universal bit, inverted in an EUI-64, is clear), and never zero.
    let mixed = (namespace ^ u64::from(netdev.ifindex)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed & !(3 << 56)) | 1
}
