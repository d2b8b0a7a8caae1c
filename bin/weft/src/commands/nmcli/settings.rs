//! The words of `nmcli connection add` and `modify` after the profile: properties and their values.

use super::failure::Failure;
use crate::commands::profiles::address::Family;
use crate::commands::profiles::inert::{self, InertProperty};
use crate::commands::profiles::profile::{INFINIBAND, Method, Profile};
use crate::commands::profiles::properties::{Change, PROPERTIES, Property};

/// Words of `add` that stand for properties.
const ALIASES: [(&str, &str); 13] = [
    ("type", "connection.type"),
    ("con-name", "connection.id"),
    ("ifname", "connection.interface-name"),
    ("autoconnect", "connection.autoconnect"),
    ("master", "connection.master"),
    ("transport-mode", "infiniband.transport-mode"),
    // Red Hat's guide.
    ("transportmode", "infiniband.transport-mode"),
    ("mtu", "infiniband.mtu"),
    ("p-key", "infiniband.p-key"),
    ("parent", "infiniband.parent"),
    ("mac", "infiniband.mac-address"),
    ("gw4", "ipv4.gateway"),
    ("gw6", "ipv6.gateway"),
];

/// A property that NetworkManager knows.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Known {
    /// One with an effect.
    Effective(Property),
    /// One without.
    Inert(InertProperty),
}

/// A property and its new value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    property: Known,
    /// Its name, for errors.
    name: String,
    change: Change,
    value: String,
    /// Whether addresses make the method manual, as those of `ip4` and `ip6` do.
    is_static: bool,
}

/// Parses pairs of words.
///
/// # Errors
/// A property is unknown, or its value is missing.
pub fn parse(words: &[String], has_aliases: bool) -> Result<Vec<Assignment>, Failure> {
    let mut all = Vec::new();
    let mut words = words.iter().filter(|word| *word != "--");
    while let Some(word) = words.next() {
        let (change, name) = match word.split_at_checked(1) {
            Some(("+", name)) => (Change::Add, name),
            Some(("-", name)) => (Change::Remove, name),
            _ => (Change::Set, word.as_str()),
        };
        let mut assignment = match name {
            "save" if has_aliases => {
                words.next();
                continue;
            }
            "ip4" | "ip6" if has_aliases => {
                let family = if name == "ip4" { Family::V4 } else { Family::V6 };
                let property = Known::Effective(Property::Addresses(family));
                Assignment {
                    property,
                    name: name.to_owned(),
                    change: Change::Add,
                    value: String::new(),
                    is_static: true,
                }
            }
            _ => {
                let alias = ALIASES.iter().find(|(alias, _)| has_aliases && *alias == name);
                let (property, name) = find(alias.map_or(name, |(_, name)| name))?;
                Assignment { property, name, change, value: String::new(), is_static: false }
            }
        };
        let value = words.next().ok_or_else(|| Failure::input(&format!("value for '{name}' is missing.")))?;
        value.clone_into(&mut assignment.value);
        all.push(assignment);
    }
    Ok(all)
}

/// Finds a property by its name, in which setting and property may be abbreviated.
fn find(name: &str) -> Result<(Known, String), Failure> {
    let invalid = || Failure::input(&format!("invalid <setting>.<property> '{name}'."));
    let (setting, key) = name.split_once('.').filter(|(setting, _)| !setting.is_empty()).ok_or_else(invalid)?;
    let settings = inert::settings();
    let Some(setting) = settings.into_iter().find(|known| known.starts_with(setting)) else {
        let known = settings.join(", ");
        return Err(Failure::input(&format!(
            "invalid or not allowed setting '{setting}': '{setting}' not among [{known}]."
        )));
    };
    if let Some(property) = Property::find(setting, key) {
        return Ok((Known::Effective(property), format!("{setting}.{key}")));
    }
    let inert = |key: &str| InertProperty::find(setting, key).map(|found| (found.full_name(), Known::Inert(found)));
    if let Some((name, property)) = inert(key) {
        return Ok((property, name));
    }
    let of_setting = || PROPERTIES.into_iter().filter(|(in_setting, ..)| *in_setting == setting);
    let mut abbreviated = of_setting().filter(|(_, known, _)| !key.is_empty() && known.starts_with(key));
    if let (Some((_, known, property)), None) = (abbreviated.next(), abbreviated.next()) {
        return Ok((Known::Effective(property), format!("{setting}.{known}")));
    }
    let mut abbreviated = InertProperty::names(setting).filter(|known| !key.is_empty() && known.starts_with(key));
    if let (Some(known), None) = (abbreviated.next(), abbreviated.next())
        && let Some((name, property)) = inert(known)
    {
        return Ok((property, name));
    }
    let known: Vec<&str> = of_setting().map(|(_, known, _)| known).chain(InertProperty::names(setting)).collect();
    Err(Failure::input(&format!("invalid property '{key}': '{key}' not among [{}].", known.join(", "))))
}

