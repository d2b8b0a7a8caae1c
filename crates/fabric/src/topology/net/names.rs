//! Names for commands of a real fabric's nodes. They come from the NodeDescriptions (`node3 HCA-1`, `leaf1`), but these
//! need not be unique; where they are not, the node's ID (`S-0002c90300100000`) replaces them.

use std::collections::BTreeMap;

use super::super::NodeKind;
use super::super::builder::is_adapter_name;

/// Known facts of a node: its kind, ID and description.
pub struct Known<'a> {
    pub kind: NodeKind,
    pub id: &'a str,
    pub description: &'a str,
}

/// Names of a node.
pub struct Names {
    /// For commands.
    pub name: String,
    /// An adapter's host; empty otherwise.
    pub host: String,
    /// An adapter's name on its host; empty if the description has none.
    pub adapter: String,
}

/// Names each node.
pub fn names(nodes: &[Known<'_>]) -> Vec<Names> {
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
            let host = if node.kind == NodeKind::Ca { host } else { String::new() };
            let device = adapter_of(node).filter(|_| only(node)).map(|(_, adapter)| adapter);
            let adapter = device.filter(|name| is_device(name)).unwrap_or_default().to_owned();
            Names { name, host, adapter }
        })
        .collect()
}

/// Returns whether a word is a device's name as drivers give them (`mlx5_0`, `hfi1_0`, `qib0`) and not a person's
/// (`HCA-1`).
fn is_device(word: &str) -> bool {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(usual) && is_adapter_name(word)
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
