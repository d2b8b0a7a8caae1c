//! Configuration, as OpenSM 3.3.23 has it: every option of opensm.conf, the files that options name, and
//! `/etc/sysconfig/opensm`. Each group is declared once, together with its text in the file; readers, writers and
//! comparisons walk [`SECTIONS`].

mod check;
mod diagnostic;
pub mod files;
pub mod groups;
mod instances;
mod read;
mod spec;
mod text;
mod value;
mod write;

pub use diagnostic::{Diagnostic, Diagnostics, Level, REMARKS_MAX};
pub use groups::congestion::Congestion;
pub use groups::device::Device;
pub use groups::handover::Handover;
pub use groups::log::Log;
pub use groups::misc::Misc;
pub use groups::partitions::Partitions;
pub use groups::perfmgr::Perfmgr;
pub use groups::qos::{KindLanes, Lanes, Qos};
pub use groups::routing::Routing;
pub use groups::sweep::Sweep;
pub use groups::timing::Timing;
pub use instances::{Instance, Sysconfig, instances, sysconfig};
pub use read::{parse, set};
pub use spec::{Change, Effect, Section, Spec};
pub use text::{FILE_LEN_MAX, bounded, clip, lines, number};
pub use value::{BySl, Console, PartEnforce, PortMask, Value};
pub use write::{Difference, changes, create_config, reloaded};

/// Default directory of the manager's files.
pub const DIRECTORY: &str = "/etc/opensm";

/// Directories in which distributions keep opensm.conf and partitions.conf, in search order.
pub const DIRECTORIES: [&str; 2] = ["/etc/rdma", DIRECTORY];

/// Every option of opensm.conf.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Port settings and keys.
    pub device: Device,
    /// Partitions, and where they are enforced.
    pub partitions: Partitions,
    /// When to sweep the subnet.
    pub sweep: Sweep,
    /// Routing.
    pub routing: Routing,
    /// Several managers on one subnet.
    pub handover: Handover,
    /// Number of MADs in flight, and their timeouts.
    pub timing: Timing,
    /// Options that belong to no other group.
    pub misc: Misc,
    /// OpenSM's performance manager and plug-ins.
    pub perfmgr: Perfmgr,
    /// The log and the dump files.
    pub log: Log,
    /// Quality of service.
    pub qos: Qos,
    /// VLs and arbitration by kind of port.
    pub lanes: KindLanes,
    /// OpenSM's experimental congestion control.
    pub congestion: Congestion,
}

/// Every option, in the order of the file.
pub const SECTIONS: &[Section] = &[
    Section { title: "DEVICE ATTRIBUTES OPTIONS", specs: groups::device::SPECS },
    Section { title: "PARTITIONING OPTIONS", specs: groups::partitions::SPECS },
    Section { title: "SWEEP OPTIONS", specs: groups::sweep::SPECS },
    Section { title: "ROUTING OPTIONS", specs: groups::routing::SPECS },
    Section { title: "HANDOVER - MULTIPLE SMs OPTIONS", specs: groups::handover::SPECS },
    Section { title: "TIMING AND THREADING OPTIONS", specs: groups::timing::SPECS },
    Section { title: "MISC OPTIONS", specs: groups::misc::SPECS },
    Section { title: "Performance Manager and Event Plugin Options", specs: groups::perfmgr::SPECS },
    Section { title: "LOG AND DUMP OPTIONS", specs: groups::log::SPECS },
    Section { title: "QoS OPTIONS", specs: groups::qos::SPECS },
    Section { title: "QoS default options", specs: groups::qos::ALL },
    Section { title: "QoS CA options", specs: groups::qos::CA },
    Section { title: "QoS Switch Port 0 options", specs: groups::qos::SW0 },
    Section { title: "QoS Switch external ports options", specs: groups::qos::SWE },
    Section { title: "QoS Router ports options", specs: groups::qos::RTR },
    Section { title: "Congestion Control OPTIONS (EXPERIMENTAL)", specs: groups::congestion::SPECS },
];

/// Former names of options, each with its present one.
const ALIASES: &[(&str, &str)] = &[("dimn_ports_file", "port_search_ordering_file")];

impl Options {
    /// Returns the defaults of a manager whose files are in `directory`.
    pub fn of_directory(directory: &str) -> Options {
        let mut options = Options::default();
        let directory = directory.trim_end_matches('/');
        for path in [
            &mut options.partitions.partition_config_file,
            &mut options.routing.torus_config,
            &mut options.misc.prefix_routes_file,
            &mut options.log.per_module_logging_file,
            &mut options.qos.qos_policy_file,
        ] {
            if let Some(name) = path.as_deref().and_then(|path| path.rsplit('/').next()) {
                *path = Some(format!("{directory}/{name}"));
            }
        }
        options
    }
}

/// Returns the option with a name, present or former.
pub fn option(name: &str) -> Option<&'static Spec> {
    let name = ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    SECTIONS.iter().flat_map(|section| section.specs).find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests;
