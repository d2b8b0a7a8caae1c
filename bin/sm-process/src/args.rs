//! The command line of `weft sm`: a manager's options, or a subcommand.

use clap::{Args, Subcommand};

use super::run_args::RunArgs;
use super::{check, console, instances, preview};

/// `weft sm`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SmArgs {
    /// Command to run instead of the subnet manager
    #[command(subcommand)]
    pub(crate) command: Option<SmCommand>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The subcommands of `weft sm`.
#[derive(Subcommand, Debug)]
pub enum SmCommand {
    /// Print the status of the subnet manager that runs here
    Status(console::StatusArgs),
    /// Send a command, or lines from standard input, to the subnet manager that runs here
    Console(console::ConsoleArgs),
    /// Print every event of the subnet manager as it happens, one JSON object a line
    Events(console::TargetArgs),
    /// Print SM metrics in Prometheus format
    Metrics(console::TargetArgs),
    /// Run a subnet manager for each port that the machine's files name, as a service
    Instances(instances::InstancesArgs),
    /// Compute tables for a fabric description and rate them
    Preview(Box<preview::PreviewArgs>),
    /// Check configuration files, and show what partitions would change, before they go live
    Check(check::CheckArgs),
}
