//! Profiles as key files of NetworkManager (`.nmconnection`).

use super::address::{Family, Route};
use super::keyfile::{self, Entry};
use super::profile::{INFINIBAND, Profile};
use super::properties::{Change, Property};

/// Entries that describe bookkeeping of NetworkManager, or what is so on a host anyway: no warning says that they have
/// no effect.
const QUIET: [(&str, &str); 9] = [
    ("connection", "timestamp"),
    ("connection", "permissions"),
    ("connection", "autoconnect-priority"),
    ("ipv4", "may-fail"),
    ("ipv6", "may-fail"),
    ("ipv6", "addr-gen-mode"),
    ("ipv6", "ip6-privacy"),
    ("ipv4", "route-metric"),
    ("ipv6", "route-metric"),
];

/// A profile that was read, and warnings about its entries without effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// The profile.
    pub profile: Profile,
    /// Lines for the user.
    pub warnings: Vec<String>,
}

/// Parses a key file. `name`: the profile's name if the file has none. A file may also have no UUID.
///
/// # Errors
/// The text names the line or the property, and the fault.
pub fn parse(text: &str, name: &str) -> Result<Read, String> {
    let entries = keyfile::parse(text)?;
    let kind = entries.iter().find(|entry| entry.group == "connection" && entry.key == "type");
    match kind.map(|entry| entry.value.as_str()) {
        Some(INFINIBAND) => {}
        Some(other) => return Err(format!("the profile is of type {other}; a fabric's hosts have type {INFINIBAND}")),
        None => return Err("connection.type: property is missing".to_owned()),
    }
    let (mut profile, mut warnings) = (Profile::new(name, ""), Vec::new());
    for entry in entries {
        if !apply(&mut profile, &entry).map_err(|why| at(&entry, &why))? {
            if !QUIET.contains(&(entry.group.as_str(), entry.key.as_str())) {
                warnings.push(at(&entry, "it has no effect on a host of a fabric"));
            }
            profile.others.push(entry);
        }
    }
    profile.check()?;
    Ok(Read { profile, warnings })
}

fn at(entry: &Entry, text: &str) -> String {
    format!("line {}: {}.{}: {text}", entry.line, entry.group, entry.key)
}

/// Applies an entry; returns whether it is one with an effect.
fn apply(profile: &mut Profile, entry: &Entry) -> Result<bool, String> {
    let (key, value) = (entry.key.as_str(), entry.value.as_str());
    if (entry.group.as_str(), key) == ("connection", "uuid") {
        if !is_uuid(value) {
            return Err(format!("'{value}' is not a UUID"));
        }
        value.clone_into(&mut profile.uuid);
        return Ok(true);
    }
    let family = match entry.group.as_str() {
        "ipv4" => Some(Family::V4),
        "ipv6" => Some(Family::V6),
        _ => None,
    };
    if let Some(family) = family {
        // address1=192.0.2.1/24,192.0.2.254: the gateway may follow the address.
        if is_numbered(key, &["address", "addresses"]) {
            let (address, gateway) = value.split_once(',').unwrap_or((value, ""));
            Property::Addresses(family).change(profile, Change::Add, address)?;
            if !gateway.trim().is_empty() {
                Property::Gateway(family).change(profile, Change::Set, gateway)?;
            }
            return Ok(true);
        }
        if is_numbered(key, &["route", "routes"]) {
            let route = Route::parse(family, value)?;
            profile.ip_mut(family).routes.push(route);
            return Ok(true);
        }
    }
    let Some(property) = Property::find(&entry.group, key) else { return Ok(false) };
    property.change(profile, Change::Set, value)?;
    Ok(true)
}

