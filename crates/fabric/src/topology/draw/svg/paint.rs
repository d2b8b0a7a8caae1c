//! Items and cables as SVG, with a background, a title and a legend. A few cables between the same two items are one
//! line each; many of the same appearance share a line.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::super::{LinkState, NodeKind, Picture, Topology, counted};
use super::super::class::LinkClass;
use super::super::in_short;
use super::super::layout::{BOX, DOT, Item, Look, STEP, Scene};
use super::style::sheet;

const MARGIN: f64 = 40.0;
/// Height of the title and of the legend.
const HEAD: f64 = 56.0;
/// Smallest width of a drawing: the legend fits.
const WIDTH_MIN: f64 = 820.0;
/// Largest number of cables between two items that are drawn one by one, and their distance.
const PARALLEL_MAX: usize = 4;
const PARALLEL: f64 = 4.0;
/// Length of a name in a box.
const LETTERS: usize = 12;
/// Length of the names of several nodes in one box.
const FOLDED_LETTERS: usize = 10;

/// Returns the mark in the middle of a faulty cable.
fn mark(class: LinkClass, (x, y): (f64, f64)) -> String {
    let word = class.word();
    match class {
        LinkClass::Active | LinkClass::Armed | LinkClass::Init => String::new(),
        LinkClass::Slow => format!("<path class=\"mark {word}\" d=\"M{:.1} {:.1}l5 8h-10z\"/>", x, y - 5.0),
        LinkClass::Errors => format!("<circle class=\"mark {word}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        LinkClass::Down => format!("<path class=\"mark {word}\" d=\"M{:.1} {y:.1}h8\"/>", x - 4.0),
        LinkClass::Cut => {
            format!("<path class=\"mark {word}\" d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\"/>", x - 4.0, y - 4.0)
        }
    }
}

/// Draws the scene.
pub fn paint(picture: &Picture, mut scene: Scene) -> String {
    let (width, height) = place(&mut scene);
    let title = escaped(&picture.topology.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
        sheet()
    );
    for frame in &scene.frames {
        let _ = writeln!(
            out,
            "<g><rect class=\"frame\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            frame.x,
            frame.y,
            frame.width,
            frame.height,
            frame.x + 4.0,
            frame.y - 3.0,
            escaped(&frame.name)
        );
    }
    links(&mut out, picture, &scene);
    scene.items.iter().for_each(|item| node(&mut out, picture, item));
    let count = |kind| picture.topology.count(kind);
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"22\">{title}: {}, {}, {}</text>",
        counted(count(NodeKind::Ca), "adapter"),
        counted(count(NodeKind::Switch) + count(NodeKind::Router), "switch"),
        counted(picture.topology.cables.len(), "cable")
    );
    legend(&mut out);
    out + "</svg>\n"
}

/// Moves everything below the head and into the margins. Returns the drawing's size.
fn place(scene: &mut Scene) -> (f64, f64) {
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    let frames = &scene.frames;
    let x = scene.items.iter().map(|item| item.x);
    let (left, right) =
        bounds(&mut x.chain(frames.iter().flat_map(|f| [f.x + BOX.0 / 2.0, f.x + f.width - BOX.0 / 2.0])));
    let y = scene.items.iter().map(|item| item.y);
    let (top, bottom) = bounds(&mut y.chain(frames.iter().flat_map(|f| [f.y, f.y + f.height - BOX.1])));
    if left > right {
        return (WIDTH_MIN, HEAD);
    }
    let wide = right - left + BOX.0 + 2.0 * MARGIN;
    let width = wide.max(WIDTH_MIN);
    let (dx, dy) = (MARGIN + BOX.0 / 2.0 - left + (width - wide) / 2.0, HEAD + MARGIN - top);
    scene.items.iter_mut().for_each(|item| (item.x, item.y) = (item.x + dx, item.y + dy));
    scene.frames.iter_mut().for_each(|frame| (frame.x, frame.y) = (frame.x + dx, frame.y + dy));
    (width, bottom + dy + 2.0 * MARGIN)
}

