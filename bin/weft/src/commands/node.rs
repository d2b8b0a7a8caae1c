//! `weft node`: power of the running fabric's nodes, and faults of their management agents.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::fabric::{FabricRequest, NodeChange};
use weft_tool::fabric::finish;

/// Options of `weft node`.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Subcommand, Debug)]
enum NodeCommand {
    /// Power the node off; its links go down
    Off {
        /// Name of the node
        name: String,
    },
    /// Power the node on; it starts afresh
    On {
        /// Name of the node
        name: String,
    },
    /// Power the node off, and on again after a while
    Reboot {
        /// Name of the node
        name: String,
        /// Time that the node stays off, such as 500ms or 2s
        #[arg(long, default_value = "1s", value_name = "TIME", value_parser = super::cable::downtime_ms)]
        down: u32,
    },
    /// Make the node's management agents answer wrongly, late or not at all; without options, correctly again
    Agent {
        /// Name of the node
        name: String,
        /// Answer no subnet or performance management requests
        #[arg(long)]
        silent: bool,
        /// Delay answers to subnet management requests by this many milliseconds
        #[arg(long, default_value_t = 0, value_name = "MS")]
        delay: u32,
        /// Claim this NodeGUID, such as another node's: 0x and hexadecimal digits
        #[arg(long, value_parser = guid)]
        guid: Option<u64>,
        /// Claim this many ports
        #[arg(long, value_name = "N")]
        ports: Option<u8>,
    },
}

/// Runs the command.
pub fn run(args: NodeArgs) -> ExitCode {
    let (name, change) = match args.command {
        NodeCommand::Off { name } => (name, NodeChange::Off),
        NodeCommand::On { name } => (name, NodeChange::On),
        NodeCommand::Reboot { name, down } => (name, NodeChange::Reboot { down_ms: down }),
        NodeCommand::Agent { name, silent, delay, guid, ports } => {
            (name, NodeChange::Agent { silent, delay_ms: delay, guid, ports })
        }
    };
    finish("weft node", super::cable::send(&FabricRequest::Node { name, change }))
}

fn guid(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    value.ok_or_else(|| "a GUID is 0x and up to 16 hexadecimal digits, for example 0x0002c90300100000".to_owned())
}
