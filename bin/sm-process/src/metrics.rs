//! Status and metrics of a manager, as text and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use weft_fabric::topology::counted;
use weft_sm::Subnet;
use weft_sm::manager::{Event, Manager, Status};
use weft_sm::routing::quality::{self, Checks};
use weft_wire::mad::Speed;
use weft_wire::mad::subn::{LinkWidth, NodeType, PhysState, PortInfo, PortState, SmState};

use super::threads::Threads;

/// Name of an SM state.
pub fn state_name(state: SmState) -> &'static str {
    match state {
        SmState::DISCOVERING => "discovering",
        SmState::STANDBY => "standby",
        SmState::MASTER => "master",
        _ => "not active",
    }
}

struct Counts {
    switches: usize,
    ends: usize,
    links: usize,
}

fn counts(subnet: &Subnet) -> Counts {
    let switches = subnet.nodes().filter(|(_, node)| node.switch.is_some()).count();
    let ends = subnet.end_ports().filter(|(_, node, _)| node.switch.is_none()).count();
    let cabled = subnet.nodes().flat_map(|(_, node)| &node.ports).filter(|port| port.neighbor.is_some()).count();
    Counts { switches, ends, links: cabled / 2 }
}

fn engine(status: &Status) -> &str {
    if status.engine.is_empty() { "none yet" } else { status.engine }
}

/// The status as text.
pub fn text(manager: &Manager) -> String {
    let status = manager.status();
    let Counts { switches, ends, links } = counts(manager.subnet());
    let mut out = String::new();
    let up = match (status.state, status.is_up) {
        (SmState::MASTER, true) => ", subnet up",
        (SmState::MASTER, false) => ", subnet not up yet",
        _ => "",
    };
    let _ = writeln!(out, "state      {}{up}", state_name(status.state));
    let guid = manager.setup().own_guid;
    let _ = writeln!(out, "port       0x{guid:016x}, LID {}, priority {}", status.lid, status.priority);
    match status.master {
        Some((master, priority)) if master != guid => {
            let _ = writeln!(out, "master     0x{master:016x}, priority {priority}");
        }
        _ => {}
    }
    let sizes = [counted(switches, "switch"), counted(ends, "end port"), counted(links, "link")];
    let _ = writeln!(out, "subnet     {}", sizes.join(", "));
    let _ = writeln!(out, "routing    {}", engine(&status));
    let light = status.sweeps.saturating_sub(status.heavy_sweeps);
    let _ = write!(out, "sweeps     {} heavy, {light} light; now {}", status.heavy_sweeps, status.busy);
    let _ = match status.left {
        0 => writeln!(out),
        left => writeln!(out, ", {left} datagrams left"),
    };
    let wire = status.wire;
    let _ = writeln!(
        out,
        "SMPs       {} sent, {} answered, {} lost; {} traps",
        wire.sent, wire.answered, wire.timeouts, status.traps
    );
    out
}

/// The status as JSON.
pub fn json(manager: &Manager) -> String {
    let status = manager.status();
    let Counts { switches, ends, links } = counts(manager.subnet());
    let wire = status.wire;
    let value = json!({
        "pid": std::process::id(), "state": state_name(status.state), "is_up": status.is_up, "lid": status.lid, "priority": status.priority,
        "guid": format!("0x{:016x}", manager.setup().own_guid),
        "master": status.master.map(|(guid, priority)| json!({"guid": format!("0x{guid:016x}"), "priority": priority})),
        "switches": switches, "end_ports": ends, "links": links, "engine": status.engine,
        "sweeps": status.sweeps, "heavy_sweeps": status.heavy_sweeps, "busy": status.busy, "left": status.left,
        "smps_sent": wire.sent, "smps_answered": wire.answered, "smps_lost": wire.timeouts, "traps": status.traps,
    });
    format!("{value}\n")
}

/// The routing engine and the quality of its tables, as text.
pub fn routing(manager: &Manager) -> String {
    if manager.tables().lfts.is_empty() {
        return "there are no tables yet\n".to_owned();
    }
    quality_text(manager)
}

/// The quality of the manager's tables as JSON; `null` if there are none yet.
pub fn routing_json(manager: &Manager) -> String {
    let is_ready = !manager.tables().lfts.is_empty();
    let value = if is_ready { quality_json(manager) } else { serde_json::Value::Null };
    format!("{value}\n")
}

/// The quality of the manager's tables, as text.
pub fn quality_text(manager: &Manager) -> String {
    let quality = quality::check(manager.graph(), manager.tables(), &Checks::default(), &Threads::all());
    let (load, shift, reach) = (&quality.load, &quality.shift, &quality.reach);
    let mut out = String::new();
    let lanes = if quality.lanes == 1 { "1 lane".to_owned() } else { format!("{} lanes", quality.lanes) };
    let _ = writeln!(out, "engine             {}, {lanes}", quality.engine);
    let _ = writeln!(out, "hops               {:.2} on average", reach.hops_mean);
    let broken = reach.broken;
    let _ = match broken {
        0 => writeln!(out, "reach              every port from every port"),
        _ => writeln!(out, "reach              {broken} paths lead nowhere"),
    };
    let _ = match &quality.credit_loop {
        None => writeln!(out, "credit loops       none"),
        Some(circle) => {
            writeln!(out, "credit loops       YES, through {} links: packets may block each other", circle.len())
        }
    };
    let _ = writeln!(
        out,
        "all to all         {} paths over the busiest link, {:.2} times the mean; {} links unused",
        load.max,
        load.max_over_mean(),
        load.unused
    );
    let _ = writeln!(
        out,
        "shift permutations {:.2} paths over the busiest link, {:.0}% without conflict",
        shift.worst_mean,
        shift.free_share * 100.0
    );
    out
}

