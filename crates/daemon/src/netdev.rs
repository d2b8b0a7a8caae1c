//! Interfaces of the network namespace and their addresses, as the kernel reports them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::{ADDRESSES_PER_NETDEV_MAX, NETDEVS_MAX};
use crate::rtnl::{AddressMessage, LinkMessage, RouteMessage};

const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const IFF_POINTOPOINT: u32 = 0x10;
const IFF_NOARP: u32 = 0x80;
const IFF_LOWER_UP: u32 = 0x1_0000;

const IFA_F_SECONDARY_OR_TEMPORARY: u32 = 0x01;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

const RT_SCOPE_UNIVERSE: u8 = 0;

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// RT_SCOPE_*.
    pub scope: u8,
    /// IFA_F_*.
    pub flags: u32,
}

/// Order of addresses in a GID table. Applications take row 0 and expect it to be routable, so IPv4 is first and
/// link-local IPv6 is last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AddressClass {
    /// IPv4 of global scope.
    V4Global,
    /// IPv4 of a narrower scope, mostly 127.0.0.1.
    V4Narrow,
    /// IPv6 that is not link-local.
    V6,
    /// IPv6 link-local.
    V6LinkLocal,
}

impl Address {
    /// Returns whether packets can be sent from it and arrive at it: duplicate address detection is over or not needed.
    pub fn is_usable(&self) -> bool {
        let tentative = self.flags & IFA_F_TENTATIVE != 0 && self.flags & IFA_F_OPTIMISTIC == 0;
        !tentative && self.flags & IFA_F_DADFAILED == 0
    }

    /// Returns its class.
    pub fn class(&self) -> AddressClass {
        match self.ip {
            IpAddr::V4(_) if self.scope == RT_SCOPE_UNIVERSE => AddressClass::V4Global,
            IpAddr::V4(_) => AddressClass::V4Narrow,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => AddressClass::V6LinkLocal,
            IpAddr::V6(_) => AddressClass::V6,
        }
    }

    /// Returns whether another address of the same class is preferable.
    fn is_second_choice(&self) -> bool {
        self.flags & (IFA_F_SECONDARY_OR_TEMPORARY | IFA_F_DEPRECATED) != 0
    }

    /// Returns the GID of this address.
    pub fn gid(&self) -> [u8; 16] {
        match self.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Netdev {
    /// Index.
    pub ifindex: u32,
    /// Name.
    pub name: String,
    /// IFF_*.
    pub flags: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// Hardware address, zero if it has none.
    pub mac: [u8; 6],
    /// Addresses, in the order in which they were added.
    pub addresses: Vec<Address>,
    /// Speed, if the driver reports one.
    pub speed_mbps: Option<u32>,
}

impl Netdev {
    /// Returns whether it is the loopback.
    pub fn is_loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }

    /// Returns whether packets on it need the link address of a neighbour.
    pub fn has_neighbours(&self) -> bool {
        self.flags & (IFF_LOOPBACK | IFF_POINTOPOINT | IFF_NOARP) == 0
    }

    /// Returns whether the administrator switched it on.
    pub fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    /// Returns whether it carries packets: on, and with a carrier. IFF_RUNNING says the same up to a second later,
    /// because the kernel delays its operational states; Linux's rxe does not use it either.
    pub fn is_running(&self) -> bool {
        const ALL: u32 = IFF_UP | IFF_LOWER_UP;
        self.flags & ALL == ALL
    }

    /// Returns usable addresses, preferred ones first.
    pub fn usable_addresses(&self) -> Vec<Address> {
        let mut usable: Vec<Address> = self.addresses.iter().copied().filter(Address::is_usable).collect();
        // Stable: equals keep the order in which they were added.
        usable.sort_by_key(|address| (address.class(), address.is_second_choice()));
        usable
    }
}

/// All interfaces, by index.
#[derive(Clone, Default, Debug)]
pub struct Netdevs {
    map: BTreeMap<u32, Netdev>,
}

impl Netdevs {
    /// Returns an interface by its index.
    pub fn by_index(&self, ifindex: u32) -> Option<&Netdev> {
        self.map.get(&ifindex)
    }

    /// Returns an interface by its name.
    pub fn by_name(&self, name: &str) -> Option<&Netdev> {
        self.map.values().find(|netdev| netdev.name == name)
    }

    /// Returns all interfaces, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Netdev> {
        self.map.values()
    }

    /// Applies a message. Returns the interface whose speed should be read again.
    pub fn apply(&mut self, message: &RouteMessage) -> Option<u32> {
        match message {
            RouteMessage::NewLink(link) => return self.on_link(link),
            RouteMessage::DelLink { ifindex } => {
                self.map.remove(ifindex);
            }
            RouteMessage::NewAddress(address) => self.on_address(address),
            RouteMessage::DelAddress(address) => {
                if let Some(netdev) = self.map.get_mut(&address.ifindex) {
                    netdev.addresses.retain(|other| other.ip != address.ip);
                }
            }
            RouteMessage::Done | RouteMessage::Failed => {}
        }
        None
    }

    /// Sets the speed of an interface.
    pub fn set_speed(&mut self, ifindex: u32, speed_mbps: Option<u32>) {
        if let Some(netdev) = self.map.get_mut(&ifindex) {
            netdev.speed_mbps = speed_mbps;
        }
    }

    fn on_link(&mut self, link: &LinkMessage) -> Option<u32> {
        if self.map.len() >= NETDEVS_MAX && !self.map.contains_key(&link.ifindex) {
            return None;
        }
        let mut changed = false;
        let netdev = self.map.entry(link.ifindex).or_insert_with(|| {
            changed = true;
            Netdev {
                ifindex: link.ifindex,
                name: String::new(),
                flags: 0,
                mtu: 0,
                mac: [0; 6],
                addresses: Vec::new(),
                speed_mbps: None,
            }
        });
        changed |= netdev.flags != link.flags;
        netdev.flags = link.flags;
        if let Some(name) = &link.name {
            netdev.name.clone_from(name);
        }
        netdev.mtu = link.mtu.unwrap_or(netdev.mtu);
        netdev.mac = link.mac.unwrap_or(netdev.mac);
        changed.then_some(link.ifindex)
    }

    fn on_address(&mut self, message: &AddressMessage) {
        let Some(netdev) = self.map.get_mut(&message.ifindex) else { return };
        let address = Address { ip: message.ip, scope: message.scope, flags: message.flags };
        if let Some(known) = netdev.addresses.iter_mut().find(|other| other.ip == address.ip) {
            *known = address;
        } else if netdev.addresses.len() < ADDRESSES_PER_NETDEV_MAX {
            netdev.addresses.push(address);
        }
    }
}
