//! Properties that NetworkManager knows for profiles of type infiniband, and that have no effect on a host of a fabric:
//! a profile keeps their values, and nmcli sets and shows them.

use super::keyfile::Entry;
use super::profile::Profile;
use super::properties::{Change, boolean};

/// Longest value in bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// Form of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Text,
    YesNo,
    List,
}

use Form::{List, Text, YesNo};

/// A property, and the value that nmcli shows where a profile has none.
type Row = (&'static str, Form, &'static str);

const CONNECTION: &[Row] = &[
    ("stable-id", Text, ""),
    ("autoconnect-priority", Text, "0"),
    ("autoconnect-retries", Text, "-1 (default)"),
    ("multi-connect", Text, "0 (default)"),
    ("auth-retries", Text, "-1"),
    ("timestamp", Text, "0"),
    ("permissions", List, ""),
    ("zone", Text, ""),
    ("master", Text, ""),
    ("controller", Text, ""),
    ("slave-type", Text, ""),
    ("port-type", Text, ""),
    ("autoconnect-slaves", Text, "-1 (default)"),
    ("autoconnect-ports", Text, "-1 (default)"),
    ("secondaries", List, ""),
    ("gateway-ping-timeout", Text, "0"),
    ("metered", Text, "unknown"),
    ("lldp", Text, "default"),
    ("mdns", Text, "-1 (default)"),
    ("llmnr", Text, "-1 (default)"),
    ("dns-over-tls", Text, "-1 (default)"),
    ("mptcp-flags", Text, "0x0 (default)"),
    ("wait-device-timeout", Text, "-1"),
    ("wait-activation-delay", Text, "-1"),
];

const IPV4: &[Row] = &[
    ("dns-search", List, ""),
    ("dns-options", List, ""),
    ("dns-priority", Text, "0"),
    ("route-metric", Text, "-1"),
    ("route-table", Text, "0 (unspec)"),
    ("routing-rules", List, ""),
    ("replace-local-rule", Text, "-1 (default)"),
    ("ignore-auto-routes", YesNo, "no"),
    ("ignore-auto-dns", YesNo, "no"),
    ("dhcp-client-id", Text, ""),
    ("dhcp-iaid", Text, ""),
    ("dhcp-dscp", Text, ""),
    ("dhcp-timeout", Text, "0 (default)"),
    ("dhcp-send-hostname", YesNo, "yes"),
    ("dhcp-hostname", Text, ""),
    ("dhcp-fqdn", Text, ""),
    ("dhcp-hostname-flags", Text, "0x0 (none)"),
    ("may-fail", YesNo, "yes"),
    ("required-timeout", Text, "-1 (default)"),
    ("dad-timeout", Text, "-1 (default)"),
    ("dhcp-vendor-class-identifier", Text, ""),
    ("link-local", Text, "0 (default)"),
    ("dhcp-reject-servers", List, ""),
    ("auto-route-ext-gw", Text, "-1 (default)"),
];

const IPV6: &[Row] = &[
    ("dns-search", List, ""),
    ("dns-options", List, ""),
    ("dns-priority", Text, "0"),
    ("route-metric", Text, "-1"),
    ("route-table", Text, "0 (unspec)"),
    ("routing-rules", List, ""),
    ("replace-local-rule", Text, "-1 (default)"),
    ("ignore-auto-routes", YesNo, "no"),
    ("ignore-auto-dns", YesNo, "no"),
    ("may-fail", YesNo, "yes"),
    ("required-timeout", Text, "-1 (default)"),
    ("ip6-privacy", Text, "-1 (unknown)"),
    ("addr-gen-mode", Text, "default"),
    ("ra-timeout", Text, "0 (default)"),
    ("mtu", Text, "auto"),
    ("dhcp-pd-hint", Text, ""),
    ("dhcp-duid", Text, ""),
    ("dhcp-iaid", Text, ""),
    ("dhcp-timeout", Text, "0 (default)"),
    ("dhcp-send-hostname", YesNo, "yes"),
    ("dhcp-hostname", Text, ""),
    ("dhcp-hostname-flags", Text, "0x0 (none)"),
    ("auto-route-ext-gw", Text, "-1 (default)"),
    ("token", Text, ""),
];

