//! Pictures of a fabric for people: text, Graphviz's DOT, SVG. Switches are in rows by their distance from the hosts.

mod ascii;
mod class;
mod dot;
pub mod layout;
mod svg;

pub use ascii::ascii;
pub use class::LinkClass;
pub use dot::dot;
pub use svg::svg;

use std::collections::{BTreeMap, VecDeque};

use super::{NodeKind, Picture};

/// Returns the nodes by rows: hosts and isolated nodes in row 0, then switches by their distance from a host.
fn rows(picture: &Picture) -> Vec<Vec<u32>> {
    let topology = &picture.topology;
    let neighbours = neighbours(picture);
    let mut row = vec![None; topology.nodes.len()];
    let mut open = VecDeque::new();
    for (place, node) in topology.nodes.iter().enumerate() {
        if node.kind != NodeKind::Switch {
            row[place] = Some(0usize);
            open.push_back(place);
        }
    }
    while let Some(at) = open.pop_front() {
        for next in &neighbours[at] {
            let next = *next as usize;
            if row[next].is_none() {
                row[next] = row[at].map(|row| row + 1);
                open.push_back(next);
            }
        }
    }
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); row.iter().flatten().max().map_or(2, |max| max + 1).max(2)];
    for (place, row) in (0u32..).zip(row) {
        // Switches that lead to no host are in the first row of switches.
        rows[row.unwrap_or(1)].push(place);
    }
    rows
}

/// Returns the nodes at the other ends of each node's cables.
fn neighbours(picture: &Picture) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new(); picture.topology.nodes.len()];
    for cable in &picture.topology.cables {
        for (near, far) in [(cable.a, cable.b), (cable.b, cable.a)] {
            if let Some(list) = out.get_mut(near.node as usize) {
                list.push(far.node);
            }
        }
    }
    out
}

/// Abbreviates names: `node1 node2 node3 leaf7` becomes `node[1-3] leaf7`.
pub fn in_short<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[stem.len()..];
        match digits.parse::<u64>() {
            // A number with leading zeros would lose them.
            Ok(number) if !digits.starts_with('0') && digits.len() < 16 => {
                groups.entry(stem).or_default().push(number);
            }
            _ => plain.push(name.to_owned()),
        }
    }
    for (stem, mut numbers) in groups {
        numbers.sort_unstable();
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            plain.push(match run {
                [only] => format!("{stem}{only}"),
                [first, .., last] => format!("{stem}[{first}-{last}]"),
                [] => continue,
            });
        }
    }
    plain.join(" ")
}

#[cfg(test)]
mod tests;
