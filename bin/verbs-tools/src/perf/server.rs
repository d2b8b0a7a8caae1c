//! The server: waits for clients and does its part of each case.

use std::net::{TcpListener, TcpStream};

use super::control::{Address, Answer, Ask, Control, VERSION};
use super::endpoint::Endpoint;
use super::measure::{self, Throughput};
use super::{Case, Metric, Operation, PerfArgs};
use crate::outln;
use crate::pingpong::Setup;

/// Serves clients one after the other.
pub fn run(args: &PerfArgs) -> Result<(), String> {
    let setup = Setup::open(&args.device(), false)?;
    let listener = TcpListener::bind(("::", args.port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", args.port)))
        .map_err(|e| format!("cannot listen on TCP port {}: {}", args.port, crate::errno::text(&e)))?;
    let port = listener.local_addr().map_or(args.port, |addr| addr.port());
    if args.once {
        outln!("{port}");
    } else {
        outln!("{} serves on TCP port {port}; measure with: weft perf THIS_HOST", setup.name);
    }
    loop {
        let (stream, from) = listener.accept().map_err(|e| format!("cannot accept: {}", crate::errno::text(&e)))?;
        let served = serve(&setup, stream);
        if args.once {
            return served;
        }
        match served {
            Ok(()) => outln!("served {}", from.ip()),
            Err(e) => crate::errln!("weft perf: client {}: {e}", from.ip()),
        }
    }
}

fn serve(setup: &Setup, stream: TcpStream) -> Result<(), String> {
    let lost = |e: std::io::Error| format!("lost the client: {e}");
    let mut control = Control::new(stream).map_err(lost)?;
    loop {
        let (case, client) = match control.hear().map_err(lost)? {
            None => return Ok(()),
            Some(Ask::Prepare { version: VERSION, case, client }) if case.is_sane() => (case, client),
            Some(Ask::Prepare { version, .. }) if version != VERSION => {
                let text = format!("this server speaks version {VERSION}, the client {version}");
                control.say(&Answer::Failed(text)).map_err(lost)?;
                continue;
            }
            Some(_) => {
                control.say(&Answer::Failed("that cannot be measured".to_owned())).map_err(lost)?;
                continue;
            }
        };
        let answer = match one(setup, &mut control, &case, &client) {
            Ok(seen) => Answer::Seen {
                received: seen.messages,
                nanoseconds: u64::try_from(seen.took.as_nanos()).unwrap_or(u64::MAX),
            },
            Err(text) => Answer::Failed(text),
        };
        control.say(&answer).map_err(lost)?;
    }
}

fn one(setup: &Setup, control: &mut Control, case: &Case, client: &Address) -> Result<Throughput, String> {
    let mut endpoint = Endpoint::new(setup, case)?;
    endpoint.connect(setup, client, None)?;
    let ready = Answer::Ready(endpoint.address().clone());
    control.say(&ready).map_err(|e| format!("lost the client: {e}"))?;
    if endpoint.is_ping_pong() {
        return measure::serve_ping_pong(&endpoint, client, control);
    }
    if case.op == Operation::Send && case.metric != Metric::Lat {
        return measure::serve_flood(&endpoint, control);
    }
    measure::serve_passively(control)
}
