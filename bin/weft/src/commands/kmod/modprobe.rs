//! `modprobe`, `rmmod` and `insmod` of modules that Weft stands in for.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use weft_ipc::{
    Client, ConnectOptions, DEVICE_KIND_RXE, DEVICE_KIND_SIW, DeviceInfo, HOST_VARIABLE, RequestError, Spawn,
};

use super::original;
use super::words::Words;
use crate::commands::modules::{self, Module, ModuleFiles};
use crate::commands::refusal_lines;

/// Time limit for the view to show a change.
const SHOWS_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Runs the command; `None` if it names no module of Weft's.
pub fn run(files: &ModuleFiles, command: &str, args: &[OsString]) -> Option<ExitCode> {
    let words = Words::parse(command, args)?;
    let is_ours = |name: &String| modules::find(name).is_some_and(|module| !files.is_machines(module));
    let (ours, theirs): (Vec<String>, Vec<String>) = words.names.iter().cloned().partition(is_ours);
    if ours.is_empty() {
        return None;
    }
    let mut failed = false;
    for name in ours {
        if let Err(message) = change(files, command, &words, &name) {
            failed = true;
            if !words.quiet {
                crate::errln!("{command}: {message}");
            }
        }
    }
    if !theirs.is_empty() {
        let mut system = original::command(Some(files), command)?;
        failed |= !system.args(&words.options).args(theirs).status().is_ok_and(|status| status.success());
    }
    Some(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Why a module does not load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// Neither Weft nor the machine has it.
    Unknown,
    /// The daemon or the kernel refuses it, with this explanation.
    Refused(String),
}

/// Loads one module, Weft's or the machine's. Returns whether it was not loaded before.
///
/// # Errors
/// It does not load.
pub fn load(name: &str) -> Result<bool, LoadError> {
    let Some(files) = ModuleFiles::own() else { return load_machines(None, name) };
    match modules::find(name).filter(|module| !files.is_machines(module)) {
        Some(module) if files.line(module.name).is_some() => Ok(false),
        Some(module) => insert(&files, module).map(|()| true).map_err(LoadError::Refused),
        None => load_machines(Some(&files), name),
    }
}

/// Loads a module of the machine's kernel.
fn load_machines(files: Option<&ModuleFiles>, name: &str) -> Result<bool, LoadError> {
    // An option in a file of names is none.
    let known = |command: &mut Command| command.args(["--quiet", "--dry-run", "--", name]).status();
    let mut look = original::command(files, "modprobe").ok_or(LoadError::Unknown)?;
    if !known(&mut look).is_ok_and(|status| status.success()) {
        return Err(LoadError::Unknown);
    }
    let mut command = original::command(files, "modprobe").ok_or(LoadError::Unknown)?;
    let output = command.args(["--", name]).output();
    match output {
        Ok(output) if output.status.success() => Ok(true),
        Ok(output) => Err(LoadError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) => Err(LoadError::Refused(crate::errno::text(&error))),
    }
}

/// Loads or removes one module. The error is the command's message.
fn change(files: &ModuleFiles, command: &str, words: &Words, name: &str) -> Result<(), String> {
    let Some(module) = modules::find(name) else {
        return Err(format!("FATAL: Module {name} not found in directory /lib/modules/{}", modules::release()));
    };
    let name = module.name;
    let line = files.line(name);
    let result = match (words.remove, line) {
        (false, Some(_)) if words.first_time => {
            Err(format!("ERROR: could not insert '{name}': Module already in kernel"))
        }
        (true, None) if command == "rmmod" => Err(format!("ERROR: Module {name} is not currently loaded")),
        (true, None) if words.first_time => Err(format!("FATAL: Module {name} is not in kernel.")),
        (false, Some(_)) | (true, None) => Ok(()),
        (false, None) if words.dry_run => Ok(()),
        (false, None) => insert(files, module).map_err(|error| format!("ERROR: could not insert '{name}': {error}")),
        (true, Some(line)) => remove(files, words, module, &line),
    };
    match command {
        "rmmod" => result.map_err(|message| message.replacen("FATAL", "ERROR", 1)),
        _ => result,
    }
}

fn insert(files: &ModuleFiles, module: &Module) -> Result<(), String> {
    let mut client = connect()?;
    client.set_module(module.name, true).map_err(|error| one_line(&error))?;
    await_shown(files, module, true);
    Ok(())
}

fn remove(files: &ModuleFiles, words: &Words, module: &'static Module, line: &str) -> Result<(), String> {
    let name = module.name;
    let holders = line.split(' ').nth(3).unwrap_or_default().trim_end_matches(',');
    if holders != "-" {
        return Err(format!("FATAL: Module {name} is in use by: {}", holders.replace(',', " ")));
    }
    if words.dry_run {
        return Ok(());
    }
    let mut client = connect()?;
    let error = |error: RequestError| format!("ERROR: could not remove '{name}': {}", one_line(&error));
    let devices = client.list_devices().map_err(error)?;
    let by_modprobe = client.modules().map_err(error)?;
    let others: Vec<String> = by_modprobe.into_iter().filter(|other| other != name).collect();
    let is_needed = modules::loaded(&devices, false, &others).contains(&module);
    if is_needed && !module.removable {
        return Err(format!("FATAL: Module {name} is in use: Weft's devices need it"));
    }
    if let Some(kind) = kind_of(name) {
        remove_links(&mut client, name, kind, &devices)?;
    }
    client.set_module(name, false).map_err(error)?;
    await_shown(files, module, false);
    Ok(())
}

/// Returns the type of devices that a module drives.
fn kind_of(module: &str) -> Option<&'static str> {
    match module {
        "rdma_rxe" => Some(DEVICE_KIND_RXE),
        "siw" => Some(DEVICE_KIND_SIW),
        _ => None,
    }
}

/// Removes the links that users added. The daemon keeps RoCE devices for interfaces with addresses, and with them the
/// module.
fn remove_links(client: &mut Client, name: &str, kind: &str, devices: &[DeviceInfo]) -> Result<(), String> {
    let error = |error: RequestError| format!("ERROR: could not remove '{name}': {}", one_line(&error));
    for device in devices.iter().filter(|device| device.kind == kind && !device.auto) {
        client.link_del(&device.name).map_err(error)?;
    }
    let left = client.list_devices().map_err(error)?;
    let names: Vec<&str> =
        left.iter().filter(|device| device.kind == kind).map(|device| device.name.as_str()).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "FATAL: Module {name} is in use: the daemon keeps {} for interfaces with addresses",
            names.join(", ")
        )),
    }
}

fn connect() -> Result<Client, String> {
    let options = ConnectOptions {
        program: "modprobe".to_owned(),
        host: env::var(HOST_VARIABLE).unwrap_or_default(),
        spawn: Spawn::Never,
        ..ConnectOptions::default()
    };
    Client::connect(&options).map_err(|error| error.to_string())
}

/// The system's error text and the daemon's explanation.
fn one_line(error: &RequestError) -> String {
    let (text, reason) = refusal_lines(error);
    reason.map_or(text.clone(), |reason| format!("{text}: {reason}"))
}

/// Tells the view's keeper, and waits until the view shows the module, or does not any more.
fn await_shown(files: &ModuleFiles, module: &Module, loaded: bool) {
    let _ = fs::write(files.changed(), module.name);
    let until = Instant::now() + SHOWS_WITHIN;
    while !files.shows(module.name, loaded) && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}
