//! `weft cable`: what happens to the cables of the fabric that is up.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::Spawn;
use weft_ipc::fabric::{CableChange, FabricRequest, PortName};

use super::up::{finish, session, spell};

/// Options of `weft cable`.
#[derive(Args, Debug)]
pub struct CableArgs {
    #[command(subcommand)]
    command: CableCommand,
}

/// A cable: one of its ends, or both.
#[derive(Args, Debug)]
struct Ends {
    /// An end of the cable, NODE:PORT
    #[arg(value_parser = port_name)]
    a: PortName,
    /// The other end
    #[arg(value_parser = port_name)]
    b: Option<PortName>,
}

#[derive(Subcommand, Debug)]
enum CableCommand {
    /// Pull a cable
    Cut {
        #[command(flatten)]
        ends: Ends,
    },
    /// Plug it in again, or a new one between two free ports
    Join {
        #[command(flatten)]
        ends: Ends,
    },
    /// Pull it, and plug it in again after a while
    Flap {
        #[command(flatten)]
        ends: Ends,
        /// How long it is out, in milliseconds
        #[arg(long, default_value_t = 100, value_name = "MS")]
        down: u32,
    },
    /// Let it carry less than its ports can; without options, as much as they can and without loss
    Degrade {
        #[command(flatten)]
        ends: Ends,
        /// Widest that it carries: 1x, 2x, 4x, 8x or 12x
        #[arg(long)]
        width: Option<String>,
        /// Fastest that it carries: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR
        #[arg(long)]
        speed: Option<String>,
    },
    /// Let it damage packets, which the receiving port counts and drops
    Errors {
        #[command(flatten)]
        ends: Ends,
        /// Of a million packets
        #[arg(long)]
        ppm: u32,
    },
    /// Let it, or all cables, lose management datagrams
    Drop {
        /// An end of the cable, NODE:PORT; none: all cables
        #[arg(value_parser = port_name)]
        a: Option<PortName>,
        /// The other end
        #[arg(value_parser = port_name)]
        b: Option<PortName>,
        /// Of a million datagrams
        #[arg(long)]
        ppm: u32,
    },
}

/// Runs the command.
pub fn run(args: CableArgs) -> ExitCode {
    finish("weft cable", request(args.command).and_then(|request| send(&request)))
}

fn request(command: CableCommand) -> Result<FabricRequest, String> {
    let (ends, change) = match command {
        CableCommand::Cut { ends } => (ends, CableChange::Cut),
        CableCommand::Join { ends } => (ends, CableChange::Join),
        CableCommand::Flap { ends, down } => (ends, CableChange::Flap { down_ms: down }),
        CableCommand::Degrade { ends, width: None, speed: None } => (ends, CableChange::Mend),
        CableCommand::Degrade { ends, width, speed } => {
            let lanes = width.map(|word| word.trim_end_matches(['x', 'X']).parse::<u8>());
            let lanes = lanes.transpose().map_err(|_| "a width is 1x, 2x, 4x, 8x or 12x".to_owned())?;
            (ends, CableChange::Degrade { lanes, speed })
        }
        CableCommand::Errors { ends, ppm } => (ends, CableChange::Errors { ppm }),
        CableCommand::Drop { a: Some(a), b, ppm } => (Ends { a, b }, CableChange::Drop { ppm }),
        CableCommand::Drop { a: None, ppm, .. } => return Ok(FabricRequest::Drop { ppm }),
    };
    Ok(FabricRequest::Cable { a: ends.a, b: ends.b, change })
}

/// Asks the daemon, whose fabric it is.
pub fn send(request: &FabricRequest) -> Result<(), String> {
    session(Spawn::Never)?.fabric(request.clone()).map(drop).map_err(spell)
}

/// `leaf1:3`; a name may have colons itself.
fn port_name(text: &str) -> Result<PortName, String> {
    let parts = text.rsplit_once(':').and_then(|(node, port)| Some((node, port.parse().ok()?)));
    match parts {
        Some((node, port)) if !node.is_empty() => Ok(PortName { node: node.to_owned(), port }),
        _ => Err("an end is NODE:PORT, for example leaf1:3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_node_and_a_port() {
        assert_eq!(port_name("leaf1:3"), Ok(PortName { node: "leaf1".to_owned(), port: 3 }));
        assert_eq!(port_name("MF0;a:SX/U1:36"), Ok(PortName { node: "MF0;a:SX/U1".to_owned(), port: 36 }));
        for wrong in ["leaf1", "leaf1:", ":3", "leaf1:x", "leaf1:256"] {
            assert!(port_name(wrong).is_err(), "{wrong}");
        }
    }
}
