//! The client: runs the cases and prints the results.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::control::{Address, Answer, Ask, Control, VERSION};
use super::endpoint::Endpoint;
use super::files::Files;
use super::measure::{self, Throughput};
use super::plan::plan;
use super::progress::Progress;
use super::report::HEAD;
use super::{Case, Measured, Metric, Operation, Outcome, PerfArgs, Transport};
use crate::outln;
use crate::pingpong::Setup;

/// Runs all cases of a command line and prints them.
pub fn run(args: &PerfArgs, server: &str, port: u16) -> Result<(), String> {
    let setup = Setup::open(&args.device(), false)?;
    let mtu = 128 << setup.port.active_mtu.clamp(1, 5);
    let cases = plan(args, mtu);
    if cases.is_empty() {
        return Err("no transport that was chosen has an operation that was chosen".to_owned());
    }
    let mut files = Files::create(args)?;
    let control = connect(server, port)?;
    let result = run_all(args, &setup, control, cases, &mut files);
    // A failure does not take away the results that were there before it.
    let drawn = files.finish(format!("{}, path MTU {mtu}, server {server}", setup.name));
    result.and(drawn)
}

fn run_all(
    args: &PerfArgs,
    setup: &Setup,
    mut control: Control,
    cases: Vec<Case>,
    files: &mut Files,
) -> Result<(), String> {
    let mut progress = Progress::new(cases.iter().map(|case| case.seconds).sum());
    if !args.json {
        progress.print(HEAD);
    }
    let mut values = Vec::new();
    for case in cases {
        progress.start(format!("{} {} {}", case.transport.name(), case.op.name(), case.metric.name()));
        let measured = one(setup, args, &mut control, case, |into| progress.tick(into))?;
        progress.finish_case(case.seconds);
        files.add(&measured)?;
        if args.json {
            values.push(measured.json());
        } else {
            progress.print(&measured.line());
            if args.histogram {
                progress.print(&measured.bars());
            }
        }
    }
    drop(progress);
    if args.json {
        outln!("{}", Value::from(values));
    }
    Ok(())
}

/// Runs the given cases; calls `tick` with each case and the time since its start.
pub fn measure(
    args: &PerfArgs,
    server: &str,
    port: u16,
    cases: &[Case],
    tick: impl Fn(&Case, Duration),
) -> Result<Vec<Measured>, String> {
    let setup = Setup::open(&args.device(), false)?;
    let mut control = connect(server, port)?;
    cases.iter().map(|case| one(&setup, args, &mut control, *case, |into| tick(case, into))).collect()
}

fn connect(server: &str, port: u16) -> Result<Control, String> {
    TcpStream::connect((server, port)).and_then(Control::new).map_err(|e| {
        let why = crate::errno::text(&e);
        format!("cannot reach the server {server}:{port}: {why}; start one there with `weft perf`")
    })
}

fn one(
    setup: &Setup,
    args: &PerfArgs,
    control: &mut Control,
    case: Case,
    tick: impl FnMut(Duration),
) -> Result<Measured, String> {
    let mut endpoint = Endpoint::new(setup, &case)?;
    let client = endpoint.address().clone();
    let peer = match ask(control, &case, &Ask::Prepare { version: VERSION, case, client })? {
        Answer::Ready(peer) => peer,
        Answer::Failed(text) => return Err(format!("the server says: {text}")),
        Answer::Seen { .. } => return Err("the server answered something else".to_owned()),
    };
    let mtu = args.mtu.as_ref().and_then(|m| m.parse::<u32>().ok()).map(|bytes| bytes.ilog2() - 7);
    endpoint.connect(setup, &peer, mtu)?;
    let outcome = run_case(&endpoint, &peer, tick);
    // The server waits for the end of the case, even after a failure.
    let sent = match &outcome {
        Ok(Outcome::Flood { sent, .. }) => *sent,
        _ => 0,
    };
    let seen = ask(control, &case, &Ask::Stop { sent })?;
    let mut outcome = outcome?;
    match seen {
        Answer::Seen { received, nanoseconds } => {
            // On transports that may lose messages, only received messages count.
            if let Outcome::Flood { arrived, .. } = &mut outcome
                && case.op == Operation::Send
                && case.transport != Transport::Rc
            {
                *arrived = Throughput { messages: received, took: Duration::from_nanos(nanoseconds) };
            }
        }
        Answer::Failed(text) => return Err(format!("the server says: {text}")),
        Answer::Ready(_) => return Err("the server answered something else".to_owned()),
    }
    Ok(Measured { case, outcome })
}

fn run_case(endpoint: &Endpoint, peer: &Address, tick: impl FnMut(Duration)) -> Result<Outcome, String> {
    if endpoint.case.metric != Metric::Lat {
        let arrived = measure::throughput(endpoint, peer, tick)?;
        return Ok(Outcome::Flood { arrived, sent: arrived.messages });
    }
    if endpoint.is_ping_pong() {
        let (histogram, lost) = measure::ping_pong(endpoint, peer, tick)?;
        return Ok(Outcome::Latency { histogram, lost });
    }
    Ok(Outcome::Latency { histogram: measure::round_trips(endpoint, peer, tick)?, lost: 0 })
}

fn ask(control: &mut Control, case: &Case, question: &Ask) -> Result<Answer, String> {
    let failed = |e: std::io::Error| format!("lost the server: {}", crate::errno::text(&e));
    control.expect_within(case.seconds).map_err(failed)?;
    control.say(question).map_err(failed)?;
    match control.hear().map_err(failed)? {
        Some(answer) => Ok(answer),
        None => Err("the server hung up".to_owned()),
    }
}
