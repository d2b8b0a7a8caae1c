//! From `cables` and `[[cable]]` to cables. An end without a port takes the first free one after all cables with ports
//! are connected; `node[1-18]` means eighteen ends.

use rustc_hash::FxHashMap;

use super::super::{Builder, Cable, End, Error, LinkLayer, Result, limits};
use super::place::{Place, speed, width};
use super::schema;

/// One cable as written, with its ends still as text.
struct Wanted {
    line: u32,
    a: String,
    b: String,
    /// Everything but the ends.
    look: Cable,
}

/// Connects all cables.
pub fn read(place: Place<'_>, file: &schema::File, builder: &mut Builder) -> Result<()> {
    let mut wanted = Vec::new();
    for text in &file.cables {
        let Some((a, b)) = text.get_ref().split_once(" - ") else {
            let mend = "write \"node1 - leaf1\" or \"node1:1 - leaf1:4\", with spaces around the dash";
            return Err(place.error(text, format!("{:?} is no cable", text.get_ref()), mend));
        };
        expand(builder, place.of(text), [a, b], plain(), &mut wanted)?;
    }
    for table in &file.cable {
        let table = table.get_ref();
        let [a, b] = &table.ends.get_ref()[..] else {
            let what = format!("a cable with {} ends", table.ends.get_ref().len());
            return Err(place.error(&table.ends, what, "write ends = [\"node1:1\", \"leaf1:4\"]"));
        };
        let look = Cable {
            width: table.width.as_ref().map(|text| width(place, text)).transpose()?,
            speed: table.speed.as_ref().map(|text| speed(place, text)).transpose()?,
            latency_ns: table.latency_ns.unwrap_or(0),
            errors_ppm: table.errors_ppm.unwrap_or(0),
            ..plain()
        };
        expand(builder, place.of(&table.ends), [a, b], look, &mut wanted)?;
    }
    lay(builder, &wanted)
}

/// Returns a cable without properties.
fn plain() -> Cable {
    let nowhere = End { node: 0, port: 0 };
    Cable::new(nowhere, nowhere)
}

/// Adds one cable for each pair of names that the ends expand to.
fn expand(builder: &Builder, line: u32, ends: [&str; 2], look: Cable, wanted: &mut Vec<Wanted>) -> Result<()> {
    let [a, b] = ends.map(|end| names(builder, line, end.trim()));
    let (a, b) = (a?, b?);
    let count = a.len().max(b.len());
    if (a.len() != 1 && a.len() != count) || (b.len() != 1 && b.len() != count) {
        let what = format!("{} ends here and {} there", a.len(), b.len());
        return Err(Error::at(line, what, "both sides stand for as many ends, or one of them for a single node"));
    }
    if wanted.len() + count > limits::PORTS_TOTAL_MAX {
        return Err(Error::at(line, "too many cables", format!("at most {}", limits::PORTS_TOTAL_MAX)));
    }
    let pick = |side: &[String], n: usize| side[n.min(side.len() - 1)].clone();
    wanted.extend((0..count).map(|n| Wanted { line, a: pick(&a, n), b: pick(&b, n), look }));
    Ok(())
}

/// Expands the names of an end: `leaf[1-3]:5` gives three. A node with exactly this name takes precedence.
fn names(builder: &Builder, line: u32, text: &str) -> Result<Vec<String>> {
    let parts = text.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    let Some((before, (range, after))) = parts.filter(|_| builder.place(split(text).0).is_none()) else {
        return Ok(vec![text.to_owned()]);
    };
    let bounds = range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match bounds {
        Some((low, high)) if low <= high && high - low < limits::NODES_MAX as u32 => {
            Ok((low..=high).map(|n: u32| format!("{before}{n}{after}")).collect())
        }
        _ => Err(Error::at(line, format!("{text:?} is no range of names"), "write node[1-18]")),
    }
}

/// Splits an end into name and port: `NAME:` and a number.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => (name, Some(port)),
        _ => (text, None),
    }
}

/// Connects first the cables with ports, then the others.
fn lay(builder: &mut Builder, wanted: &[Wanted]) -> Result<()> {
    let has_ports = |cable: &&Wanted| split(&cable.a).1.is_some() && split(&cable.b).1.is_some();
    let exact: Vec<&Wanted> = wanted.iter().filter(has_ports).collect();
    let loose: Vec<&Wanted> = wanted.iter().filter(|cable| !has_ports(cable)).collect();
    let mut free = FxHashMap::default();
    for cable in exact.into_iter().chain(loose) {
        let named = |error: Error| Error { line: cable.line, ..error };
        let a = end(builder, &cable.a, None, &mut free).map_err(named)?;
        // A cable from a node to itself takes two ports of it.
        let b = end(builder, &cable.b, Some(a), &mut free).map_err(named)?;
        builder.cable(Cable { a, b, ..cable.look }).map_err(named)?;
    }
    Ok(())
}

/// Returns the port that an end names, or the node's first free one.
fn end(builder: &Builder, text: &str, taken: Option<End>, free: &mut FxHashMap<u32, u8>) -> Result<End> {
    // A node's own name may be NAME:1.
    let (name, port) = if builder.place(text).is_some() { (text, None) } else { split(text) };
    let Some(node) = builder.place(name) else {
        let mend = "describe it in a [[host]], [[switch]] or [[router]] table, or correct the name";
        return Err(Error::of(format!("there is no node {name:?}"), mend));
    };
    if let Some(port) = port {
        // A number beyond a byte is no port of any node; the builder's error names it.
        return Ok(End { node, port: port.parse().unwrap_or(u8::MAX) });
    }
    let ports = builder.topology().nodes[node as usize].port_count();
    let next = free.entry(node).or_insert(1);
    let is_free = |port: u8| {
        let end = End { node, port };
        let is_infiniband = builder.topology().port(end).is_some_and(|port| port.link_layer == LinkLayer::InfiniBand);
        is_infiniband && taken != Some(end) && builder.cable_at(end).is_none()
    };
    while *next <= ports && !is_free(*next) {
        *next += 1;
    }
    if *next > ports {
        let what = format!("all {ports} ports of {name} have cables");
        return Err(Error::of(what, "give it more ports, or leave this cable out"));
    }
    Ok(End { node, port: *next })
}
