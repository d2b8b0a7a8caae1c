//! Links: actual and possible speed and width, ports that carry nothing, cables with errors.

use weft_diags::ib::format::Format;
use weft_diags::ibnet::link::could_be;
use weft_diags::ibnet::port::{PHYS_LINK_UP, STATE_ACTIVE};
use weft_fabric::topology::counted;

use super::finding::Section;
use super::survey::{CABLE_ERRORS, Survey};

/// Checks widths, speeds and states. Each cable is reported once.
pub fn rates(survey: &Survey) -> Section {
    let mut section = Section::new("links");
    let fabric = &survey.fabric;
    let wired = survey.wired();
    section.looked_at = counted(wired.len() / 2, "cable");
    for at in wired {
        let node = fabric.node(at.node);
        let Some(port) = node.port(at.port) else { continue };
        let Some(remote) = port.remote.filter(|&remote| at < remote) else { continue };
        let ends = format!("{} - {}", survey.label(at), survey.label(remote));
        if port.state() != STATE_ACTIVE {
            let state = Format::PortState.text(port.state().into(), 4);
            section.error(format!("{ends}: the cable is there, the link is {state} and carries nothing"));
            continue;
        }
        let (width, speed) = could_be(fabric, node, port);
        let lacks = [width, speed].into_iter().filter_map(|lack| Some(lack.strip_prefix("Could be ")?.to_owned()));
        let lacks: Vec<String> = lacks.collect();
        if !lacks.is_empty() {
            section.warning(format!("{ends}: could be {}", lacks.join(" and ")));
        }
        let (mtu, other) = (port.neighbor_mtu(), fabric.port(remote).map_or(0, |p| p.neighbor_mtu()));
        if mtu != other {
            section.warning(format!("{ends}: the ends have different MTUs (codes {mtu} and {other})"));
        }
    }
    for (index, node) in fabric.nodes() {
        for port in node.external_ports().filter(|p| p.remote.is_none() && p.phys_state() == PHYS_LINK_UP) {
            let at = weft_diags::ibnet::PortRef { node: index, port: port.num };
            section.warning(format!("{}: trained, but no node answers at the other end", survey.label(at)));
        }
    }
    section
}

/// Checks the ports' error counters, and their increase during the last seconds.
pub fn errors(survey: &Survey, seconds: f64) -> Section {
    let mut section = Section::new("cables by counters");
    section.looked_at = format!("{}, {seconds:.1} s apart", counted(survey.errors.len(), "port"));
    for (&at, pairs) in &survey.errors {
        for (field, &(before, after)) in CABLE_ERRORS.iter().zip(pairs) {
            // A counter that went back has been cleared.
            let rise = after.saturating_sub(before);
            if rise > 0 {
                section.error(format!("{}: {} grows, by {rise} just now", survey.label(at), field.name));
            } else if after > 0 {
                section.warning(format!("{}: {} is {after}, and rests", survey.label(at), field.name));
            }
        }
    }
    section
}
