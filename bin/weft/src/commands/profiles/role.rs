//! The variables of Red Hat's system role `network` (`network_connections`), as far as they concern IPoIB interfaces: from
//! a playbook, or a file of variables alone.

use super::address::Family;
use super::nmconnection::Read;
use super::profile::{INFINIBAND, Method, Profile};
use super::properties::{Change, Property, boolean};
use super::yaml::{self, Node, Value};

/// Name of the list of connections.
const CONNECTIONS: &str = "network_connections";

/// Connections of all lists.
const CONNECTIONS_MAX: usize = 256;

/// A connection of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Its profile, and warnings.
    pub read: Read,
    /// Whether it is to be up, down, or as its profile says.
    pub is_up: Option<bool>,
}

/// Parses the connections of a file.
///
/// # Errors
/// The text names the line and the fault.
pub fn parse(text: &str) -> Result<Vec<Connection>, String> {
    let mut lists = Vec::new();
    let documents = yaml::parse(text)?;
    documents.iter().for_each(|document| find(document, &mut lists));
    if lists.is_empty() {
        return Err(format!("the file has no {CONNECTIONS}: give a playbook or variables of the role network"));
    }
    let mut all = Vec::new();
    for list in lists {
        for node in list.list(CONNECTIONS)? {
            all.push(connection(node)?);
        }
    }
    if all.len() > CONNECTIONS_MAX {
        return Err(format!("the file has more than {CONNECTIONS_MAX} connections"));
    }
    name_parents(&mut all);
    for one in &all {
        let profile = &one.read.profile;
        profile.check().map_err(|why| format!("connection {}: {why}", profile.id))?;
    }
    Ok(all)
}

/// Finds the lists anywhere below a node: a play, a task or a block may have them.
fn find<'a>(node: &'a Node, lists: &mut Vec<&'a Node>) {
    match &node.value {
        Value::List(nodes) => nodes.iter().for_each(|node| find(node, lists)),
        Value::Map(entries) => {
            for (key, node) in entries {
                if key == CONNECTIONS { lists.push(node) } else { find(node, lists) }
            }
        }
        Value::Scalar(_) | Value::Null => {}
    }
}

/// Replaces the name of a parent's connection by that of its interface.
fn name_parents(all: &mut [Connection]) {
    let interfaces: Vec<(String, String)> = all
        .iter()
        .filter_map(|one| Some((one.read.profile.id.clone(), one.read.profile.interface_name.clone()?)))
        .collect();
    for one in all {
        let Some(parent) = &mut one.read.profile.parent else { continue };
        if let Some((_, interface)) = interfaces.iter().find(|(id, _)| id == parent) {
            interface.clone_into(parent);
        }
    }
}

fn connection(node: &Node) -> Result<Connection, String> {
    let entries = node.map("a connection")?;
    let name = node.get("name").ok_or_else(|| format!("line {}: a connection has no name", node.line))?;
    let name = name.text("name")?;
    let mut profile = Profile::new("", "");
    set(&mut profile, Property::Id, name).map_err(|why| format!("line {}: name: {why}", node.line))?;
    let (mut warnings, mut is_up) = (Vec::new(), None);
    for (key, value) in entries {
        let line = value.line;
        let failed = |why: String| format!("line {line}: {key}: {why}");
        let property = match key.as_str() {
            "name" => continue,
            "infiniband" => {
                infiniband(&mut profile, value, &mut warnings)?;
                continue;
            }
            "ip" => {
                ip(&mut profile, value, &mut warnings)?;
                continue;
            }
            "state" => {
                is_up = Some(state(value.text(key)?).map_err(failed)?);
                continue;
            }
            "persistent_state" if value.text(key)? == "present" => continue,
            "persistent_state" => {
                return Err(failed(
                    "only `present` is supported; remove a profile with `nmcli connection delete`".to_owned(),
                ));
            }
            "type" => Property::Type,
            "interface_name" => Property::InterfaceName,
            "autoconnect" => Property::Autoconnect,
            "mtu" => Property::Mtu,
            "mac" => Property::MacAddress,
            "parent" => Property::Parent,
            _ => {
                warnings.push(without_effect(line, key));
                continue;
            }
        };
        set(&mut profile, property, value.text(key)?).map_err(failed)?;
    }
    if node.get("type").is_none() {
        return Err(format!("line {}: connection {name} has no type; a fabric's hosts have {INFINIBAND}", node.line));
    }
    // The role takes the name for that of the interface, unless a child's follows from its parent.
    if profile.interface_name.is_none() && profile.p_key.is_none() && profile.mac_address.is_none() {
        set(&mut profile, Property::InterfaceName, name).map_err(|why| format!("line {}: name: {why}", node.line))?;
    }
    Ok(Connection { read: Read { profile, warnings }, is_up })
}

