//! A connection profile as NetworkManager knows it, as far as it concerns an IPoIB interface.

use std::net::IpAddr;

use super::address::{Cidr, Family, Route};
use super::keyfile::Entry;

/// The type of a profile of an IPoIB interface.
pub const INFINIBAND: &str = "infiniband";

/// The full-member bit of a P_Key, which Linux sets for every child.
pub const FULL_MEMBER: u16 = 0x8000;

/// Bytes of a name that the kernel takes for an interface.
const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// Transport mode of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// Unreliable datagrams.
    #[default]
    Datagram,
    /// Reliable connections.
    Connected,
}

impl Transport {
    /// Returns its name in profiles and in sysfs.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Datagram => "datagram",
            Transport::Connected => "connected",
        }
    }
}

/// How an interface gets addresses of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// From the network: DHCP, router advertisements.
    #[default]
    Auto,
    /// By DHCP alone (IPv6).
    Dhcp,
    /// Link-local ones only.
    LinkLocal,
    /// Those of the profile.
    Manual,
    /// The interface shares another one's network.
    Shared,
    /// Left to the kernel (IPv6).
    Ignore,
    /// None.
    Disabled,
}

/// The methods with their names.
const METHODS: [(Method, &str); 7] = [
    (Method::Ignore, "ignore"),
    (Method::Auto, "auto"),
    (Method::Dhcp, "dhcp"),
    (Method::LinkLocal, "link-local"),
    (Method::Manual, "manual"),
    (Method::Shared, "shared"),
    (Method::Disabled, "disabled"),
];

impl Method {
    /// Returns the methods of a family with their names, in NetworkManager's order.
    pub fn all(family: Family) -> impl Iterator<Item = (Method, &'static str)> {
        let only_ipv6 = |method| matches!(method, Method::Ignore | Method::Dhcp);
        METHODS.into_iter().filter(move |(method, _)| family == Family::V6 || !only_ipv6(*method))
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        METHODS.into_iter().find(|(method, _)| *method == self).map_or("auto", |(_, name)| name)
    }
}

/// The settings of an address family.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IpSettings {
    /// Source of the addresses.
    pub method: Method,
    /// Addresses of the profile.
    pub addresses: Vec<Cidr>,
    /// Default gateway.
    pub gateway: Option<IpAddr>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// Whether the interface never has the default route.
    pub never_default: bool,
}

/// A connection profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Name for the user.
    pub id: String,
    /// Name for programs.
    pub uuid: String,
    /// Interface that the profile is for, if it names one.
    pub interface_name: Option<String>,
    /// Whether it takes effect without a command.
    pub autoconnect: bool,
    /// Last eight bytes of the link-layer address of the interface that it is for.
    pub mac_address: Option<[u8; 20]>,
    /// MTU; by default that of the mode.
    pub mtu: Option<u32>,
    /// Transport mode.
    pub transport: Transport,
    /// P_Key of a child.
    pub p_key: Option<u16>,
    /// Interface that the child is made from.
    pub parent: Option<String>,
    /// IPv4.
    pub ipv4: IpSettings,
    /// IPv6.
    pub ipv6: IpSettings,
    /// Entries without effect on a host of a fabric, kept as they are.
    pub others: Vec<Entry>,
}

impl Profile {
    /// Makes a profile with the defaults of NetworkManager.
    pub fn new(id: impl Into<String>, uuid: impl Into<String>) -> Profile {
        Profile {
            id: id.into(),
            uuid: uuid.into(),
            interface_name: None,
            autoconnect: true,
            mac_address: None,
            mtu: None,
            transport: Transport::default(),
            p_key: None,
            parent: None,
            ipv4: IpSettings::default(),
            ipv6: IpSettings::default(),
            others: Vec::new(),
        }
    }

    /// Returns the settings of a family.
    pub fn ip(&self, family: Family) -> &IpSettings {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }

    /// Returns the settings of a family, to change them.
    pub fn ip_mut(&mut self, family: Family) -> &mut IpSettings {
        match family {
            Family::V4 => &mut self.ipv4,
            Family::V6 => &mut self.ipv6,
        }
    }

    /// Returns the child that the profile is for: the name of the interface that it is made from, its P_Key with the
    /// full-member bit, and its name. `None` if the profile is for the interface of a port.
    ///
    /// Red Hat's guide sets a P_Key in a profile whose interface is that of the port, and no parent: the interface is then
    /// the parent.
    pub fn child(&self) -> Option<(&str, u16, String)> {
        let p_key = self.p_key? | FULL_MEMBER;
        let named = self.interface_name.as_deref();
        let suffix = format!(".{p_key:04x}");
        let parent = self.parent.as_deref().or_else(|| named.map(|name| name.strip_suffix(&suffix).unwrap_or(name)))?;
        Some((parent, p_key, format!("{parent}{suffix}")))
    }

