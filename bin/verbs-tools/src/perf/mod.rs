//! `weft perf`: bandwidth, latency and message rate of SEND, WRITE, READ and atomics over RC, UC and UD.
//!
//! A server waits; a client runs the cases one after the other and prints the results. With `--local` the client starts
//! the server itself. Client and server agree on each case over TCP (`control`).

mod args;
mod case;
mod client;
mod control;
mod csv;
mod endpoint;
mod files;
mod histogram;
mod measure;
mod plan;
mod plot;
mod progress;
mod report;
mod server;

pub use args::{PORT, PerfArgs};
pub use case::{Case, Metric, Operation, Transport};
pub use report::{Measured, Outcome, bandwidth, rate};

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

/// Runs the command.
pub fn run(args: &PerfArgs) -> ExitCode {
    let result = if args.local {
        local(args)
    } else if let Some(server) = &args.server {
        client::run(args, server, args.port)
    } else if args.csv.is_some() || args.plot.is_some() {
        Err("a server has no results: give --csv and --plot to its client, or add --local".to_owned())
    } else {
        server::run(args)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("weft perf: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A server process, killed when dropped.
struct LocalServer(Child);

impl Drop for LocalServer {
    fn drop(&mut self) {
        // The server exits by itself after its client; this is for failed clients.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on this machine and measures against it.
fn local(args: &PerfArgs) -> Result<(), String> {
    let (_server, port) = start_server(args)?;
    client::run(args, crate::THIS_MACHINE, port)
}

fn start_server(args: &PerfArgs) -> Result<(LocalServer, u16), String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new(exe);
    command.args(["perf", "--once", "--port", "0", "--ib-port", &args.ib_port.to_string()]);
    if let Some(dev) = &args.ib_dev {
        command.args(["--ib-dev", dev]);
    }
    if let Some(row) = args.gid_idx {
        command.args(["--gid-idx", &row.to_string()]);
    }
    if args.system {
        command.arg("--system");
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut server = LocalServer(child.map_err(|e| format!("cannot start a server: {e}"))?);
    let mut line = String::new();
    if let Some(stdout) = server.0.stdout.take() {
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    let port = line.trim().parse().map_err(|_| "the server did not start".to_owned())?;
    Ok((server, port))
}

/// Runs cases against a server of its own and returns the results, for `weft demo`.
pub fn measure_locally(args: &PerfArgs, cases: &[Case]) -> Result<Vec<Measured>, String> {
    let (_server, port) = start_server(args)?;
    client::measure(args, crate::THIS_MACHINE, port, cases, |_, _| {})
}
