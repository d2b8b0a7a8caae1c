//! Commands that run programs as hosts of the fabric: a shell on one (`weft shell`), the same program on many
//! (`weft exec`), and a remote shell for launchers of parallel programs (`weft rsh`).

mod exec;
mod gather;
mod list;
mod rsh;
mod rsh_args;
mod shell;

pub use exec::{ExecArgs, run as exec};
pub use rsh::{RshArgs, run as rsh};
pub use shell::{ShellArgs, run as shell};

use weft_fabric::topology::Topology;
use weft_ipc::Spawn;
use weft_ipc::ethernet::EthernetSpec;
use weft_tool::fabric::{session, spell};

use super::topology;

/// The hosts of what is up.
enum Hosts {
    Fabric(Topology),
    Ethernet(EthernetSpec),
}

impl Hosts {
    /// Fetches them from the daemon.
    ///
    /// # Errors
    /// Nothing is up; the text is for the user.
    fn running() -> Result<Hosts, String> {
        match session(Spawn::Never)?.ethernet_status().map_err(spell)? {
            Some(status) => Ok(Hosts::Ethernet(status.spec)),
            None => running_topology().map(Hosts::Fabric),
        }
    }

    /// Names of all hosts.
    fn names(&self) -> Vec<String> {
        match self {
            Hosts::Fabric(topology) => topology.host_names().into_iter().map(str::to_owned).collect(),
            Hosts::Ethernet(spec) => spec.host_names().collect(),
        }
    }

    /// The full name of the host that the user names.
    fn called(&self, name: &str) -> Option<String> {
        match self {
            Hosts::Fabric(topology) => topology.host_called(name).map(str::to_owned),
            Hosts::Ethernet(spec) => spec.host_names().find(|host| host == name),
        }
    }

    /// The hosts in a few words, for errors.
    fn description(&self) -> String {
        match self {
            Hosts::Fabric(topology) => super::fabric_manager::hosts_of(topology),
            Hosts::Ethernet(spec) => format!("hosts are {}", super::ethernet::hosts(spec)),
        }
    }
}

/// Fetches the description of the running fabric.
///
/// # Errors
/// No fabric is up; the text is for the user.
pub fn running_topology() -> Result<Topology, String> {
    let picture = session(Spawn::Never)?.fabric_picture().map_err(spell)?;
    Ok(topology::read(&picture)?.topology)
}