const PROXY: &[Row] =
    &[("method", Text, "none"), ("browser-only", YesNo, "no"), ("pac-url", Text, ""), ("pac-script", Text, "")];

const MATCH: &[Row] =
    &[("interface-name", List, ""), ("kernel-command-line", List, ""), ("driver", List, ""), ("path", List, "")];

const SRIOV: &[Row] = &[("total-vfs", Text, "0"), ("vfs", List, ""), ("autoprobe-drivers", Text, "-1 (default)")];

const HOSTNAME: &[Row] = &[
    ("priority", Text, "0"),
    ("from-dhcp", Text, "-1 (default)"),
    ("from-dns-lookup", Text, "-1 (default)"),
    ("only-from-default", Text, "-1 (default)"),
];

const TC: &[Row] = &[("qdiscs", List, ""), ("tfilters", List, "")];

/// The settings of such profiles in nmcli's order, each with its inert properties.
const SETTINGS: [(&str, &[Row]); 10] = [
    ("connection", CONNECTION),
    ("infiniband", &[]),
    ("sriov", SRIOV),
    ("ethtool", &[]),
    ("match", MATCH),
    ("ipv4", IPV4),
    ("ipv6", IPV6),
    ("hostname", HOSTNAME),
    ("tc", TC),
    ("proxy", PROXY),
];

/// Settings that every profile has; nmcli shows the others where a profile sets something in them.
const ALWAYS_SHOWN: [&str; 4] = ["connection", "ipv4", "ipv6", "proxy"];

/// Beginnings of the many properties of an adapter, such as `feature-tso`.
const ETHTOOL: [&str; 7] = ["feature-", "coalesce-", "ring-", "pause-", "channels-", "eee-", "fec-"];

/// Returns the settings of such profiles in the order in which nmcli shows them.
pub fn settings() -> [&'static str; 10] {
    SETTINGS.map(|(setting, _)| setting)
}

/// A property without effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InertProperty {
    setting: &'static str,
    name: String,
    form: Form,
    default: &'static str,
}

impl InertProperty {
    fn new(setting: &'static str, (name, form, default): Row) -> InertProperty {
        InertProperty { setting, name: name.to_owned(), form, default }
    }

    /// Finds a property by setting and name.
    pub fn find(setting: &str, name: &str) -> Option<InertProperty> {
        let (setting, rows) = SETTINGS.into_iter().find(|(known, _)| *known == setting)?;
        if setting == "ethtool" && ETHTOOL.iter().any(|start| name.len() > start.len() && name.starts_with(start)) {
            return Some(InertProperty { setting, name: name.to_owned(), form: Text, default: "" });
        }
        rows.iter().find(|(known, ..)| *known == name).map(|row| InertProperty::new(setting, *row))
    }