/// The quality of the manager's tables, as JSON.
pub fn quality_json(manager: &Manager) -> serde_json::Value {
    let quality = quality::check(manager.graph(), manager.tables(), &Checks::default(), &Threads::all());
    let (load, shift, reach) = (&quality.load, &quality.shift, &quality.reach);
    json!({
        "engine": quality.engine, "lanes": quality.lanes, "hops_mean": reach.hops_mean, "broken_paths": reach.broken,
        "credit_loop_links": quality.credit_loop.as_ref().map(Vec::len),
        "load_max": load.max, "load_max_over_mean": load.max_over_mean(), "links_unused": load.unused,
        "shift_worst_mean": shift.worst_mean, "shift_free_share": shift.free_share,
    })
}

/// Counts ports by state, width and speed.
pub fn ports(subnet: &Subnet, kind: Option<&str>) -> String {
    let wanted = |node_type| match kind {
        None => true,
        Some("ca") => node_type == NodeType::CA,
        Some("switch") => node_type == NodeType::SWITCH,
        Some("router") => node_type == NodeType::ROUTER,
        Some(_) => false,
    };
    let (mut nodes, mut scanned) = (0, 0);
    let mut rows: BTreeMap<String, u32> = BTreeMap::new();
    let mut problems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, node) in subnet.nodes().filter(|(_, node)| wanted(node.info.node_type)) {
        nodes += 1;
        for (number, port) in node.ports.iter().enumerate().skip(1) {
            scanned += 1;
            let mut row = |text: String| *rows.entry(text).or_insert(0) += 1;
            let info = &port.info;
            if info.port_state == PortState::DOWN {
                row(if info.port_physical_state == PhysState::DISABLED { "disabled" } else { "down" }.to_owned());
                continue;
            }
            row(info.port_state.text().unwrap_or("in an unknown state").to_lowercase());
            row(format!("at {}", info.link_width_active.name().unwrap_or("unknown width").to_uppercase()));
            row(format!("at {}", Speed::active(info).map_or("unknown speed", |speed| speed.name())));
            let place = || format!("{} port {number}", subnet.name(node));
            let short = shortfalls(info);
            for what in short {
                problems.entry(what).or_default().push(place());
            }
        }
    }
    let mut out = format!("{} port status:\n", kind.map_or("ALL".to_owned(), str::to_uppercase));
    let _ = writeln!(out, "   {scanned} port(s) scanned on {nodes} nodes");
    for (row, count) in rows {
        let _ = writeln!(out, "   {count} {row}");
    }
    for (what, places) in problems {
        let _ = writeln!(out, "Possible issues: {} {what}", places.len());
        for place in places.iter().take(PLACES_SHOWN) {
            let _ = writeln!(out, "   {place}");
        }
    }
    out
}

/// Maximum number of ports listed per problem.
const PLACES_SHOWN: usize = 50;

/// Lists the ways in which a link runs below its capability.
fn shortfalls(info: &PortInfo) -> Vec<&'static str> {
    let mut short = Vec::new();
    let able = info.link_width_supported & info.link_width_enabled;
    if info.link_width_active.widest().map(LinkWidth::lanes) < able.widest().map(LinkWidth::lanes) {
        short.push("at reduced width");
    }
    if Speed::active(info) < enabled(info) {
        short.push("at reduced speed");
    }
    short
}

/// The fastest speed that a port is allowed to use.
fn enabled(info: &PortInfo) -> Option<Speed> {
    let may = |speed: &Speed| {
        let (plain, extended, extended2) = speed.active_fields();
        let of = |set: u8, bits: u8| bits != 0 && set & bits == bits;
        of((info.link_speed_enabled & info.link_speed_supported).bits(), plain.bits())
            && extended.bits() == 0
            && extended2.bits() == 0
            || of((info.link_speed_ext_enabled & info.link_speed_ext_supported).bits(), extended.bits())
            || of((info.link_speed_ext_enabled2 & info.link_speed_ext_supported2).bits(), extended2.bits())
    };
    Speed::ALL.into_iter().filter(may).max()
}

/// Describes the port that has a LID.
pub fn who_has(subnet: &Subnet, lid: Option<&str>) -> String {
    let Some(Ok(lid)) = lid.map(weft_sm::options::number) else { return "say which: querylid LID\n".to_owned() };
    let found = u16::try_from(lid).ok().and_then(|lid| subnet.at_lid(lid));
    let Some((at, node, port)) = found.and_then(|at| Some((at, subnet.node(at.node)?, subnet.port(at)?))) else {
        return format!("no port has LID {lid}\n");
    };
    let mut out = format!("Query results for LID {lid}\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "   {name:<20}: {value}");
    };
    row("GUID", format!("0x{:016x}", port.guid));
    row("Node Desc", subnet.name(node).into_owned());
    row("Node Type", node.info.node_type.text().unwrap_or("unknown").to_owned());
    row("Num Ports", node.info.num_ports.to_string());
    let first = if node.switch.is_some() { 0 } else { at.port };
    let last = if node.switch.is_some() { node.info.num_ports } else { at.port };
    for (number, port) in node.ports.iter().enumerate().filter(|(number, _)| (first..=last).contains(&(*number as u8)))
    {
        row(&format!("Port {number} state"), port.info.port_state.text().unwrap_or("unknown").to_owned());
    }
    out
}

/// Formats an event as a line of JSON.
pub fn event_json(event: &Event) -> String {
    let now = jiff::Timestamp::now();
    let value = json!({"time": now.to_string(), "event": event.name(), "level": event.level().bit(), "text": event.to_string()});
    format!("{value}\n")
}
