//! Options of `weft run`.

use std::ffi::OsString;

use clap::Args;

use super::adapter_args::AdapterArgs;

/// Exit code for failures before the program runs, as in env(1), nohup(1) and docker.
pub const FAILED: u8 = 125;

/// Options of `weft run`.
#[derive(Args, Debug, Default)]
pub struct RunArgs {
    /// Set LD_LIBRARY_PATH only: no namespace, no view of /sys and /dev, no other place for the loader
    #[arg(long)]
    pub ld_library_path: bool,
    /// Leave the system's libraries in place and only show the devices
    #[arg(long, conflicts_with = "ld_library_path")]
    pub system: bool,
    #[command(flatten)]
    pub adapters: AdapterArgs,
    /// Start the program in the background and return once it listens (TCP or the RDMA connection manager)
    #[arg(short, long)]
    pub detach: bool,
    /// Start the program once a program listens on PORT (TCP or the RDMA connection manager) [with -d: wait for that
    /// port]
    #[arg(long, value_name = "PORT")]
    pub wait_port: Option<u16>,
    /// Print the setup, what failed, and which libraries the program will load
    #[arg(short, long)]
    pub verbose: bool,
    /// Suppress messages that a view or a program cannot be served (same as WEFT_QUIET=1)
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Variables for the program, set by commands that are built on this one
    #[arg(skip)]
    pub variables: Vec<(OsString, OsString)>,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
