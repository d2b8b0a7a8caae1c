//! Starting and stopping of units.

use weft_ipc::Client;

use super::status::{self, Enabled};
use super::unit::Unit;
use super::words::{Verb, Words};
use super::{modules, process, record};
use crate::commands::sm::service;

/// Changes the units one after the other. Returns the exit code.
///
/// # Errors
/// The text is for the user.
pub fn change_all(client: &mut Client, units: &[Unit], verb: Verb) -> Result<u8, String> {
    let mut code = 0;
    for unit in units {
        if let Err(message) = change(client, unit, verb) {
            crate::errln!("{message}");
            code = 1;
        }
    }
    Ok(code)
}

fn change(client: &mut Client, unit: &Unit, verb: Verb) -> Result<(), String> {
    let is_active = status::of(client, unit, 0)?.active.is_active();
    match verb {
        Verb::Stop => stop(client, unit),
        Verb::Start if is_active => Ok(()),
        Verb::TryRestart if !is_active => Ok(()),
        Verb::Reload if !is_active => Err(format!("{} is not active, cannot reload.", unit.name())),
        Verb::Reload | Verb::ReloadOrRestart if is_active && *unit == Unit::Manager => {
            service::reload(&process::ports(client)?).map_err(|error| failed(unit, &format!("{error:#}")))
        }
        Verb::Reload => {
            Err(format!("Failed to reload {0}: Job type reload is not applicable for unit {0}.", unit.name()))
        }
        Verb::Start => start(client, unit),
        _ => {
            stop(client, unit)?;
            start(client, unit)
        }
    }
}

fn start(client: &mut Client, unit: &Unit) -> Result<(), String> {
    match unit {
        Unit::Manager => service::start(&process::ports(client)?).map_err(|error| failed(unit, &format!("{error:#}"))),
        Unit::Hardware if process::ports(client)?.is_empty() => Err(failed(unit, "the host has no adapter")),
        Unit::Hardware => Ok(()),
        Unit::LoadModules(_) | Unit::ModulesAtBoot => {
            let run = modules::load(unit, jiff::Timestamp::now().as_second());
            record::write_run(client, unit, Some(&run))?;
            if run.code == 0 { Ok(()) } else { Err(failed(unit, &run.log.join("\n  "))) }
        }
    }
}

fn stop(client: &mut Client, unit: &Unit) -> Result<(), String> {
    match unit {
        Unit::Manager => service::stop(&process::ports(client)?).map_err(|error| failed(unit, &format!("{error:#}"))),
        // The adapters bring it back at once.
        Unit::Hardware => Ok(()),
        Unit::LoadModules(_) | Unit::ModulesAtBoot => record::write_run(client, unit, None),
    }
}

fn failed(unit: &Unit, why: &str) -> String {
    let name = unit.name();
    format!("Job for {name} failed:\n  {why}\nSee \"systemctl status {name}\" for details.")
}

/// Enables or disables the units. Returns the exit code.
///
/// # Errors
/// The text is for the user.
pub fn enable(client: &mut Client, units: &[Unit], words: &Words) -> Result<u8, String> {
    let enables = words.verb == Verb::Enable;
    for unit in units {
        if status::of(client, unit, 0)?.enabled == Enabled::Static {
            crate::errln!(
                "{}: the unit is static: others start it, and it cannot be enabled or disabled.",
                unit.name()
            );
            continue;
        }
        record::write_enabled(client, unit, enables)?;
        if enables && !words.now && !words.quiet {
            crate::errln!("{}: enabled. A host of a fabric does not boot: `systemctl start` starts it.", unit.name());
        }
    }
    let verb = if enables { Verb::Start } else { Verb::Stop };
    if words.now { change_all(client, units, verb) } else { Ok(0) }
}