fn legend(out: &mut String) {
    let mut x = MARGIN;
    for (class, word, text) in LinkClass::ALL {
        let _ = writeln!(
            out,
            "<g class=\"legend\"><path class=\"link {word}\" d=\"M{x:.0} 40h24\"/>{}<text x=\"{:.0}\" y=\"43\">{text}</text></g>",
            mark(class, (x + 12.0, 40.0)),
            x + 29.0
        );
        x += 45.0 + 5.5 * text.len() as f64;
    }
}

/// Draws the cables between two items that look alike: one, or many as one line.
fn links(out: &mut String, picture: &Picture, scene: &Scene) {
    let mut item_of = vec![usize::MAX; picture.topology.nodes.len()];
    for (number, item) in scene.items.iter().enumerate() {
        item.nodes.iter().for_each(|node| item_of[*node as usize] = number);
    }
    let mut between: BTreeMap<(usize, usize), Vec<(LinkClass, u32)>> = BTreeMap::new();
    for (number, cable) in (0u32..).zip(&picture.topology.cables) {
        let end = |node: u32| item_of.get(node as usize).copied().filter(|item| *item != usize::MAX);
        let (Some(a), Some(b)) = (end(cable.a.node), end(cable.b.node)) else { continue };
        let class = LinkClass::of(picture.link(number), picture.topology.is_limited(cable), cable.errors_ppm);
        between.entry((a.min(b), a.max(b))).or_default().push((class, number));
    }
    let mut drawn: Vec<(LinkClass, String)> = Vec::new();
    for ((a, b), mut cables) in between.into_iter().filter(|((a, b), _)| a != b) {
        cables.sort_unstable();
        let lines: Vec<&[(LinkClass, u32)]> = if cables.len() <= PARALLEL_MAX {
            cables.chunks(1).collect()
        } else {
            cables.chunk_by(|a, b| a.0 == b.0).collect()
        };
        for (number, line) in lines.iter().enumerate() {
            let aside = (number as f64 - (lines.len() as f64 - 1.0) / 2.0) * PARALLEL;
            drawn.push(self::line(picture, scene, (a, b), line, aside));
        }
    }
    // Faulty cables are drawn over healthy ones.
    drawn.sort_by_key(|(class, _)| *class);
    drawn.iter().for_each(|(_, text)| out.push_str(text));
}

fn line(
    picture: &Picture,
    scene: &Scene,
    (a, b): (usize, usize),
    cables: &[(LinkClass, u32)],
    aside: f64,
) -> (LinkClass, String) {
    let topology = &picture.topology;
    let class = cables.first().map_or(LinkClass::Down, |(class, _)| *class);
    let (a, b) = (&scene.items[a], &scene.items[b]);
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let length = dx.hypot(dy).max(1.0);
    let (ox, oy) = (-dy / length, dx / length);
    // A bent link passes above the boxes of its line, or between two columns.
    let aslant = if dx.abs() > dy.abs() { -0.8 } else { 1.25 };
    let bend = scene.straight_max.filter(|max| length > *max).map_or(0.0, |_| STEP * aslant);
    let at = |x: f64, y: f64| (x + ox * aside, y + oy * aside);
    let ((x1, y1), (x2, y2)) = (at(a.x, a.y), at(b.x, b.y));
    let (mx, my) = ((x1 + x2) / 2.0 + ox * bend / 2.0, (y1 + y2) / 2.0 + oy * bend / 2.0);
    let shape = match bend == 0.0 {
        true => format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"),
        false => format!("M{x1:.1} {y1:.1}Q{:.1} {:.1} {x2:.1} {y2:.1}", mx + ox * bend / 2.0, my + oy * bend / 2.0),
    };
    let title = match cables {
        [(_, only)] => describe(topology, *only, picture.link(*only)),
        [(_, first), ..] => {
            format!(
                "{} cables, {}: the first is {}",
                cables.len(),
                class.word(),
                describe(topology, *first, picture.link(*first))
            )
        }
        [] => String::new(),
    };
    let thick = match cables.len() {
        0 | 1 => String::new(),
        count => {
            format!(" style=\"stroke-width: {:.1}; stroke-opacity: 0.6\"", (1.2 + (count as f64).log2() * 0.3).min(4.0))
        }
    };
    let count = match cables.len() {
        0 | 1 => String::new(),
        count => format!("<text class=\"name\" x=\"{mx:.1}\" y=\"{:.1}\">{count}</text>", my - 4.0),
    };
    let text = format!(
        "<g><title>{}</title><path class=\"link {}\"{thick} d=\"{shape}\"/>{}{}</g>\n",
        escaped(&title),
        class.word(),
        mark(class, (mx, my)),
        if class > LinkClass::Init { count } else { String::new() }
    );
    (class, text)
}

