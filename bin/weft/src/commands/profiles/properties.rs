//! The properties of a profile by their names, such as `infiniband.p-key`: nmcli sets and shows them, and a key file has
//! an entry for nearly each.

use super::address::{Family, Route};
use super::profile::{INFINIBAND, Method, Profile, Transport, check_interface_name};

/// Values of a list.
const LIST_MAX: usize = 64;

/// Longest name of a profile in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// Bytes of a link-layer address.
const ADDRESS_BYTES: usize = 20;

/// A property of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    Id,
    Uuid,
    Type,
    InterfaceName,
    Autoconnect,
    MacAddress,
    Mtu,
    TransportMode,
    PKey,
    Parent,
    Method(Family),
    Dns(Family),
    Addresses(Family),
    Gateway(Family),
    Routes(Family),
    NeverDefault(Family),
}

use Family::{V4, V6};

/// All properties in the order in which nmcli shows them.
pub const PROPERTIES: [(&str, &str, Property); 22] = [
    ("connection", "id", Property::Id),
    ("connection", "uuid", Property::Uuid),
    ("connection", "type", Property::Type),
    ("connection", "interface-name", Property::InterfaceName),
    ("connection", "autoconnect", Property::Autoconnect),
    ("infiniband", "mac-address", Property::MacAddress),
    ("infiniband", "mtu", Property::Mtu),
    ("infiniband", "transport-mode", Property::TransportMode),
    ("infiniband", "p-key", Property::PKey),
    ("infiniband", "parent", Property::Parent),
    ("ipv4", "method", Property::Method(V4)),
    ("ipv4", "dns", Property::Dns(V4)),
    ("ipv4", "addresses", Property::Addresses(V4)),
    ("ipv4", "gateway", Property::Gateway(V4)),
    ("ipv4", "routes", Property::Routes(V4)),
    ("ipv4", "never-default", Property::NeverDefault(V4)),
    ("ipv6", "method", Property::Method(V6)),
    ("ipv6", "dns", Property::Dns(V6)),
    ("ipv6", "addresses", Property::Addresses(V6)),
    ("ipv6", "gateway", Property::Gateway(V6)),
    ("ipv6", "routes", Property::Routes(V6)),
    ("ipv6", "never-default", Property::NeverDefault(V6)),
];

/// How a value changes a property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It replaces the old value; an empty one restores the default.
    Set,
    /// It is added to a list.
    Add,
    /// It is removed from a list.
    Remove,
}

impl Property {
    /// Finds a property by setting and name.
    pub fn find(setting: &str, name: &str) -> Option<Property> {
        // nmcli's old spelling of IP addresses, and the guide's of the transport mode.
        let name = match name {
            "address" => "addresses",
            "transportmode" => "transport-mode",
            name => name,
        };
        let mut all = PROPERTIES.into_iter();
        all.find(|(in_setting, named, _)| *in_setting == setting && *named == name).map(|(.., property)| property)
    }

    /// Returns the value as nmcli shows it; empty if there is none.
    pub fn get(self, profile: &Profile) -> String {
        let yes_no = |value: bool| (if value { "yes" } else { "no" }).to_owned();
        match self {
            Property::Id => profile.id.clone(),
            Property::Uuid => profile.uuid.clone(),
            Property::Type => INFINIBAND.to_owned(),
            Property::InterfaceName => profile.interface_name.clone().unwrap_or_default(),
            Property::Autoconnect => yes_no(profile.autoconnect),
            Property::MacAddress => profile.mac_address.as_ref().map(mac_text).unwrap_or_default(),
            Property::Mtu => profile.mtu.map_or_else(|| "auto".to_owned(), |mtu| mtu.to_string()),
            Property::TransportMode => profile.transport.name().to_owned(),
            Property::PKey => profile.p_key.map_or_else(|| "default".to_owned(), |p_key| format!("{p_key:#06x}")),
            Property::Parent => profile.parent.clone().unwrap_or_default(),
            Property::Method(family) => profile.ip(family).method.name().to_owned(),
            Property::Dns(family) => joined(&profile.ip(family).dns, ","),
            Property::Addresses(family) => joined(&profile.ip(family).addresses, ", "),
            Property::Gateway(family) => profile.ip(family).gateway.map(|ip| ip.to_string()).unwrap_or_default(),
            Property::Routes(family) => joined(&profile.ip(family).routes, ", "),
            Property::NeverDefault(family) => yes_no(profile.ip(family).never_default),
        }
    }

