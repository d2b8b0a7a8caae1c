//! Stand-in for systemd's `systemctl` on a fabric's host, where no systemd runs: it starts, stops and shows the units that
//! InfiniBand's guides name. Everything else it leaves to the system's command, where systemd runs.

mod control;
mod modules;
mod process;
mod record;
mod status;
mod unit;
mod words;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use weft_ipc::{Client, ConnectError, ConnectOptions, HOST_VARIABLE, Spawn};

use super::stand_in::{become_original, original_command};
use unit::Unit;
use words::{Verb, Words};

/// The command's name.
const NAME: &str = "systemctl";

/// Directory that is there while systemd runs (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Exit codes for units that a host lacks, as systemctl(1) lists them.
const NO_SUCH_UNIT: u8 = 4;
const NOT_INSTALLED: u8 = 5;

const USAGE: &str = "Usage: systemctl [OPTIONS] COMMAND [UNIT]...

Weft's stand-in for systemctl on a host of a fabric. Its units:

  opensm, weft-sm           the host's subnet manager
  rdma-load-modules@NAME    loads the kernel modules that /etc/rdma/modules/NAME.conf lists
  systemd-modules-load      loads those of /etc/modules-load.d, as far as Weft has them
  rdma-hw.target            active on a host with an adapter

Commands: start, stop, restart, try-restart, reload, reload-or-restart, status, is-active, is-failed, is-enabled,
          enable [--now], disable [--now], list-units, daemon-reload

Options: --now, -q[uiet], -n[lines] LINES, -l[full], --no-pager
";

/// Runs the command.
pub fn run(args: &[OsString]) -> ExitCode {
    let words = match Words::parse(args) {
        Ok(words) => words,
        Err(message) => return unless_systemd(args, &message, ExitCode::FAILURE),
    };
    if words.help {
        crate::output::print(USAGE);
        return ExitCode::SUCCESS;
    }
    if words.verb == Verb::DaemonReload {
        // Weft's units are in no files.
        return original(args).map_or(ExitCode::SUCCESS, |command| become_original(NAME, command));
    }
    let mut units = Vec::new();
    for name in &words.units {
        let Some(unit) = Unit::parse(name) else {
            let code = if words.verb == Verb::Status { NO_SUCH_UNIT } else { NOT_INSTALLED };
            let name = unit::with_suffix(name);
            let message = format!("Unit {name} not found. `systemctl --help` lists those of a fabric's host.");
            return unless_systemd(args, &message, ExitCode::from(code));
        };
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    match answer(&words, &units) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes the system's command if systemd runs; prints the message otherwise.
fn unless_systemd(args: &[OsString], message: &str, code: ExitCode) -> ExitCode {
    if let Some(command) = original(args) {
        return become_original(NAME, command);
    }
    crate::errln!("{message}");
    code
}

/// The system's command, if systemd runs.
fn original(args: &[OsString]) -> Option<std::process::Command> {
    if Path::new(BOOTED).is_dir() { original_command(NAME, args) } else { None }
}

/// Carries the command out. Returns its exit code.
fn answer(words: &Words, units: &[Unit]) -> Result<u8, String> {
    let mut client = connect()?;
    match words.verb {
        Verb::ListUnits => status::list(&mut client).map(|()| 0),
        Verb::Status => status::print(&mut client, units, words.lines),
        Verb::IsActive => status::is_active(&mut client, units, words.quiet),
        Verb::IsFailed => status::is_failed(&mut client, units, words.quiet),
        Verb::IsEnabled => status::is_enabled(&mut client, units, words.quiet),
        Verb::Enable | Verb::Disable => control::enable(&mut client, units, words),
        verb => control::change_all(&mut client, units, verb),
    }
}

fn connect() -> Result<Client, String> {
    let options = ConnectOptions {
        program: NAME.to_owned(),
        host: env::var(HOST_VARIABLE).unwrap_or_default(),
        spawn: Spawn::Never,
        ..ConnectOptions::default()
    };
    Client::connect(&options).map_err(|error| match error {
        ConnectError::NotRunning => "no fabric is up: bring one up with `weft up`".to_owned(),
        error => error.to_string(),
    })
}
