//! A fabric as text: the rows of switches, then the cables of each node, with unusual links marked.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::{LinkState, NodeKind, Picture, counted};
use super::{in_short, rows};

/// Width of a drawing in columns.
const COLUMNS: usize = 80;
/// Largest number of switches for which rows are drawn: a screenful.
const DRAWN_MAX: usize = 200;

/// Draws the fabric.
pub fn ascii(picture: &Picture) -> String {
    let topology = &picture.topology;
    let mut out = summary(picture);
    let rows = rows(picture);
    let switches = topology.count(NodeKind::Switch);
    if switches > 0 && switches <= DRAWN_MAX {
        out.push('\n');
        for row in rows.iter().skip(1).rev() {
            let boxes: Vec<String> =
                row.iter().map(|place| format!("[{}]", topology.nodes[*place as usize].name)).collect();
            centred(&mut out, &boxes);
        }
        let hosts = rows[0].iter().map(|place| topology.nodes[*place as usize].name.as_str());
        centred(&mut out, &in_short(hosts).split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
    table(&mut out, picture, &rows);
    out
}

/// Returns title, counts and links by state.
fn summary(picture: &Picture) -> String {
    let topology = &picture.topology;
    let mut out = format!("{}\n", topology.title);
    let count = |kind| topology.count(kind);
    let _ = write!(out, "{}, {}", counted(count(NodeKind::Ca), "adapter"), counted(count(NodeKind::Switch), "switch"));
    let routers = count(NodeKind::Router);
    let _ = if routers > 0 { write!(out, ", {}", counted(routers, "router")) } else { Ok(()) };
    let _ = write!(out, ", {}", counted(topology.cables.len(), "cable"));
    let by_state = LinkState::ALL.map(|state| (state, picture.links.iter().filter(|link| **link == state).count()));
    let words: Vec<String> = by_state
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state.word()))
        .collect();
    let _ = writeln!(out, " ({})", words.join(", "));
    out
}

/// Writes words in centred lines.
fn centred(out: &mut String, words: &[String]) {
    let mut line = String::new();
    let flush = |out: &mut String, line: &mut String| {
        let pad = COLUMNS.saturating_sub(line.chars().count()) / 2;
        let _ = writeln!(out, "{:pad$}{line}", "");
        line.clear();
    };
    for word in words {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            flush(out, &mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        flush(out, &mut line);
    }
}

/// Writes one line for each switch, and for adapters that are cabled to each other.
fn table(out: &mut String, picture: &Picture, rows: &[Vec<u32>]) {
    let topology = &picture.topology;
    let cables = by_node(picture);
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (number, row) in rows.iter().enumerate().rev() {
        for place in row {
            let node = &topology.nodes[*place as usize];
            let ends = &cables[*place as usize];
            let direct = |cable: &u32| {
                let cable = &topology.cables[*cable as usize];
                [cable.a, cable.b].iter().all(|end| topology.node(*end).is_none_or(|n| n.kind != NodeKind::Switch))
            };
            // A host's cable to a switch is in the switch's line.
            if number > 0 || ends.is_empty() || ends.iter().any(direct) {
                lines.push((&node.name, describe(picture, *place, ends)));
            }
        }
    }
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(40);
    out.push('\n');
    for (name, line) in lines {
        let _ = writeln!(out, "{name:width$}  {line}");
    }
}

/// Returns the cables of each node.
fn by_node(picture: &Picture) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new(); picture.topology.nodes.len()];
    for (number, cable) in (0u32..).zip(&picture.topology.cables) {
        for end in [cable.a, cable.b] {
            if let Some(list) = out.get_mut(end.node as usize) {
                list.push(number);
            }
        }
    }
    out
}

/// Returns the far ends of a node's cables, grouped by link state.
fn describe(picture: &Picture, place: u32, cables: &[u32]) -> String {
    let topology = &picture.topology;
    let powered = picture.nodes.get(place as usize).is_none_or(|node| node.powered);
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for number in cables {
        let cable = &topology.cables[*number as usize];
        let far = if cable.a.node == place { cable.b } else { cable.a };
        let Some(node) = topology.node(far) else { continue };
        let state = picture.link(*number);
        let look = match topology.trained(cable) {
            Some((width, speed)) if state.is_up() => format!("{width}{speed} {}", state.word()),
            _ => state.word().to_owned(),
        };
        groups.entry(look).or_default().push(&node.name);
    }
    let mut parts: Vec<String> = if powered { Vec::new() } else { vec!["powered off".to_owned()] };
    for (look, names) in groups {
        let times = names.len();
        let mut once = names;
        once.sort_unstable();
        once.dedup();
        let several = if times > once.len() { format!("{times} cables to ") } else { String::new() };
        parts.push(format!("{look}: {several}{}", in_short(once)));
    }
    if parts.is_empty() { "no cables".to_owned() } else { parts.join("; ") }
}