/// Whether a text can be a UUID: the name of a file follows from it.
fn is_uuid(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a key is one of these names, with a number behind it or none.
fn is_numbered(key: &str, names: &[&str]) -> bool {
    names.contains(&key.trim_end_matches(|char: char| char.is_ascii_digit()))
}

/// Formats a profile as a key file, with the entries in NetworkManager's order.
pub fn format(profile: &Profile) -> String {
    let mut entries = Vec::new();
    let mut put = |group: &str, key: &str, value: String| {
        entries.push(Entry { group: group.to_owned(), key: key.to_owned(), value, line: 0 });
    };
    put("connection", "id", profile.id.clone());
    if !profile.uuid.is_empty() {
        put("connection", "uuid", profile.uuid.clone());
    }
    put("connection", "type", INFINIBAND.to_owned());
    if !profile.autoconnect {
        put("connection", "autoconnect", "false".to_owned());
    }
    let named = [("interface-name", Property::InterfaceName, "connection")];
    let infiniband = [
        ("mac-address", Property::MacAddress, INFINIBAND),
        ("mtu", Property::Mtu, INFINIBAND),
        ("parent", Property::Parent, INFINIBAND),
    ];
    for (key, property, group) in named.into_iter().chain(infiniband) {
        let value = property.get(profile);
        if !value.is_empty() && value != "auto" {
            put(group, key, value);
        }
    }
    if let Some(p_key) = profile.p_key {
        put(INFINIBAND, "p-key", p_key.to_string());
    }
    put(INFINIBAND, "transport-mode", profile.transport.name().to_owned());
    for family in [Family::V4, Family::V6] {
        put_ip(&mut put, profile, family);
    }
    entries.extend(profile.others.iter().cloned());
    // A group is in one piece.
    let mut groups: Vec<String> = Vec::new();
    for entry in &entries {
        if !groups.contains(&entry.group) {
            groups.push(entry.group.clone());
        }
    }
    entries.sort_by_key(|entry| groups.iter().position(|group| *group == entry.group));
    keyfile::format(&entries)
}

fn put_ip(put: &mut impl FnMut(&str, &str, String), profile: &Profile, family: Family) {
    let (ip, group) = (profile.ip(family), family.setting());
    for (number, address) in (1..).zip(&ip.addresses) {
        let gateway = ip.gateway.filter(|_| number == 1).map(|gateway| format!(",{gateway}")).unwrap_or_default();
        put(group, &format!("address{number}"), format!("{address}{gateway}"));
    }
    if !ip.dns.is_empty() {
        let servers: String = ip.dns.iter().map(|server| format!("{server};")).collect();
        put(group, "dns", servers);
    }
    put(group, "method", ip.method.name().to_owned());
    if ip.never_default {
        put(group, "never-default", "true".to_owned());
    }
    for (number, route) in (1..).zip(&ip.routes) {
        put(group, &format!("route{number}"), route.to_string().replace(' ', ","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by NetworkManager 1.42 for the commands of Red Hat's guide.
    const OF_THE_GUIDE: &str = "[connection]\nid=mlx4_ib0\nuuid=70502dfa-948b-4bce-8147-57df8994def9\n\
        type=infiniband\ninterface-name=mlx4_ib0\n\n[infiniband]\nmtu=65520\ntransport-mode=connected\n\n\
        [ipv4]\naddress1=192.0.2.1/24,192.0.2.254\ndns=192.0.2.253;\nmethod=manual\n\n\
        [ipv6]\naddr-gen-mode=default\nmethod=auto\n\n[proxy]\n";

    #[test]
    fn a_file_of_network_manager_is_read_and_written() {
        let Read { profile, warnings } = parse(OF_THE_GUIDE, "x").unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(
            (profile.id.as_str(), profile.mtu, profile.transport.name()),
            ("mlx4_ib0", Some(65520), "connected")
        );
        assert_eq!(profile.ipv4.gateway.map(|ip| ip.to_string()).as_deref(), Some("192.0.2.254"));
        let written = format(&profile);
        assert!(written.contains("address1=192.0.2.1/24,192.0.2.254\ndns=192.0.2.253;\nmethod=manual\n"), "{written}");
        assert!(written.contains("addr-gen-mode=default"), "{written}");
        let again = parse(&written, "x").unwrap().profile;
        assert_eq!(format(&again), written);
    }

    #[test]
    fn entries_without_effect_are_named_and_kept() {
        let text = "[connection]\ntype=infiniband\nzone=public\n[ipv4]\nmethod=auto\ndns-search=x;\n[user]\na=b\n";
        let Read { profile, warnings } = parse(text, "from its file").unwrap();
        assert_eq!(profile.id, "from its file");
        let expected = [
            "line 3: connection.zone: it has no effect on a host of a fabric",
            "line 6: ipv4.dns-search: it has no effect on a host of a fabric",
            "line 8: user.a: it has no effect on a host of a fabric",
        ];
        assert_eq!(warnings, expected);
        let written = format(&profile);
        assert!(
            ["zone=public\n", "dns-search=x;\n", "[user]\na=b\n"].iter().all(|part| written.contains(part)),
            "{written}"
        );
    }

    #[test]
    fn routes_and_p_keys_round_trip() {
        let text = "[connection]\ntype=infiniband\n[infiniband]\np-key=32770\nparent=ib0\n[ipv4]\nmethod=manual\n\
                    address1=10.1.1.1/16\naddress2=10.1.1.2/16\nroute1=192.168.9.0/24,10.1.0.3,5\n";
        let profile = parse(text, "x").unwrap().profile;
        assert_eq!((profile.p_key, profile.ipv4.addresses.len(), profile.ipv4.routes.len()), (Some(0x8002), 2, 1));
        assert_eq!(parse(&format(&profile), "x").unwrap().profile, profile);
    }

    #[test]
    fn other_types_and_wrong_values_are_refused() {
        for (text, expected) in [
            ("[connection]\nid=x\n", "connection.type: property is missing"),
            ("[connection]\ntype=ethernet\n", "the profile is of type ethernet; a fabric's hosts have type infiniband"),
            (
                "[connection]\ntype=infiniband\n[infiniband]\np-key=x\n",
                "line 4: infiniband.p-key: 'x' is not a valid IBoIP P_Key.",
            ),
            (
                "[connection]\ntype=infiniband\n[ipv4]\nmethod=manual\n",
                "ipv4.addresses: this property cannot be empty for 'method=manual'",
            ),
        ] {
            assert_eq!(parse(text, "x").map(|read| read.profile.id), Err(expected.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_alike(lines in prop::collection::vec(
            "(address1|addresses|dns|method|gateway|route1|mtu|p-key|x)=[0-9a-z./,; ]{0,24}", 0..6)) {
            let text = format!("[connection]\ntype=infiniband\n[ipv4]\n{}\n", lines.join("\n"));
            if let Ok(read) = parse(&text, "x") {
                prop_assert_eq!(format(&parse(&format(&read.profile), "x").unwrap().profile), format(&read.profile));
            }
        }
    }
}
