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
use weft_tool::fabric::{session, spell};

use super::topology;

/// Fetches the description of the running fabric.
///
/// # Errors
/// No fabric is up; the text is for the user.
pub fn running_topology() -> Result<Topology, String> {
    let picture = session(Spawn::Never)?.fabric_picture().map_err(spell)?;
    Ok(topology::read(&picture)?.topology)
}