    /// Returns the names of a setting's properties.
    pub fn names(setting: &str) -> impl Iterator<Item = &'static str> {
        let found = SETTINGS.into_iter().find(|(known, _)| *known == setting);
        found.into_iter().flat_map(|(_, rows)| rows).map(|(name, ..)| *name)
    }

    /// Returns those that nmcli shows of a profile, in its order.
    pub fn shown(profile: &Profile) -> Vec<InertProperty> {
        let mut all = Vec::new();
        for (setting, rows) in SETTINGS {
            let mut set = profile.others.iter().filter(|entry| entry.group == setting).peekable();
            if ALWAYS_SHOWN.contains(&setting) || set.peek().is_some() {
                all.extend(rows.iter().map(|row| InertProperty::new(setting, *row)));
            }
            if rows.is_empty() {
                all.extend(set.filter_map(|entry| InertProperty::find(setting, &entry.key)));
            }
        }
        all
    }

    /// Returns setting and name, as in `connection.zone`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.setting, self.name)
    }

    /// Returns the value as nmcli shows it.
    pub fn get(&self, profile: &Profile) -> String {
        let Some(entry) = profile.others.iter().find(|entry| self.is(entry)) else { return self.default.to_owned() };
        match (self.form, boolean(&entry.value)) {
            (YesNo, Ok(value)) => (if value { "yes" } else { "no" }).to_owned(),
            // Key files end each value of a list with a semicolon.
            (List, _) => values(&entry.value).collect::<Vec<_>>().join(","),
            _ => entry.value.clone(),
        }
    }

    /// Changes the value; an empty one restores the default.
    ///
    /// # Errors
    /// The fault of the value, as nmcli says it.
    pub fn change(&self, profile: &mut Profile, change: Change, value: &str) -> Result<(), String> {
        let value = value.trim();
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("longer than {VALUE_BYTES_MAX} bytes"));
        }
        let old = profile.others.iter().find(|entry| self.is(entry)).map(|entry| entry.value.clone());
        let old = old.unwrap_or_default();
        let new = match (self.form, change) {
            (YesNo, Change::Set) if !value.is_empty() => boolean(value)?.to_string(),
            (_, Change::Set) => value.to_owned(),
            (List, Change::Add) => values(&old).chain(values(value)).collect::<Vec<_>>().join(","),
            (List, Change::Remove) => {
                values(&old).filter(|one| values(value).all(|gone| gone != *one)).collect::<Vec<_>>().join(",")
            }
            _ => return Err("the property is not a list: + and - do not apply".to_owned()),
        };
        if new.len() > VALUE_BYTES_MAX {
            return Err(format!("longer than {VALUE_BYTES_MAX} bytes"));
        }
        profile.others.retain(|entry| !self.is(entry));
        if !new.is_empty() {
            let (group, key) = (self.setting.to_owned(), self.name.clone());
            profile.others.push(Entry { group, key, value: new, line: 0 });
        }
        Ok(())
    }

    fn is(&self, entry: &Entry) -> bool {
        entry.group == self.setting && entry.key == self.name
    }
}

fn values(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ';']).map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::profiles::nmconnection;

    #[test]
    fn values_are_kept_and_shown_as_nmcli_shows_them() {
        let mut profile = Profile::new("x", "u");
        for (name, change, value, shown) in [
            ("connection.zone", Change::Set, "public", "public"),
            ("ipv4.may-fail", Change::Set, "false", "no"),
            ("ipv4.dns-search", Change::Set, "a.example", "a.example"),
            ("ipv4.dns-search", Change::Add, "b.example, c.example", "a.example,b.example,c.example"),
            ("ipv4.dns-search", Change::Remove, "a.example", "b.example,c.example"),
            ("ethtool.feature-tso", Change::Set, "off", "off"),
            ("connection.zone", Change::Set, "", ""),
            ("ipv6.route-metric", Change::Set, "7", "7"),
            ("ipv6.route-metric", Change::Set, "", "-1"),
        ] {
            let (setting, key) = name.split_once('.').unwrap();
            let property = InertProperty::find(setting, key).unwrap();
            property.change(&mut profile, change, value).unwrap();
            let read = nmconnection::parse(&nmconnection::format(&profile), "x").unwrap().profile;
            assert_eq!((property.get(&profile), property.get(&read)), (shown.to_owned(), shown.to_owned()), "{name}");
        }
        let shown: Vec<String> = InertProperty::shown(&profile).iter().map(InertProperty::full_name).collect();
        for name in ["connection.zone", "ipv4.may-fail", "ethtool.feature-tso"] {
            assert!(shown.iter().any(|known| known == name), "{name}");
        }
        assert!(!shown.iter().any(|name| name.starts_with("tc.")));
    }

    #[test]
    fn wrong_values_and_unknown_names_are_refused() {
        let mut profile = Profile::new("x", "u");
        let find = |setting, name| InertProperty::find(setting, name);
        assert!(find("ipv4", "may-fail").unwrap().change(&mut profile, Change::Set, "maybe").is_err());
        assert!(find("connection", "zone").unwrap().change(&mut profile, Change::Add, "x").is_err());
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        assert!(find("connection", "zone").unwrap().change(&mut profile, Change::Set, &long).is_err());
        for (setting, name) in [("connection", "foo"), ("foo", "bar"), ("ethtool", "feature-"), ("infiniband", "x")] {
            assert_eq!(find(setting, name), None);
        }
        assert_eq!(profile, Profile::new("x", "u"));
    }
}
