//! A fabric as an SVG that any browser shows: rows of switches above their hosts, or a ring of switches where they have
//! no rows. What a node or a link is comes up where the pointer rests.

use std::fmt::Write;

use super::super::{LinkState, NodeKind, Picture};
use super::{neighbours, rows};

/// Size of a switch's box.
const BOX: (f64, f64) = (64.0, 22.0);
/// Between rows.
const ROW: f64 = 120.0;
/// Radius of a host's dot.
const DOT: f64 = 5.0;
const MARGIN: f64 = 40.0;

/// Draws it.
pub fn svg(picture: &Picture) -> String {
    let rows = rows(picture);
    let places = if rows.len() > 2 || picture.topology.count(NodeKind::Switch) < 4 {
        in_rows(picture, &rows)
    } else {
        in_rings(picture, &rows)
    };
    let right = places.iter().map(|place| place.0).fold(0.0, f64::max) + BOX.0 / 2.0 + MARGIN;
    let bottom = places.iter().map(|place| place.1).fold(0.0, f64::max) + BOX.1 + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right:.0} {bottom:.0}\" font-family=\"sans-serif\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n",
        escaped(&picture.topology.title)
    );
    draw_links(&mut out, picture, &places);
    draw_nodes(&mut out, picture, &places);
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"20\" font-size=\"14\">{}</text>\n</svg>",
        escaped(&picture.topology.title)
    );
    out
}

const STYLE: &str = "line { stroke-width: 1.2 }
.active { stroke: #1b7837 } .armed { stroke: #1b7837; stroke-dasharray: 6 3 } .init { stroke: #2166ac }
.down { stroke: #b2182b; stroke-dasharray: 6 3 } .cut { stroke: #b2182b; stroke-dasharray: 2 3 }
rect, circle, polygon { fill: #f7f7f7; stroke: #333 } .off { fill: #ccc; stroke-dasharray: 2 2 }
text { font-size: 10px; fill: #111 } .name { text-anchor: middle }
";

/// Rows from the top, each centred.
fn in_rows(picture: &Picture, rows: &[Vec<u32>]) -> Vec<(f64, f64)> {
    let step = |row: usize| if row == 0 { 3.0 * DOT } else { BOX.0 + 12.0 };
    let width = rows.iter().enumerate().map(|(row, nodes)| step(row) * nodes.len() as f64).fold(400.0, f64::max);
    let mut out = vec![(0.0, 0.0); picture.topology.nodes.len()];
    for (row, nodes) in rows.iter().enumerate() {
        let y = MARGIN + ROW * (rows.len() - 1 - row) as f64 + BOX.1;
        let spread = (width / nodes.len().max(1) as f64).max(step(row));
        for (number, place) in nodes.iter().enumerate() {
            out[*place as usize] = (MARGIN + spread * (number as f64 + 0.5), y);
        }
    }
    out
}

/// Switches on a ring, their hosts outside of it.
fn in_rings(picture: &Picture, rows: &[Vec<u32>]) -> Vec<(f64, f64)> {
    let neighbours = neighbours(picture);
    let switches: Vec<u32> = rows.iter().skip(1).flatten().copied().collect();
    let radius = (switches.len() as f64 * (BOX.0 + 12.0) / std::f64::consts::TAU).max(150.0);
    let centre = radius + MARGIN + 6.0 * ROW / 2.0;
    let at = |angle: f64, radius: f64| (centre + radius * angle.cos(), centre + radius * angle.sin());
    let mut out = vec![at(0.0, 0.0); picture.topology.nodes.len()];
    let slice = std::f64::consts::TAU / switches.len().max(1) as f64;
    for (number, switch) in switches.iter().enumerate() {
        let angle = slice * number as f64;
        out[*switch as usize] = at(angle, radius);
        let is_host = |place: &&u32| picture.topology.nodes[**place as usize].kind != NodeKind::Switch;
        let hosts: Vec<u32> = neighbours[*switch as usize].iter().filter(is_host).copied().collect();
        for (n, host) in hosts.iter().enumerate() {
            let offset = (n as f64 + 1.0) / (hosts.len() as f64 + 1.0) - 0.5;
            out[*host as usize] = at(angle + slice * offset, radius + ROW);
        }
    }
    out
}

fn draw_links(out: &mut String, picture: &Picture, places: &[(f64, f64)]) {
    let topology = &picture.topology;
    for (number, cable) in (0u32..).zip(&topology.cables) {
        let state: LinkState = picture.link(number);
        let ends = [cable.a, cable.b].map(|end| places.get(end.node as usize).copied().unwrap_or_default());
        let trained = topology.trained(cable).filter(|_| state.is_up());
        let trained = trained.map_or(String::new(), |(width, speed)| format!(" {width}{speed}"));
        let _ = writeln!(
            out,
            "<line class=\"{}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"><title>{} - {}{trained} {}</title></line>",
            state.word(),
            ends[0].0,
            ends[0].1,
            ends[1].0,
            ends[1].1,
            escaped(&topology.spell(cable.a)),
            escaped(&topology.spell(cable.b)),
            state.word()
        );
    }
}

fn draw_nodes(out: &mut String, picture: &Picture, places: &[(f64, f64)]) {
    for (place, node) in picture.topology.nodes.iter().enumerate() {
        let (x, y) = places.get(place).copied().unwrap_or_default();
        let class = if picture.nodes.get(place).is_none_or(|node| node.powered) { "on" } else { "off" };
        let lids: Vec<String> = picture
            .nodes
            .get(place)
            .map(|node| node.lids.iter().map(|(lid, _)| lid.to_string()).collect())
            .unwrap_or_default();
        let title = format!(
            "<title>{} ({} {:#018x}, LID {})</title>",
            escaped(&node.name),
            node.kind.word(),
            node.guid,
            lids.join(" ")
        );
        let _ = match node.kind {
            NodeKind::Ca => {
                writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\">{title}</circle>")
            }
            _ => writeln!(
                out,
                "<g>{title}<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\
                 <text class=\"name\" x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                x - BOX.0 / 2.0,
                y - BOX.1 / 2.0,
                BOX.0,
                BOX.1,
                if node.kind == NodeKind::Router { 11 } else { 3 },
                y + 3.5,
                escaped(&node.name.chars().take(12).collect::<String>())
            ),
        };
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