    /// Changes the value.
    ///
    /// # Errors
    /// The fault of the value, as nmcli says it.
    pub fn change(self, profile: &mut Profile, change: Change, value: &str) -> Result<(), String> {
        let value = value.trim();
        match self {
            Property::Dns(family) => {
                change_list(&mut profile.ip_mut(family).dns, change, words(value), |word| family.ip(word))
            }
            Property::Addresses(family) => {
                let parse = |word: &str| family.cidr(word).map_err(|why| format!("invalid IP address: {why}"));
                change_list(&mut profile.ip_mut(family).addresses, change, words(value), parse)
            }
            Property::Routes(family) => {
                let routes = value.split(',').map(str::trim).filter(|route| !route.is_empty());
                change_list(&mut profile.ip_mut(family).routes, change, routes, |text| Route::parse(family, text))
            }
            _ if change != Change::Set => Err("the property is not a list: + and - do not apply".to_owned()),
            _ => self.set(profile, value),
        }
    }

    fn set(self, profile: &mut Profile, value: &str) -> Result<(), String> {
        let given = (!value.is_empty()).then_some(value);
        match self {
            Property::Id if value.len() > ID_BYTES_MAX => return Err(format!("longer than {ID_BYTES_MAX} bytes")),
            Property::Id => profile.id = value.to_owned(),
            Property::Uuid => return Err("the property can't be changed".to_owned()),
            Property::Type if value == INFINIBAND => {}
            Property::Type => return Err(format!("'{value}' is not the type of an IPoIB interface: infiniband")),
            Property::InterfaceName => profile.interface_name = named(given)?,
            Property::Autoconnect => profile.autoconnect = given.map_or(Ok(true), boolean)?,
            Property::MacAddress => profile.mac_address = given.map(mac).transpose()?,
            Property::Mtu => profile.mtu = given.map_or(Ok(None), mtu)?,
            Property::TransportMode => profile.transport = given.map_or(Ok(Transport::default()), transport)?,
            Property::PKey => profile.p_key = given.map_or(Ok(None), p_key)?,
            Property::Parent => profile.parent = named(given)?,
            Property::Method(family) => {
                profile.ip_mut(family).method = given.map_or(Ok(Method::default()), |value| method(family, value))?;
            }
            Property::Gateway(family) => profile.ip_mut(family).gateway = given.map(|ip| family.ip(ip)).transpose()?,
            Property::NeverDefault(family) => {
                profile.ip_mut(family).never_default = given.map_or(Ok(false), boolean)?;
            }
            Property::Dns(_) | Property::Addresses(_) | Property::Routes(_) => {}
        }
        Ok(())
    }
}

fn change_list<'a, T: PartialEq>(
    list: &mut Vec<T>,
    change: Change,
    texts: impl Iterator<Item = &'a str>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let values: Vec<T> = texts.map(parse).collect::<Result<_, _>>()?;
    match change {
        Change::Set => list.clear(),
        Change::Add => {}
        Change::Remove => {
            list.retain(|one| !values.contains(one));
            return Ok(());
        }
    }
    for value in values {
        if !list.contains(&value) {
            list.push(value);
        }
    }
    if list.len() > LIST_MAX { Err(format!("more than {LIST_MAX} values")) } else { Ok(()) }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([',', ';', ' ']).filter(|word| !word.is_empty())
}

fn joined<T: ToString>(list: &[T], separator: &str) -> String {
    list.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

fn named(value: Option<&str>) -> Result<Option<String>, String> {
    value.map(|name| check_interface_name(name).map(|()| name.to_owned())).transpose()
}

/// Parses a boolean in one of NetworkManager's spellings.
///
/// # Errors
/// The text is nmcli's.
pub fn boolean(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err(format!("'{value}' is not valid; use [true, yes, on] or [false, no, off]")),
    }
}

fn mtu(value: &str) -> Result<Option<u32>, String> {
    if value == "auto" {
        return Ok(None);
    }
    let mtu: u32 = value.parse().map_err(|_| format!("'{value}' is out of range [0, {}]", u32::MAX))?;
    Ok((mtu > 0).then_some(mtu))
}

/// Parses a transport mode; Red Hat's guide capitalizes it.
///
/// # Errors
/// The text is nmcli's.
pub fn transport(value: &str) -> Result<Transport, String> {
    let all = [Transport::Datagram, Transport::Connected];
    let found = all.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(value));
    found.ok_or_else(|| format!("'{value}' not among [datagram, connected]"))
}