fn describe(topology: &Topology, number: u32, state: LinkState) -> String {
    let Some(cable) = topology.cables.get(number as usize) else { return String::new() };
    let trained = topology.trained(cable).filter(|_| state.is_up());
    let trained = trained.map_or(String::new(), |(width, speed)| format!(" {width}{speed}"));
    let errors =
        if cable.errors_ppm > 0 { format!(", damages {} ppm of packets", cable.errors_ppm) } else { String::new() };
    format!("{} - {}{trained} {}{errors}", topology.spell(cable.a), topology.spell(cable.b), state.word())
}

fn node(out: &mut String, picture: &Picture, item: &Item) {
    let nodes: Vec<_> = item.nodes.iter().filter_map(|place| picture.topology.nodes.get(*place as usize)).collect();
    let Some(first) = nodes.first() else { return };
    let off = item.nodes.iter().any(|place| picture.nodes.get(*place as usize).is_some_and(|node| !node.powered));
    let kind = match first.kind {
        NodeKind::Ca => "host",
        NodeKind::Switch => "switch",
        NodeKind::Router => "router",
    };
    let class = format!("node {kind}{}", if off { " off" } else { "" });
    let names = in_short(nodes.iter().map(|node| node.name.as_str()));
    let title = match nodes[..] {
        [only] => {
            let lids = picture.nodes.get(item.nodes[0] as usize).map(|node| node.lids.as_slice()).unwrap_or_default();
            let lids: Vec<String> = lids.iter().map(|(lid, _)| lid.to_string()).collect();
            format!("{names} ({} {:#018x}, LID {})", only.kind.word(), only.guid, lids.join(" "))
        }
        _ => names.clone(),
    };
    let (x, y, title) = (item.x, item.y, escaped(&title));
    let _ = match item.look {
        Look::Dot => writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\"><title>{title}</title></circle>"
        ),
        Look::NamedDot => writeln!(
            out,
            "<g><title>{title}</title><circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\"/>\
             <text transform=\"translate({:.1} {:.1}) rotate(60)\">{}</text></g>",
            x - 3.0,
            y + 12.0,
            escaped(&short(&names, LETTERS))
        ),
        Look::Chip => writeln!(
            out,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" rx=\"1\"><title>{title}</title></rect>",
            x - 4.0,
            y - 4.0
        ),
        Look::Box => {
            let name = match nodes.len() {
                1 => short(&names, LETTERS),
                count if names.chars().count() > FOLDED_LETTERS => {
                    format!("{count} {kind}{}", if kind == "switch" { "es" } else { "s" })
                }
                _ => names.clone(),
            };
            let rx = if first.kind == NodeKind::Switch { 3 } else { 11 };
            let (left, top) = (x - BOX.0 / 2.0, y - BOX.1 / 2.0);
            writeln!(
                out,
                "<g><title>{title}</title><rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" rx=\"{rx}\"/>\
                 <text class=\"name\" x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                BOX.0,
                BOX.1,
                y + 3.5,
                escaped(&name)
            )
        }
    };
}

fn short(name: &str, letters: usize) -> String {
    name.chars().take(letters).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