/// Applies assignments to a profile, and checks it.
///
/// # Errors
/// A value is wrong.
pub fn apply(profile: &mut Profile, all: &[Assignment]) -> Result<(), Failure> {
    for Assignment { property, name, change, value, is_static } in all {
        let changed = match property {
            // "*" is any interface.
            Known::Effective(Property::InterfaceName) if value == "*" => {
                Property::InterfaceName.change(profile, *change, "")
            }
            Known::Effective(property) => property.change(profile, *change, value),
            Known::Inert(property) => property.change(profile, *change, value),
        };
        changed.map_err(|why| Failure::input(&format!("failed to modify {name}: {}.", why.trim_end_matches('.'))))?;
        if let (true, Known::Effective(Property::Addresses(family))) = (*is_static, property) {
            profile.ip_mut(*family).method = Method::Manual;
        }
    }
    Ok(())
}

/// Returns the type that the words give, if any.
pub fn has_type(all: &[Assignment]) -> Result<(), Failure> {
    match all.iter().find(|one| one.property == Known::Effective(Property::Type)) {
        None => Err(Failure::input("'type' argument is required.")),
        Some(one) if one.value == INFINIBAND => Ok(()),
        Some(one) => {
            let text = format!(
                "connections of type '{}' are not supported on a host of a fabric: type infiniband is.",
                one.value
            );
            Err(Failure::input(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(line: &str) -> Result<Profile, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let all = parse(&words, true)?;
        has_type(&all)?;
        let mut profile = Profile::new("", "u");
        apply(&mut profile, &all)?;
        Ok(profile)
    }

    #[test]
    fn the_guide_s_words_make_a_profile() {
        for mode in ["transportmode", "transport-mode", "infiniband.transport-mode"] {
            let line = format!("type infiniband con-name mlx4_ib0 ifname mlx4_ib0 {mode} Connected mtu 65520");
            let profile = made(&line).unwrap();
            assert_eq!(
                (profile.id.as_str(), profile.mtu, profile.transport.name()),
                ("mlx4_ib0", Some(65520), "connected")
            );
        }
        let short =
            made("type infiniband ifname * ip4 10.1.1.1/16 gw4 10.1.0.1 ipv6.addr 2001:db8::1/64 -- ipv4.dn 10.1.0.2")
                .unwrap();
        assert_eq!((short.ipv4.method, short.interface_name), (Method::Manual, None));
        assert_eq!((short.ipv6.addresses.len(), short.ipv4.dns.len()), (1, 1));
    }

    #[test]
    fn properties_without_effect_are_kept() {
        let profile = made("type infiniband connection.zone public ipv4.may-f no ipv6.addr-gen-mode eui64").unwrap();
        let kept: Vec<_> = profile.others.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
        assert_eq!(kept, [("zone", "public"), ("may-fail", "false"), ("addr-gen-mode", "eui64")]);
    }

    #[test]
    fn faults_are_told_in_nmcli_s_words() {
        for (line, expected) in [
            ("con-name x", "Error: 'type' argument is required."),
            ("type infiniband frob 2", "Error: invalid <setting>.<property> 'frob'."),
            ("type infiniband mtu", "Error: value for 'mtu' is missing."),
            (
                "type infiniband p-key 0x18002",
                "Error: failed to modify infiniband.p-key: '0x18002' is not a valid IBoIP P_Key.",
            ),
            (
                "type infiniband infiniband.foo 1",
                "Error: invalid property 'foo': 'foo' not among [mac-address, mtu, transport-mode, p-key, parent].",
            ),
            (
                "type infiniband foo.bar 1",
                "Error: invalid or not allowed setting 'foo': 'foo' not among [connection, infiniband, sriov, ethtool, \
                 match, ipv4, ipv6, hostname, tc, proxy].",
            ),
            (
                "type bond",
                "Error: connections of type 'bond' are not supported on a host of a fabric: type infiniband is.",
            ),
        ] {
            assert_eq!(made(line).unwrap_err().text, expected);
        }
    }
}
