//! Tables from a file in the format of OpenSM's dump and dump_lfts. LIDs may have changed since: entries name the
//! owner's GUID. LIDs that the file does not reach are routed as by `minhop`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::graph::Graph;
use crate::tables::{NO_PATH, Tables};

use super::quality::reaches;
use super::{Engine, Request, RouteError, engine};

/// `file`.
pub const ENGINE: Engine =
    Engine { name: "file", about: "tables that were written before, from lfts_file; minhop for what they miss", run };

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let refuse = |why: String| RouteError { engine: ENGINE.name, why };
    let graph = request.graph;
    if request.options.lfts_file.is_empty() {
        return Err(refuse("lfts_file names no file, or an empty one: name one, as dump_lfts writes it".into()));
    }
    let mut tables = Tables::empty(ENGINE.name, graph);
    let found = read(graph, &request.options.lfts_file, &mut tables).map_err(refuse)?;
    if found == 0 {
        return Err(refuse("lfts_file has no switch of this fabric: is it another's?".into()));
    }
    complete(request, &mut tables)?;
    Ok(tables)
}

/// Uses `minhop` entries for every LID that the file does not reach from every switch.
fn complete(request: &Request<'_>, tables: &mut Tables) -> Result<(), RouteError> {
    let missing = reaches(request.graph, tables);
    if missing.is_empty() {
        return Ok(());
    }
    let Some(minhop) = engine("minhop") else { return Ok(()) };
    let other = (minhop.run)(request)?;
    for lid in missing {
        for (row, other) in tables.lfts.iter_mut().zip(&other.lfts) {
            if let (Some(entry), Some(port)) = (row.get_mut(usize::from(lid)), other.get(usize::from(lid))) {
                *entry = *port;
            }
        }
    }
    Ok(())
}

/// A line of a dump.
enum Line {
    /// Start of a switch's entries.
    Switch(u64),
    /// An entry: a LID, the port to it, and the owner's GUID.
    Entry { lid: u16, port: u8, owner: Option<u64> },
}

/// Parses the lines of a dump.
fn lines(text: &str) -> impl Iterator<Item = Result<Line, String>> + '_ {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.trim();
        if line.starts_with("Unicast lids") {
            let guid = guid_after(line, " guid ");
            return Some(guid.map(Line::Switch).ok_or_else(|| format!("lfts_file:{number}: a switch without a guid")));
        }
        let entry = entry(line.strip_prefix("0x")?);
        let wrong = || format!("lfts_file:{number}: a LID and a port are expected, as in 0x0001 002: {line}");
        let owner = guid_after(line, "portguid ");
        Some(entry.map(|(lid, port)| Line::Entry { lid, port, owner }).ok_or_else(wrong))
    })
}

/// The LID and the port at the start of an entry.
fn entry(text: &str) -> Option<(u16, u8)> {
    let mut words = text.split_whitespace();
    let lid = u16::from_str_radix(words.next()?, 16).ok()?;
    Some((lid, words.next()?.parse().ok()?))
}

/// The GUID after a keyword.
fn guid_after(line: &str, word: &str) -> Option<u64> {
    let rest = line.split_once(word)?.1.trim_start().strip_prefix("0x")?;
    let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).map_or(rest, |end| &rest[..end]);
    u64::from_str_radix(digits, 16).ok()
}

/// Fills tables from a dump. Returns how many of the graph's switches it contains.
fn read(graph: &Graph, text: &str, tables: &mut Tables) -> Result<usize, String> {
    let switches: BTreeMap<u64, usize> = graph.switches.iter().zip(0..).map(|(switch, at)| (switch.guid, at)).collect();
    let now = lids(graph);
    // The lowest LID of each owner in the file.
    let mut then: BTreeMap<u64, u16> = BTreeMap::new();
    for line in lines(text) {
        if let Line::Entry { lid, owner: Some(owner), .. } = line? {
            let least = then.entry(owner).or_insert(lid);
            *least = lid.min(*least);
        }
    }
    let (mut at, mut found) = (None, 0);
    for line in lines(text) {
        let (lid, port, owner) = match line? {
            Line::Switch(guid) => {
                at = switches.get(&guid).copied();
                found += usize::from(at.is_some());
                continue;
            }
            Line::Entry { lid, port, owner } => (lid, port, owner),
        };
        let lid = match owner.and_then(|owner| Some((now.get(&owner)?, then.get(&owner)?))) {
            Some((now, then)) if lid - then < now.end - now.start => now.start + (lid - then),
            None if owner.is_none() => lid,
            _ => continue,
        };
        let Some(at) = at.filter(|at| usize::from(port) < graph.switches[*at].ports.len()) else { continue };
        if let Some(entry) = tables.lfts[at].get_mut(usize::from(lid)) {
            *entry = port;
        }
    }
    Ok(found)
}

/// The current LIDs by owner GUID.
fn lids(graph: &Graph) -> BTreeMap<u64, std::ops::Range<u16>> {
    let switches = graph.switches.iter().map(|switch| (switch.guid, switch.lids()));
    switches.chain(graph.ends.iter().map(|end| (end.guid, end.lids()))).collect()
}

