//! A fabric for Graphviz: `weft topology --format dot | dot -Tpdf`, or neato for one without rows.

use std::fmt::Write;

use super::super::{LinkState, NodeKind, Picture};
use super::rows;

/// Draws the fabric.
pub fn dot(picture: &Picture) -> String {
    let topology = &picture.topology;
    let mut out = format!("graph {} {{\n  rankdir=TB;\n  node [fontsize=10];\n", quoted(&topology.title));
    for (place, node) in topology.nodes.iter().enumerate() {
        let shape = match node.kind {
            NodeKind::Ca => "ellipse",
            NodeKind::Switch => "box",
            NodeKind::Router => "diamond",
        };
        let style = if picture.nodes.get(place).is_none_or(|node| node.powered) { "solid" } else { "dotted" };
        let _ = writeln!(out, "  n{place} [label={}, shape={shape}, style={style}];", quoted(&node.name));
    }
    for row in rows(picture).iter().rev() {
        let places: Vec<String> = row.iter().map(|place| format!("n{place};")).collect();
        let _ = writeln!(out, "  {{ rank=same; {} }}", places.join(" "));
    }
    for (number, cable) in (0u32..).zip(&topology.cables) {
        let state = picture.link(number);
        let look = match state {
            LinkState::Active => "color=\"#1b7837\"",
            LinkState::Armed => "color=\"#1b7837\", style=dashed",
            LinkState::Init => "color=\"#2166ac\"",
            LinkState::Down => "color=\"#b2182b\", style=dashed",
            LinkState::Cut => "color=\"#b2182b\", style=dotted",
        };
        let label = topology.trained(cable).filter(|_| state.is_up());
        let label = label.map_or(state.word().to_owned(), |(width, speed)| format!("{width}{speed}"));
        let _ = writeln!(
            out,
            "  n{} -- n{} [taillabel=\"{}\", headlabel=\"{}\", label=\"{label}\", {look}];",
            cable.a.node, cable.b.node, cable.a.port, cable.b.port
        );
    }
    out + "}\n"
}

/// Quotes a DOT string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
