//! Names for commands of a real fabric's nodes. They come from the NodeDescriptions (`node3 HCA-1`, `leaf1`), but these
//! need not be unique; where they are not, the node's ID (`S-0002c90300100000`) replaces them.

use std::collections::BTreeMap;

use super::super::NodeKind;

/// Known facts of a node: its kind, ID and description.
pub struct Known<'a> {
    pub kind: NodeKind,
    pub id: &'a str,
    pub description: &'a str,
}

/// Returns a name for each node, and for adapters the host.
pub fn names(nodes: &[Known<'_>]) -> Vec<(String, String)> {
    let mut times = BTreeMap::new();
    let mut adapters: BTreeMap<&str, u32> = BTreeMap::new();
    for node in nodes {
        *times.entry(node.description).or_insert(0u32) += 1;
    }
    // A description that several nodes share says nothing about hosts.
    let only = |node: &Known<'_>| !node.description.is_empty() && times.get(node.description) == Some(&1);
    for node in nodes.iter().filter(|node| only(node)) {
        if let Some((host, _)) = adapter_of(node) {
            *adapters.entry(host).or_insert(0) += 1;
        }
    }
    let named = nodes.iter().map(|node| match (only(node), adapter_of(node)) {
        (false, _) => (node.id.to_owned(), node.id.to_owned()),
        (true, Some((host, _))) if adapters.get(host) == Some(&1) => (host.to_owned(), host.to_owned()),
        (true, Some((host, adapter))) => (format!("{host}/{adapter}"), host.to_owned()),
        (true, None) => (node.description.to_owned(), node.description.to_owned()),
    });
    let mut taken = std::collections::BTreeSet::new();
    nodes
        .iter()
        .zip(named)
        .map(|(node, (name, host))| {
            // A host with the name of a switch, or with another node's ID.
            let name = if taken.insert(name.clone()) { name } else { node.id.to_owned() };
            (name, if node.kind == NodeKind::Ca { host } else { String::new() })
        })
        .collect()
}

/// Returns host and adapter if an adapter's description names both: two words, the second ending in a digit.
fn adapter_of<'a>(node: &Known<'a>) -> Option<(&'a str, &'a str)> {
    if node.kind != NodeKind::Ca {
        return None;
    }
    let (host, adapter) = node.description.split_once(' ')?;
    let adapter = adapter.trim();
    let named = !adapter.contains(' ') && adapter.ends_with(|c: char| c.is_ascii_digit());
    (named && !host.is_empty()).then_some((host, adapter))
}