/// Writes tables in the format of OpenSM's dump (opensm-lfts.dump), which this engine reads.
pub fn write(graph: &Graph, tables: &Tables) -> String {
    let mut owners: BTreeMap<u16, String> = BTreeMap::new();
    for switch in &graph.switches {
        let owner = format!("Switch portguid {:#018x}: '{}'", switch.guid, switch.name);
        owners.extend(switch.lids().map(|lid| (lid, owner.clone())));
    }
    for end in &graph.ends {
        let kind = if end.router { "Router" } else { "Channel Adapter" };
        let owner = format!("{kind} portguid {:#018x}: '{}'", end.guid, end.name);
        owners.extend(end.lids().map(|lid| (lid, owner.clone())));
    }
    let mut out = String::new();
    for (switch, row) in graph.switches.iter().zip(&tables.lfts) {
        let (top, lid) = (row.len().saturating_sub(1), switch.lid);
        let _ =
            writeln!(out, "Unicast lids [0-{top}] of switch Lid {lid} guid {:#018x} ('{}'):", switch.guid, switch.name);
        let mut count = 0;
        for (lid, port) in (0u16..).zip(row).filter(|(_, port)| **port != NO_PATH) {
            let owner = owners.get(&lid).map_or("unknown", String::as_str);
            let _ = writeln!(out, "{lid:#06x} {port:03} # {owner}");
            count += 1;
        }
        let _ = writeln!(out, "{count} lids dumped");
    }
    out
}

#[cfg(test)]
mod tests {
    use weft_fabric::topology::generate::Shape;

    use super::{read, write};
    use crate::parallel::Sequential;
    use crate::routing::quality::{Checks, check};
    use crate::routing::{Request, RoutingOptions, engine};
    use crate::tables::Tables;
    use crate::testing::generated;

    /// OpenSM 3.3.23's dump of a fabric with two leaves, two spines and five hosts.
    const OPENSM: &str = include_str!("../../testdata/opensm-lfts.dump");

    fn tree() -> Shape {
        Shape::FatTree { radix: 6, levels: 2, hosts: None, hosts_per_leaf: None }
    }

    #[test]
    fn what_is_written_is_read_though_lids_changed() {
        let graph = generated(tree());
        let options = RoutingOptions::default();
        let tables =
            (engine("ftree").expect("ftree").run)(&Request::new(&graph, &options, &Sequential)).expect("tables");
        let text = write(&graph, &tables);
        let mut moved = graph.clone();
        let top = graph.lid_top();
        moved.ends.iter_mut().for_each(|end| end.lid = 2 * top - end.lid);
        let options = RoutingOptions { lfts_file: text, ..RoutingOptions::default() };
        let again = (super::ENGINE.run)(&Request::new(&moved, &options, &Sequential)).expect("tables");
        for (old, new) in tables.lfts.iter().zip(&again.lfts) {
            for (was, is) in graph.ends.iter().zip(&moved.ends) {
                assert_eq!(old[usize::from(was.lid)], new[usize::from(is.lid)]);
            }
        }
    }

    #[test]
    fn what_the_file_misses_is_routed_anyway() {
        let graph = generated(tree());
        let options = RoutingOptions::default();
        let tables =
            (engine("ftree").expect("ftree").run)(&Request::new(&graph, &options, &Sequential)).expect("tables");
        let lost = format!("{:#018x}", graph.ends[3].guid);
        let text: String =
            write(&graph, &tables).lines().filter(|l| !l.contains(&lost)).map(|l| format!("{l}\n")).collect();
        let options = RoutingOptions { lfts_file: text, ..RoutingOptions::default() };
        let again = (super::ENGINE.run)(&Request::new(&graph, &options, &Sequential)).expect("tables");
        assert!(check(&graph, &again, &Checks::default(), &Sequential).is_sound());
    }

    #[test]
    fn opensms_own_dump_is_read() {
        let mut graph = generated(tree());
        graph.switches.truncate(4);
        let guids = [0x0002_c903_0010_0000u64, 0x0002_c903_0010_0001, 0x0002_c903_0010_0002, 0x0002_c903_0010_0003];
        graph.switches.iter_mut().zip(guids).for_each(|(switch, guid)| switch.guid = guid);
        graph.ends.truncate(1);
        graph.ends[0].guid = 0x0002_c903_0a00_0001;
        let mut tables = Tables::empty("file", &graph);
        assert_eq!(read(&graph, OPENSM, &mut tables), Ok(4));
        let ports: Vec<u8> = tables.lfts.iter().map(|row| row[usize::from(graph.ends[0].lid)]).collect();
        assert_eq!(ports, [1, 4, 1, 1]);
        assert_eq!(read(&graph, "0x0001 x\n", &mut tables).expect_err("an error").split(':').nth(1), Some("1"));
    }

    #[test]
    fn another_fabrics_file_is_refused() {
        let graph = generated(tree());
        let options = RoutingOptions { lfts_file: OPENSM.into(), ..RoutingOptions::default() };
        let error = (super::ENGINE.run)(&Request::new(&graph, &options, &Sequential)).expect_err("refused");
        assert!(error.to_string().contains("another's"), "{error}");
    }
}
