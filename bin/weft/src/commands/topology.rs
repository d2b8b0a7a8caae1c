//! `weft topology`: the running fabric or a description in any format: as a drawing, or for `weft up`, ibsim or
//! Graphviz.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use weft_fabric::topology::{Picture, draw, file, net};
use weft_ipc::Spawn;
use weft_ipc::fabric::unpack;
use weft_tool::fabric::{finish, session, spell};
use weft_tool::topology_source::SourceArgs;

use crate::output;

/// Options of `weft topology`.
#[derive(Args, Debug)]
pub struct TopologyArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Ascii)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// A text drawing with the cables between nodes
    Ascii,
    /// Graphviz
    Dot,
    /// An image for browsers
    Svg,
    /// The format of ibnetdiscover and ibsim
    Net,
    /// The format of hand-written descriptions
    Toml,
    /// Nodes and cables with their states
    Json,
}

/// Runs the command.
pub fn run(args: &TopologyArgs) -> ExitCode {
    finish("weft topology", show(args))
}

fn show(args: &TopologyArgs) -> Result<(), String> {
    let picture = if args.source.is_empty() { ask()? } else { Picture::of(args.source.load()?) };
    output::print(&match args.format {
        Format::Ascii => draw::ascii(&picture),
        Format::Dot => draw::dot(&picture),
        Format::Svg => draw::svg(&picture),
        Format::Net => net::write(&picture.topology, &picture),
        Format::Toml => file::write(&picture.topology),
        Format::Json => json(&picture),
    });
    Ok(())
}

fn ask() -> Result<Picture, String> {
    read(&session(Spawn::Never)?.fabric_picture().map_err(spell)?)
}

/// Parses the daemon's answer.
pub fn read(bytes: &[u8]) -> Result<Picture, String> {
    let picture: Picture = unpack(bytes).map_err(|error| error.to_string())?;
    if picture.is_sane() { Ok(picture) } else { Err("the daemon's answer is invalid".to_owned()) }
}

fn json(picture: &Picture) -> String {
    let value = json!({"title": picture.topology.title, "nodes": nodes_json(picture), "cables": cables_json(picture)});
    format!("{value}\n")
}

/// Every node with its state.
pub fn nodes_json(picture: &Picture) -> Value {
    let topology = &picture.topology;
    let nodes = topology.nodes.iter().zip(&picture.nodes).map(|(node, state)| {
        let lids: Vec<u16> = state.lids.iter().map(|(lid, _)| *lid).collect();
        json!({
            "name": node.name, "kind": node.kind.word(), "host": node.host, "description": node.description,
            "guid": format!("{:#018x}", node.guid), "ports": node.ports.len(), "powered": state.powered, "lids": lids,
        })
    });
    nodes.collect()
}

/// Every cable with its two ports and the state of its link.
pub fn cables_json(picture: &Picture) -> Value {
    let topology = &picture.topology;
    let cables = topology.cables.iter().zip(&picture.links).map(|(cable, link)| {
        let trained = topology.trained(cable).filter(|_| link.is_up());
        json!({
            "a": topology.spell(cable.a), "b": topology.spell(cable.b), "state": link.word(),
            "width": trained.map(|(width, _)| width.to_string()), "speed": trained.map(|(_, speed)| speed.to_string()),
            "latency_ns": cable.latency_ns, "errors_ppm": cable.errors_ppm,
        })
    });
    cables.collect()
}