    /// Checks what the settings are only together.
    ///
    /// # Errors
    /// The property and the fault, as NetworkManager says it.
    pub fn check(&self) -> Result<(), String> {
        if self.id.is_empty() {
            return Err("connection.id: property is empty".to_owned());
        }
        for family in [Family::V4, Family::V6] {
            let (ip, setting) = (self.ip(family), family.setting());
            if ip.method == Method::Manual && ip.addresses.is_empty() {
                return Err(format!("{setting}.addresses: this property cannot be empty for 'method=manual'"));
            }
            if ip.gateway.is_some() && ip.addresses.is_empty() {
                return Err(format!("{setting}.gateway: gateway cannot be set if there are no addresses configured"));
            }
        }
        if self.parent.is_some() && self.p_key.is_none() {
            return Err("infiniband.p-key: the parent of a child is set, its P_Key is not".to_owned());
        }
        if self.p_key.is_some_and(|p_key| p_key & !FULL_MEMBER == 0) {
            return Err("infiniband.p-key: 0x0000 and 0x8000 are not P_Keys of a partition".to_owned());
        }
        let named = self.interface_name.as_deref();
        if self.p_key.is_some() && self.child().is_none() {
            return Err(
                "infiniband.parent: InfiniBand P_Key connection did not specify parent interface name".to_owned()
            );
        }
        if let (Some(_), Some(name), Some((.., child))) = (&self.parent, named, self.child())
            && name != child
        {
            return Err(format!(
                "connection.interface-name: interface name of software infiniband device must be '{child}' or unset \
                 (instead it is '{name}')"
            ));
        }
        let child = self.child().map(|(.., name)| name);
        match child.as_deref().or(named) {
            Some(name) => check_interface_name(name).map_err(|why| format!("connection.interface-name: {why}")),
            None => Ok(()),
        }
    }
}

/// Checks that the kernel takes the name for an interface.
///
/// # Errors
/// The reason why it does not, with the name.
pub fn check_interface_name(name: &str) -> Result<(), String> {
    if name.len() > INTERFACE_NAME_BYTES_MAX {
        return Err(format!("'{name}': interface name is longer than {INTERFACE_NAME_BYTES_MAX} characters"));
    }
    let is_valid = weft_ipc::valid_netdev_name(name) && !name.starts_with('-');
    if is_valid { Ok(()) } else { Err(format!("'{name}': interface name is invalid")) }
}

/// Returns a random UUID (RFC 9562 §5.4).
pub fn random_uuid() -> String {
    let (high, low) = (weft_sys::random::u64(), weft_sys::random::u64());
    let bits = (u128::from(high) << 64) | u128::from(low);
    let bits = (bits & !(0xf << 76) | 4 << 76) & !(3 << 62) | 2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(interface: Option<&str>, parent: Option<&str>, p_key: Option<u16>) -> Profile {
        Profile {
            interface_name: interface.map(str::to_owned),
            parent: parent.map(str::to_owned),
            p_key,
            ..Profile::new("x", "u")
        }
    }

    #[test]
    fn children_have_names_of_parent_and_partition() {
        let child = |interface, parent, p_key| {
            profile(interface, parent, p_key).child().map(|(parent, p_key, name)| (parent.to_owned(), p_key, name))
        };
        let expected = Some(("ib0".to_owned(), 0x8002, "ib0.8002".to_owned()));
        for (interface, parent) in [(None, Some("ib0")), (Some("ib0"), None), (Some("ib0.8002"), None)] {
            assert_eq!(child(interface, parent, Some(2)), expected);
        }
        assert_eq!(child(Some("ib0"), None, None), None);
        assert_eq!(child(None, None, Some(2)), None);
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let fails = |profile: &Profile, start: &str| {
            let error = profile.check().unwrap_err();
            assert!(error.starts_with(start), "{error}");
        };
        fails(&profile(Some("x"), Some("ib0"), Some(2)), "connection.interface-name: interface name of software");
        fails(&profile(None, None, Some(2)), "infiniband.parent: ");
        fails(&profile(None, Some("ib0"), None), "infiniband.p-key: ");
        fails(&profile(None, Some("ib0"), Some(0x8000)), "infiniband.p-key: ");
        fails(&profile(None, Some("a_long_name_ib0"), Some(2)), "connection.interface-name: ");
        fails(&profile(Some("a/b"), None, None), "connection.interface-name: ");
        let mut manual = profile(Some("ib0"), None, None);
        manual.ipv4.method = Method::Manual;
        fails(&manual, "ipv4.addresses: ");
        let mut gateway = profile(Some("ib0"), None, None);
        gateway.ipv6.gateway = Some([0; 16].into());
        fails(&gateway, "ipv6.gateway: ");
        assert_eq!(profile(Some("ib0.8002"), Some("ib0"), Some(0x8002)).check(), Ok(()));
    }

    #[test]
    fn uuids_are_random_ones() {
        let uuid = random_uuid();
        assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        assert_ne!(uuid, random_uuid());
    }
}
