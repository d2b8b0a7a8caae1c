//! The dump files of OpenSM, which administrators' scripts read: forwarding tables, hops, links, groups.

mod links;
mod listing;
mod unicast;

use std::fmt::Write as _;

pub use links::subnet_list;
pub use unicast::{forwarding, hops, matrix};

use crate::subnet::Subnet;
use listing::switches;

/// Returns the text of a dump file.
pub type Writer = fn(&Subnet) -> String;

/// Dump files by name, each with its writer.
pub const FILES: &[(&str, Writer)] = &[
    ("opensm-lfts.dump", forwarding),
    ("opensm.fdbs", hops),
    ("opensm-lid-matrix.dump", matrix),
    ("opensm-subnet.lst", subnet_list),
    ("opensm.mcfdbs", multicast),
];

/// Writes the multicast tables of all switches that have any: `opensm.mcfdbs`.
pub fn multicast(subnet: &Subnet) -> String {
    let mut out = String::new();
    for (node, switch) in switches(subnet).filter(|(_, switch)| !switch.mft.is_empty()) {
        let _ = write!(out, "\nSwitch 0x{:016x}\nLID    : Out Port(s)\n", node.info.node_guid);
        for (mlid, ports) in &switch.mft {
            let _ = write!(out, "0x{mlid:04X} : ");
            for port in (0..256_usize).filter(|port| ports[port / 64] >> (port % 64) & 1 != 0) {
                let _ = write!(out, "0x{port:03X}  ");
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push_str(" \n");
        }
    }
    out
}
