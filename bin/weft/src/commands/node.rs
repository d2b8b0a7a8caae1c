//! `weft node`: power of the nodes of the fabric that is up.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::fabric::{FabricRequest, NodeChange};

use super::up::finish;

/// Options of `weft node`.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Subcommand, Debug)]
enum NodeCommand {
    /// Take its power: its links go down
    Off {
        /// Name of the node
        name: String,
    },
    /// Give it power: it is as new
    On {
        /// Name of the node
        name: String,
    },
    /// Take its power, and give it again after a while
    Reboot {
        /// Name of the node
        name: String,
        /// How long it is off, such as 500ms or 2s
        #[arg(long, default_value = "1s", value_name = "TIME", value_parser = super::cable::downtime_ms)]
        down: u32,
    },
}

/// Runs the command.
pub fn run(args: NodeArgs) -> ExitCode {
    let (name, change) = match args.command {
        NodeCommand::Off { name } => (name, NodeChange::Off),
        NodeCommand::On { name } => (name, NodeChange::On),
        NodeCommand::Reboot { name, down } => (name, NodeChange::Reboot { down_ms: down }),
    };
    finish("weft node", super::cable::send(&FabricRequest::Node { name, change }))
}
