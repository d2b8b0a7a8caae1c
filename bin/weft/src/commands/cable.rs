//! `weft cable`: changes and faults of the cables of the running fabric.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::Spawn;
use weft_ipc::fabric::{CableChange, FabricRequest, PortName};
use weft_link::units;
use weft_tool::fabric::{finish, session, spell};
use weft_verbs::Duration;

/// Options of `weft cable`.
#[derive(Args, Debug)]
pub struct CableArgs {
    #[command(subcommand)]
    command: CableCommand,
}

/// A cable, named by one of its ends or by both.
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
    /// Unplug a cable
    Cut {
        #[command(flatten)]
        ends: Ends,
    },
    /// Plug a cable in again, or lay a new one between two free ports
    Join {
        #[command(flatten)]
        ends: Ends,
    },
    /// Unplug a cable and plug it in again after a while
    Flap {
        #[command(flatten)]
        ends: Ends,
        /// Time that the cable stays unplugged, such as 500ms or 2s
        #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = downtime_ms)]
        down: u32,
    },
    /// Limit the width or speed of a cable; without options, restore full width and speed and end its losses
    Degrade {
        #[command(flatten)]
        ends: Ends,
        /// Maximum width: 1x, 2x, 4x, 8x or 12x
        #[arg(long)]
        width: Option<String>,
        /// Maximum speed: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR
        #[arg(long)]
        speed: Option<String>,
    },
    /// Make a cable corrupt packets, which the receiving port counts and drops
    Errors {
        #[command(flatten)]
        ends: Ends,
        /// Share of packets to corrupt, such as 5% or 200ppm; a bare number is in parts per million
        #[arg(long, value_name = "SHARE", value_parser = share_ppm)]
        ppm: u32,
    },
    /// Make one cable, or all cables, lose management datagrams
    Drop {
        /// An end of the cable, NODE:PORT [default: all cables]
        #[arg(value_parser = port_name)]
        a: Option<PortName>,
        /// The other end
        #[arg(value_parser = port_name)]
        b: Option<PortName>,
        /// Share of datagrams to drop, such as 5% or 200ppm; a bare number is in parts per million
        #[arg(long, value_name = "SHARE", value_parser = share_ppm)]
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

/// Sends a request about the fabric to the daemon, which owns it.
pub fn send(request: &FabricRequest) -> Result<(), String> {
    session(Spawn::Never)?.fabric(request.clone()).map(drop).map_err(spell)
}

/// Longest time that a cable or a node can be down; the daemon enforces a shorter limit of its own.
const DOWN_MAX: Duration = Duration::from_secs(24 * 3600);

/// Parses a downtime and returns it in milliseconds.
pub fn downtime_ms(text: &str) -> Result<u32, String> {
    let time = units::time(text, DOWN_MAX)?;
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).map_err(|_| "that is too long".to_owned())
}

/// Parses a share in parts per million; a bare number has the unit in the option's name.
fn share_ppm(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(ppm) if ppm <= units::PPM_MAX => Ok(ppm),
        Ok(_) => Err(format!("choose 0 to {}", units::PPM_MAX)),
        Err(_) => units::share_ppm(text),
    }
}

/// Parses `leaf1:3`; the node name itself may contain colons.
pub fn port_name(text: &str) -> Result<PortName, String> {
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
    fn shares_and_times_have_units() {
        assert_eq!((share_ppm("5%"), share_ppm("200ppm"), share_ppm("200")), (Ok(50_000), Ok(200), Ok(200)));
        for wrong in ["2000000", "0.5", "101%", "x"] {
            assert!(share_ppm(wrong).is_err(), "{wrong}");
        }
        assert_eq!((downtime_ms("1s"), downtime_ms("20us"), downtime_ms("0")), (Ok(1000), Ok(1), Ok(0)));
        assert_eq!(downtime_ms("50").unwrap_err(), "a time needs its unit; write 50ms or 50s");
    }

    #[test]
    fn an_end_is_a_node_and_a_port() {
        assert_eq!(port_name("leaf1:3"), Ok(PortName { node: "leaf1".to_owned(), port: 3 }));
        assert_eq!(port_name("MF0;a:SX/U1:36"), Ok(PortName { node: "MF0;a:SX/U1".to_owned(), port: 36 }));
        for wrong in ["leaf1", "leaf1:", ":3", "leaf1:x", "leaf1:256"] {
            assert!(port_name(wrong).is_err(), "{wrong}");
        }
    }
}