/// Parses a P_Key; -1 and `default` are that of the port's own interface.
///
/// # Errors
/// The text is nmcli's.
pub fn p_key(value: &str) -> Result<Option<u16>, String> {
    if matches!(value, "-1" | "default") {
        return Ok(None);
    }
    let parsed = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    parsed.map(Some).ok_or_else(|| format!("'{value}' is not a valid IBoIP P_Key."))
}

fn method(family: Family, value: &str) -> Result<Method, String> {
    let found = Method::all(family).find(|(_, name)| *name == value).map(|(method, _)| method);
    found.ok_or_else(|| {
        let names: Vec<&str> = Method::all(family).map(|(_, name)| name).collect();
        format!("'{value}' not among [{}]", names.join(", "))
    })
}

fn mac(value: &str) -> Result<[u8; ADDRESS_BYTES], String> {
    let bytes: Option<Vec<u8>> = value.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("'{value}' is not a valid MAC: an InfiniBand one has {ADDRESS_BYTES} bytes"))
}

fn mac_text(bytes: &[u8; ADDRESS_BYTES]) -> String {
    bytes.map(|byte| format!("{byte:02X}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(profile: &mut Profile, name: &str, change: Change, value: &str) -> Result<(), String> {
        let (setting, name) = name.split_once('.').unwrap();
        Property::find(setting, name).unwrap().change(profile, change, value)
    }

    #[test]
    fn values_are_read_and_shown_as_nmcli_does() {
        let mut profile = Profile::new("x", "u");
        for (name, value, shown) in [
            ("connection.interface-name", "mlx4_ib0", "mlx4_ib0"),
            ("infiniband.transport-mode", "Connected", "connected"),
            ("infiniband.mtu", "65520", "65520"),
            ("infiniband.p-key", "0x8002", "0x8002"),
            ("infiniband.p-key", "32770", "0x8002"),
            ("ipv4.addresses", "192.0.2.1/24, 192.0.2.2/24", "192.0.2.1/24, 192.0.2.2/24"),
            ("ipv4.dns", "192.0.2.253 192.0.2.252", "192.0.2.253,192.0.2.252"),
            ("ipv6.gateway", "2001:db8:1::fffe", "2001:db8:1::fffe"),
            ("ipv6.method", "ignore", "ignore"),
            ("connection.autoconnect", "off", "no"),
            ("infiniband.p-key", "", "default"),
            ("infiniband.mtu", "auto", "auto"),
        ] {
            change(&mut profile, name, Change::Set, value).unwrap();
            let (setting, key) = name.split_once('.').unwrap();
            assert_eq!(Property::find(setting, key).unwrap().get(&profile), shown, "{name}");
        }
    }

    #[test]
    fn lists_grow_and_shrink() {
        let mut profile = Profile::new("x", "u");
        for (kind, value, shown) in [
            (Change::Add, "10.1.1.1/16", "10.1.1.1/16"),
            (Change::Add, "10.1.1.2/16", "10.1.1.1/16, 10.1.1.2/16"),
            (Change::Add, "10.1.1.2/16", "10.1.1.1/16, 10.1.1.2/16"),
            (Change::Remove, "10.1.1.1/16", "10.1.1.2/16"),
            (Change::Set, "", ""),
        ] {
            change(&mut profile, "ipv4.addresses", kind, value).unwrap();
            assert_eq!(Property::Addresses(V4).get(&profile), shown);
        }
        assert!(change(&mut profile, "ipv4.method", Change::Add, "auto").is_err());
        let many: Vec<String> = (0..=LIST_MAX).map(|n| format!("10.0.0.{n}")).collect();
        assert!(change(&mut profile, "ipv4.dns", Change::Set, &many.join(",")).is_err());
    }

    #[test]
    fn wrong_values_are_refused_in_nmcli_s_words() {
        let mut profile = Profile::new("x", "u");
        for (name, value, expected) in [
            ("infiniband.p-key", "0x18002", "'0x18002' is not a valid IBoIP P_Key."),
            ("infiniband.transport-mode", "foo", "'foo' not among [datagram, connected]"),
            ("ipv4.addresses", "192.0.2.300/24", "invalid IP address: Invalid IPv4 address '192.0.2.300'"),
            ("ipv4.method", "foo", "'foo' not among [auto, link-local, manual, shared, disabled]"),
            ("infiniband.mtu", "x", "'x' is out of range [0, 4294967295]"),
        ] {
            assert_eq!(change(&mut profile, name, Change::Set, value), Err(expected.to_owned()));
        }
        assert!(change(&mut profile, "infiniband.mac-address", Change::Set, "80:00").is_err());
        assert_eq!(profile, Profile::new("x", "u"));
    }
}
