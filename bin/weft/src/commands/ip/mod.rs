//! Stand-in for iproute2's `ip` on a fabric's host. The kernel knows the IPoIB interfaces as TUNs: it has neither their
//! link-layer addresses nor their neighbours, and makes no children. The stand-in runs the system's `ip` for everything,
//! corrects what it prints of these interfaces, and changes them through the daemon.

mod change;
mod json;
mod neighbours;
mod original;
mod text;
mod words;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use weft_ipc::{Client, ConnectOptions, HOST_VARIABLE, IpoibInterface, Spawn};

use original::code_of;
pub use original::{ORIGINAL, original, query};
use words::{Object, Words};

/// Exit code of `ip` after an error of the kernel.
const FAILED: u8 = 2;

/// Time limit for a write to `create_child` or `delete_child` to take effect.
const WRITES_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Runs the command.
pub fn run(args: &[OsString]) -> ExitCode {
    let Some(words) = Words::parse(args) else { return pass(args) };
    await_writes();
    let options = ConnectOptions {
        program: "ip".to_owned(),
        host: env::var(HOST_VARIABLE).unwrap_or_default(),
        spawn: Spawn::Never,
        ..ConnectOptions::default()
    };
    let Ok(mut client) = Client::connect(&options) else { return pass(args) };
    let Ok(interfaces) = client.ipoib_interfaces() else { return pass(args) };
    if words.object == Object::Link
        && let Some(result) = change::apply(&mut client, &interfaces, &words.rest)
    {
        return result.unwrap_or_else(|failure| {
            crate::errln!("{failure}");
            ExitCode::from(FAILED)
        });
    }
    if !words.shows() {
        return pass(args);
    }
    let neighbours = match words.object {
        Object::Neighbour => match neighbours::find(&mut client, &interfaces, &words) {
            Some(found) => found,
            None => return pass(args),
        },
        _ => Vec::new(),
    };
    // The system's command must not keep the daemon waiting for this one's end.
    drop(client);
    show(args, &words, &interfaces, &neighbours)
}

/// Runs the system's command, and prints what it says with corrections.
fn show(
    args: &[OsString],
    words: &Words,
    interfaces: &[IpoibInterface],
    neighbours: &[neighbours::Neighbour],
) -> ExitCode {
    let output = match original(args).stdin(Stdio::inherit()).stderr(Stdio::inherit()).output() {
        Ok(output) => output,
        Err(error) => return missing(&error),
    };
    // Names of interfaces may be any bytes: output that is not UTF-8 stays as it is.
    let shown = match String::from_utf8(output.stdout) {
        Err(error) => error.into_bytes(),
        Ok(shown) => match (words.object, words.json) {
            (Object::Neighbour, _) => neighbours::add(&shown, neighbours, words),
            (_, true) => json::correct(&shown, interfaces),
            (_, false) if words.brief => text::correct_brief(&shown, interfaces, words.object == Object::Link),
            (_, false) => text::correct(&shown, interfaces),
        }
        .into_bytes(),
    };
    let written = io::Write::write_all(&mut io::stdout().lock(), &shown);
    code_of(output.status, written.is_ok())
}

/// Becomes the system's command.
fn pass(args: &[OsString]) -> ExitCode {
    missing(&original(args).exec())
}

fn missing(error: &io::Error) -> ExitCode {
    crate::errln!("ip: the system's command does not start: {}", crate::errno::text(error));
    ExitCode::FAILURE
}

/// Waits until what was written to `create_child` and `delete_child` has taken effect, as it has on Linux when the writer
/// returns.
fn await_writes() {
    let until = Instant::now() + WRITES_WITHIN;
    let is_pending = || {
        let all = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
        let files = all.flat_map(|one| ["create_child", "delete_child"].map(|name| one.path().join(name)));
        files.into_iter().any(|file| fs::metadata(file).is_ok_and(|found| found.len() > 0))
    };
    while is_pending() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}