fn set(profile: &mut Profile, property: Property, value: &str) -> Result<(), String> {
    property.change(profile, Change::Set, value)
}

fn without_effect(line: usize, key: &str) -> String {
    format!("line {line}: {key}: it has no effect on a host of a fabric")
}

fn state(text: &str) -> Result<bool, String> {
    match text {
        "up" => Ok(true),
        "down" => Ok(false),
        other => Err(format!("'{other}' is not up or down")),
    }
}

fn infiniband(profile: &mut Profile, node: &Node, warnings: &mut Vec<String>) -> Result<(), String> {
    for (key, value) in node.map("infiniband")? {
        let property = match key.as_str() {
            "transport_mode" => Property::TransportMode,
            "p_key" => Property::PKey,
            _ => {
                warnings.push(without_effect(value.line, &format!("infiniband.{key}")));
                continue;
            }
        };
        let text = value.text(key)?;
        set(profile, property, text).map_err(|why| format!("line {}: {key}: {why}", value.line))?;
    }
    Ok(())
}

fn ip(profile: &mut Profile, node: &Node, warnings: &mut Vec<String>) -> Result<(), String> {
    let mut methods = [(Family::V4, None), (Family::V6, None)];
    for (key, value) in node.map("ip")? {
        let failed = |why: String| format!("line {}: {key}: {why}", value.line);
        match key.as_str() {
            "address" => add(profile, value, key, Property::Addresses)?,
            "dns" => add(profile, value, key, Property::Dns)?,
            "gateway4" => set(profile, Property::Gateway(Family::V4), value.text(key)?).map_err(failed)?,
            "gateway6" => set(profile, Property::Gateway(Family::V6), value.text(key)?).map_err(failed)?,
            "dhcp4" => methods[0].1 = Some(boolean(value.text(key)?).map_err(failed)?),
            "auto6" => methods[1].1 = Some(boolean(value.text(key)?).map_err(failed)?),
            "route" => routes(profile, value)?,
            _ => warnings.push(without_effect(value.line, &format!("ip.{key}"))),
        }
    }
    for (family, auto) in methods {
        let ip = profile.ip_mut(family);
        ip.method = match (auto, ip.addresses.is_empty()) {
            (Some(true), _) | (None, true) => Method::Auto,
            (_, false) => Method::Manual,
            (Some(false), true) => Method::Disabled,
        };
    }
    Ok(())
}

/// Adds addresses of either family.
fn add(profile: &mut Profile, list: &Node, key: &str, property: impl Fn(Family) -> Property) -> Result<(), String> {
    for node in list.list(key)? {
        let text = node.text(key)?;
        let family = if text.contains(':') { Family::V6 } else { Family::V4 };
        let changed = property(family).change(profile, Change::Add, text);
        changed.map_err(|why| format!("line {}: {key}: {why}", node.line))?;
    }
    Ok(())
}

