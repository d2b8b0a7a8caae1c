//! `weft sm`: the subnet manager and subnet administration on a port, virtual or real. The manager itself is `weft_sm`;
//! this crate gives it a port through libibumad, files, threads, and a control socket.

mod address;
mod args;
mod balance;
mod check;
mod commands;
mod console;
mod control;
mod create_config;
mod dump;
pub mod exposition;
mod files;
mod instances;
mod log;
mod metrics;
mod opensm_words;
mod port;
mod preview;
mod run_args;
mod running_manager;
mod serve;
pub mod service;
mod simulate;
mod terminal;
mod threads;
mod timeouts;
mod unread;

pub use args::SmArgs;
pub use threads::Threads;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weft_client::Which;
use weft_client::umad::Library;
use weft_sys::signals::SignalQueue;
// The modules name these `crate::output`, `crate::errln!` and so on.
use weft_tool::{errln, named_file, outln, output};

use args::SmCommand;
use control::Conversation;
use files::Files;
use log::Log;
use port::SmPort;
use run_args::RunArgs;
use serve::Server;

/// Runs the command.
pub fn run(args: &SmArgs) -> ExitCode {
    match &args.command {
        Some(SmCommand::Status(args)) => console::status(args),
        Some(SmCommand::Console(args)) => console::run(args),
        Some(SmCommand::Events(args)) => console::events(args),
        Some(SmCommand::Metrics(args)) => console::metrics(args),
        Some(SmCommand::Instances(args)) => finish(instances::run(args)),
        Some(SmCommand::Preview(args)) => preview::run(args),
        Some(SmCommand::Check(args)) => check::run(args),
        None if args.run.create_config.is_some() => finish(create(&args.run)),
        None => finish(if args.run.daemon && !args.run.is_daemon() { detach(&args.run) } else { manage(&args.run) }),
    }
}

fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::errln!("weft sm: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn create(args: &RunArgs) -> Result<()> {
    args.create_config.as_ref().map_or(Ok(()), |path| create_config::run(args, path))
}

fn manage(args: &RunArgs) -> Result<()> {
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).filter(|_| args.is_daemon()) {
        std::env::set_current_dir(&directory)
            .with_context(|| format!("cannot work in {}", Path::new(&directory).display()))?;
    }
    let (files, log) = prepare(args)?;
    if files.options().misc.daemon && !args.is_daemon() {
        return detach(args);
    }
    keep_number(args)?;
    // Must precede loading the port library, which may have threads: a signal that one thread does not block ends the
    // process.
    let signals = SignalQueue::new(&[libc::SIGHUP, libc::SIGUSR1, libc::SIGTERM, libc::SIGINT])?;
    let library = Library::load(Which::Ours)?;
    let port = SmPort::open(library, args.guid.filter(|guid| *guid != 0).or(files.guid()))?;
    crate::outln!("weft sm {}: port 0x{:016x}", env!("CARGO_PKG_VERSION"), port.device().port_guid);
    let console = (files.options().misc.console, files.options().misc.console_port);
    let server = Server::new(port, files, log, signals, args)?;
    terminal::open(server.guid(), console.0, console.1)?;
    // Parsing the command line takes more code than managing a small subnet; its pages can go. A failure is harmless.
    let _ = weft_sys::mapping::release_code();
    server.serve()
}

/// Reads the configuration, prints diagnostics about it, and opens the log.
fn prepare(args: &RunArgs) -> Result<(Files, Log)> {
    let files = Files::load(args)?;
    let (options, diagnostics) = files.log();
    for diagnostic in files.diagnostics().iter().chain(&diagnostics) {
        crate::errln!("weft sm: {diagnostic}");
    }
    let log = options.path.clone().unwrap_or_default();
    let log = Log::open(options, files.accumulates()).with_context(|| {
        format!("cannot write the log {}; log_file in the configuration names another", log.display())
    })?;
    Ok((files, log))
}

/// Writes the process ID to the file that a supervisor reads.
fn keep_number(args: &RunArgs) -> Result<()> {
    let Some(path) = args.pidfile.as_ref().filter(|_| args.is_daemon()) else { return Ok(()) };
    std::fs::write(path, format!("{}\n", std::process::id()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Directory in which a background manager resolves relative file names.
const DIRECTORY_VARIABLE: &str = "WEFT_SM_DIRECTORY";

/// Restarts the command as a process without a terminal. Diagnostics about the configuration are printed on the
/// terminal before.
fn detach(args: &RunArgs) -> Result<()> {
    prepare(args)?;
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    words.extend(["--set", RunArgs::IS_DAEMON].map(OsString::from));
    let directory = std::env::current_dir().context("cannot tell the directory to work in")?;
    spawn(&words, &[(OsStr::new(DIRECTORY_VARIABLE), directory.as_os_str())])
}

/// Starts `weft` detached, with these arguments, in this environment plus `added`.
///
/// # Errors
/// It could not be started.
pub fn spawn(args: &[OsString], added: &[(&OsStr, &OsStr)]) -> Result<()> {
    let program = std::env::current_exe()?;
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    environment.retain(|(name, _)| added.iter().all(|(other, _)| name != other));
    let mut all: Vec<(&OsStr, &OsStr)> = environment.iter().map(|(a, b)| (a.as_os_str(), b.as_os_str())).collect();
    all.extend_from_slice(added);
    // This process may have been called by a stand-in's name, such as systemctl.
    let args: Vec<&OsStr> = [OsStr::new("weft")].into_iter().chain(args.iter().map(OsString::as_os_str)).collect();
    weft_sys::spawn::spawn_detached(&program, &args, &all).context("cannot start a subnet manager")
}

/// Reads the configuration of a manager to start, prints diagnostics about it, and returns its absolute path.
///
/// # Errors
/// The file cannot be read, has errors that keep a manager from starting, or names a log that cannot be written.
pub fn check_config(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    prepare(&RunArgs::of_config(Some(path.clone())))?;
    Ok(path)
}

/// Time limit for a manager to accept connections, and for one whose port is gone to exit.
const START: Duration = Duration::from_secs(10);
/// Poll interval for both.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits until no manager holds a port: the manager of an earlier fabric exits a moment after its port is gone.
///
/// # Errors
/// The manager does not exit in time.
pub fn wait_until_free(guid: u64) -> Result<()> {
    let deadline = Instant::now() + START;
    while control::running().contains(&guid) {
        if Instant::now() >= deadline {
            bail!(
                "a subnet manager of weft runs on port 0x{guid:016x} already and does not end; \
                 `weft sm console shutdown` ends it"
            );
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Waits until the just started manager on a port has its subnet up.
///
/// # Errors
/// The manager does not start, or ends.
pub fn wait_until_up(guid: u64) -> Result<()> {
    let deadline = Instant::now() + START;
    let conversation = loop {
        match Conversation::open(Some(guid)) {
            Ok(conversation) => break conversation,
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context("the subnet manager did not start; `weft sm` as that host says why"));
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    };
    conversation.say(console::WAIT, |_| {})
}
