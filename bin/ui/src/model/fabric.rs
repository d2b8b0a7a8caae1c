//! The fabric as a page shows it: its drawing once, then the state of nodes and links and their load as differences.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_fabric::topology::draw::LinkClass;
use weft_fabric::topology::draw::in_short;
use weft_fabric::topology::draw::layout::{Look, Scene, layout};
use weft_fabric::topology::{CableTraffic, End, LinkState, LiveCable, LiveState, Node, NodeKind, Picture, Topology};

use super::cable_name::spell;
use super::changes::Changes;
use super::rates::{Load, Loads};

/// A fabric.
#[derive(Debug)]
pub struct FabricView {
    /// Number of the fabric in the daemon.
    pub number: u64,
    topology: Topology,
    packets: bool,
    scene: Scene,
    state: LiveState,
    loads: Loads,
}

/// Result of a new state.
#[derive(Debug)]
pub struct StateChange {
    /// The differences, for pages that know the state before; `None` if the cables are others: they need all of it.
    pub patch: Option<Value>,
    /// The same for the log.
    pub changes: Changes,
}

impl FabricView {
    /// Makes the view of a fabric that just came up, or that the page just began to look at.
    pub fn new(number: u64, packets: bool, picture: &Picture, state: LiveState) -> FabricView {
        let scene = layout(picture);
        FabricView { number, topology: picture.topology.clone(), packets, scene, state, loads: Loads::default() }
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.topology.nodes.len()
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.topology.title
    }

    /// Takes a new state.
    pub fn update(&mut self, state: LiveState) -> StateChange {
        let changes = Changes::between(&self.topology, &self.state, &state);
        let same_cables = self.state.cables.len() == state.cables.len()
            && self.state.cables.iter().zip(&state.cables).all(|(old, new)| old.ends == new.ends);
        let patch = same_cables.then(|| {
            let nodes = (0u32..).zip(self.state.nodes.iter().zip(&state.nodes)).filter(|(_, (old, new))| old != new);
            let cables = (0u32..).zip(self.state.cables.iter().zip(&state.cables)).filter(|(_, (old, new))| old != new);
            json!({
                "nodes": nodes.map(|(at, (_, new))| json!([at, flags(new.powered, new.agent_fault), new.lid])).collect::<Vec<_>>(),
                "cables": cables.map(|(at, (_, new))| cable_state(at, new)).collect::<Vec<_>>(),
            })
        });
        if !same_cables {
            self.loads = Loads::default();
        }
        self.state = state;
        StateChange { patch, changes }
    }

    /// Takes new counters. Returns the loads that differ from those before, and the cables where errors began.
    pub fn count(&mut self, at_ms: u64, traffic: &[CableTraffic]) -> (Value, Vec<String>) {
        let cables = self.state.cables.len();
        let (changed, began) = self.loads.count(at_ms, traffic, cables);
        let rows: Vec<Value> = changed.iter().map(|(at, load)| load_row(*at, load)).collect();
        let spell = |at: &u32| self.state.cables.get(*at as usize).map(|cable| spell(&self.topology, cable));
        (json!({"at": at_ms, "cables": rows}), began.iter().filter_map(spell).collect())
    }

    /// Returns the sum of all loads: bytes, packets and errors per second.
    pub fn total(&self) -> (f64, f64, f64) {
        self.loads.total()
    }

    /// Returns the number of links without data.
    pub fn dead_links(&self) -> u32 {
        let cables = self.state.cables.iter().zip(replaced(&self.state));
        cables.filter(|(cable, replaced)| cable.state != LinkState::Active && !replaced).count() as u32
    }

    /// Returns all that a page needs to draw it.
    pub fn whole(&self) -> Value {
        let nodes = self.topology.nodes.iter().zip(&self.state.nodes).map(|(node, state)| {
            let kind = kind_letter(node.kind);
            json!([
                node.name,
                kind,
                node.host,
                node.ports.len(),
                flags(state.powered, state.agent_fault),
                state.lid,
                node.description
            ])
        });
        let items = self.scene.items.iter().map(|item| {
            let nodes = item.nodes.iter().filter_map(|place| self.topology.nodes.get(*place as usize));
            json!({"n": item.nodes, "x": round(item.x), "y": round(item.y), "l": look_word(item.look), "t": label(nodes)})
        });
        let frames =
            self.scene.frames.iter().map(|frame| {
                json!([round(frame.x), round(frame.y), round(frame.width), round(frame.height), frame.name])
            });
        let cables = self.state.cables.iter().map(|cable| {
            let [a, b] = cable.ends;
            json!([a.node, a.port, b.node, b.port])
        });
        let states = (0u32..)
            .zip(self.state.cables.iter().zip(replaced(&self.state)))
            .map(|(at, (cable, replaced))| if replaced { json!([at, -1]) } else { cable_state(at, cable) });
        let classes = LinkClass::ALL.iter().map(|(_, word, text)| json!([word, text]));
        json!({
            "number": self.number, "title": self.topology.title, "packets": self.packets,
            "nodes": nodes.collect::<Vec<_>>(), "items": items.collect::<Vec<_>>(), "frames": frames.collect::<Vec<_>>(),
            "straight_max": self.scene.straight_max, "cables": cables.collect::<Vec<_>>(), "states": states.collect::<Vec<_>>(),
            "classes": classes.collect::<Vec<_>>(),
            "loads": self.loads.all().map(|(at, load)| load_row(at, &load)).collect::<Vec<_>>(),
        })
    }
}

/// Returns for each cable whether it is a cut one whose port another has taken.
fn replaced(state: &LiveState) -> Vec<bool> {
    let plugged = state.cables.iter().filter(|cable| cable.state != LinkState::Cut);
    let taken: BTreeSet<End> = plugged.flat_map(|cable| cable.ends).collect();
    let is_replaced =
        |cable: &LiveCable| cable.state == LinkState::Cut && cable.ends.iter().any(|end| taken.contains(end));
    state.cables.iter().map(is_replaced).collect()
}

fn flags(powered: bool, agent_fault: bool) -> u8 {
    u8::from(powered) | u8::from(agent_fault) << 1
}

fn cable_state(at: u32, cable: &LiveCable) -> Value {
    let class = LinkClass::of(cable.state, cable.limited, cable.errors_ppm);
    let class = LinkClass::ALL.iter().position(|(other, ..)| *other == class).unwrap_or(0);
    json!([at, class, cable.state.word(), cable.rate_tenths, cable.errors_ppm, cable.drop_ppm, u8::from(cable.limited)])
}

fn load_row(at: u32, load: &Load) -> Value {
    let [a, b] = load.bytes.map(f64::round);
    let [pa, pb] = load.packets.map(f64::round);
    json!([at, a, b, pa, pb, load.errors_total, load.downed_total])
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn kind_letter(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => "host",
        NodeKind::Switch => "switch",
        NodeKind::Router => "router",
    }
}

fn look_word(look: Look) -> &'static str {
    match look {
        Look::Box => "box",
        Look::Chip => "chip",
        Look::NamedDot => "named",
        Look::Dot => "dot",
    }
}

fn label<'a>(nodes: impl Iterator<Item = &'a Node>) -> String {
    in_short(nodes.map(|node| node.name.as_str()))
}