fn routes(profile: &mut Profile, list: &Node) -> Result<(), String> {
    for node in list.list("route")? {
        let part = |key: &str| node.get(key).map(|value| value.text(key)).transpose();
        let network = part("network")?.ok_or_else(|| format!("line {}: a route has no network", node.line))?;
        let mut text = network.to_owned();
        if let Some(prefix) = part("prefix")? {
            text = format!("{text}/{prefix}");
        }
        for word in [part("gateway")?, part("metric")?].into_iter().flatten().filter(|word| *word != "-1") {
            text = format!("{text} {word}");
        }
        let family = if network.contains(':') { Family::V6 } else { Family::V4 };
        let changed = Property::Routes(family).change(profile, Change::Add, &text);
        changed.map_err(|why| format!("line {}: route: {why}", node.line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red Hat's guide, 6.4.
    const PLAYBOOK: &str = "
- name: Configure the network
  hosts: managed-node-01.example.com
  tasks:
    - name: Configure IPoIB
      ansible.builtin.include_role:
        name: rhel-system-roles.network
      vars:
        network_connections:
          # InfiniBand connection mlx4_ib0
          - name: mlx4_ib0
            interface_name: mlx4_ib0
            type: infiniband

          # IPoIB device mlx4_ib0.8002 on top of mlx4_ib0
          - name: mlx4_ib0.8002
            type: infiniband
            autoconnect: yes
            infiniband:
              p_key: 0x8002
              transport_mode: datagram
            parent: mlx4_ib0
            ip:
              address:
                - 192.0.2.1/24
                - 2001:db8:1::1/64
            state: up
";

    #[test]
    fn the_guide_s_playbook_is_read() {
        let all = parse(PLAYBOOK).unwrap();
        let [port, child] = &all[..] else { panic!("{all:?}") };
        assert!(all.iter().all(|one| one.read.warnings.is_empty()));
        assert_eq!((port.read.profile.interface_name.as_deref(), port.is_up), (Some("mlx4_ib0"), None));
        assert_eq!(port.read.profile.ipv4.method, Method::Auto);
        let profile = &child.read.profile;
        assert_eq!(profile.child(), Some(("mlx4_ib0", 0x8002, "mlx4_ib0.8002".to_owned())));
        assert_eq!((profile.ipv4.method, profile.ipv6.method), (Method::Manual, Method::Manual));
        assert_eq!(profile.ipv6.addresses[0].to_string(), "2001:db8:1::1/64");
        assert_eq!(child.is_up, Some(true));
    }

    #[test]
    fn a_parent_is_named_by_its_connection() {
        let text = "network_connections:\n- {name: a, interface_name: ib1, type: infiniband}\n\
                    - {name: b, parent: a, type: infiniband, infiniband: {p_key: 2}, zone: x, ip: {dhcp4: no}}\n";
        let all = parse(text).unwrap();
        assert_eq!(all[1].read.profile.child(), Some(("ib1", 0x8002, "ib1.8002".to_owned())));
        assert_eq!(all[1].read.profile.ipv4.method, Method::Disabled);
        assert_eq!(all[1].read.warnings, ["line 3: zone: it has no effect on a host of a fabric"]);
    }

    #[test]
    fn faults_are_named_with_their_lines() {
        for (text, expected) in [
            ("a: 1\n", "the file has no network_connections: give a playbook or variables of the role network"),
            ("network_connections:\n- type: infiniband\n", "line 2: a connection has no name"),
            ("network_connections:\n- name: a\n", "line 2: connection a has no type; a fabric's hosts have infiniband"),
            (
                "network_connections:\n- name: a\n  type: bond\n",
                "line 3: type: 'bond' is not the type of an IPoIB interface: infiniband",
            ),
            (
                "network_connections:\n- name: a\n  type: infiniband\n  ip:\n    address: [1.2.3.4/99]\n",
                "line 5: address: invalid IP address: invalid prefix '99'; <1-32> allowed",
            ),
            ("network_connections: {a: b}\n", "line 1: network_connections is a map, not a list"),
            (
                "network_connections:\n- name: a\n  type: infiniband\n  infiniband: {p_key: 2}\n",
                "connection a: infiniband.parent: InfiniBand P_Key connection did not specify parent interface name",
            ),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()));
        }
    }
}
