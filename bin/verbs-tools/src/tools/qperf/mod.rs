//! `qperf`: measures bandwidth and latency of TCP, UDP and RDMA. The client tells the server what to do. Compatible
//! with qperf 0.4 on either end.

mod clocks;
mod conf;
mod control;
mod options;
mod params;
mod rdma;
mod results;
mod run;
mod session;
mod sockets;
mod tests_table;
mod view;
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::outln;
use crate::output::print;
use options::{Loop, Settings};
use tests_table::TestEntry;

/// The tool.
pub const TOOL: Tool = Tool { name: "qperf", about: "measure bandwidth and latency of RDMA, TCP and UDP", run };

const HELP: &str = "Synopsis
    qperf                          serve
    qperf SERVER [OPTIONS] TESTS   measure, with a server at SERVER
Options come before the tests they are for: -t TIME, -m SIZE, -n MESSAGES, -cm 1 (by the connection manager: needed
over RoCE by the original), -cp 1 (poll), -i DEVICE:PORT, -ip PORT, -to TIMEOUT, -ws WAIT, -lp PORT, -oo LOOP, -v[v][cstu],
-ub, -uu, -un, -e DIGITS; l or r before the letters stands for the local or the remote side alone.
  --system  use the system's libraries instead of Weft's
Tests
";

fn run(args: &[OsString]) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The original prints its failures on standard output.
            outln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &[OsString]) -> Result<(), String> {
    let mut settings = Settings::default();
    let mut words = args.iter().map(|arg| arg.to_string_lossy().into_owned());
    let mut tested = false;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => {
                let names: Vec<_> = tests_table::TESTS.iter().filter(|t| t.is_known()).map(|t| t.name).collect();
                print(&format!("{HELP}    {}\n", names.join(" ")));
                return Ok(());
            }
            "--version" | "-V" => {
                let [major, minor, increment] = wire::VERSION;
                outln!("qperf {major}.{minor}.{increment}");
                return Ok(());
            }
            option if option.starts_with('-') => settings.take(option, &mut words)?,
            _ if settings.host.is_none() => (settings.host, settings.client) = (Some(word), true),
            test => {
                let test =
                    tests_table::find(test).ok_or_else(|| format!("{test}: bad test; try: qperf --help tests"))?;
                let loops = settings.loops.clone();
                repeat(&mut settings, &loops, test)?;
                tested = true;
            }
        }
    }
    match (settings.client, tested) {
        (false, _) => session::serve(&settings),
        (true, true) => Ok(()),
        (true, false) => Err(match &settings.host {
            None => "you used a client-only option but did not specify the server name.\n\
                     Do you want to be a client or server?"
                .to_owned(),
            Some(host) if tests_table::find(host).is_some() => {
                "must specify host name first; try: qperf --help".to_owned()
            }
            Some(_) => "must specify a test type; try: qperf --help".to_owned(),
        }),
    }
}

/// Runs a test once for each combination of the loops' values.
fn repeat(settings: &mut Settings, loops: &[Loop], test: &'static TestEntry) -> Result<(), String> {
    let Some((turn, rest)) = loops.split_first() else {
        return session::ask(settings, test);
    };
    for value in turn.values() {
        settings.set_loop(turn, value)?;
        repeat(settings, rest, test)?;
    }
    Ok(())
}
