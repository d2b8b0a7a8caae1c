//! The checks: one function each, in the order of the report.

mod calls;
mod daemon;
mod devices;
mod host;
mod libraries;
mod namespaces;
mod program;
#[cfg(test)]
mod tests;

use super::machine::Machine;
use super::report::Finding;

/// A check.
pub struct Check {
    /// Its name in the report.
    pub name: &'static str,
    /// Looks at a machine.
    pub examine: fn(&dyn Machine) -> Vec<Finding>,
}

/// Every check.
pub const ALL: &[Check] = &[
    Check { name: "kernel", examine: host::kernel },
    Check { name: "libraries", examine: libraries::libraries },
    Check { name: "daemon", examine: daemon::daemon },
    Check { name: "udp-4791", examine: daemon::port },
    Check { name: "devices", examine: devices::devices },
    Check { name: "foreign", examine: devices::foreign },
    Check { name: "nodes", examine: devices::nodes },
    Check { name: "namespaces", examine: namespaces::namespaces },
    Check { name: "confinement", examine: namespaces::confinement },
    Check { name: "memory", examine: calls::memory_files },
    Check { name: "copies", examine: calls::copies },
    Check { name: "sharing", examine: calls::sharing },
    Check { name: "limits", examine: host::limits },
    Check { name: "program", examine: program::program },
];
