//! `weft shell HOST`: the user's shell as a host of the fabric.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::commands::run::{self, AdapterArgs, RunArgs};

/// The shell of a user without `SHELL`.
const DEFAULT_SHELL: &str = "/bin/sh";

/// Options of `weft shell`.
#[derive(Args, Debug)]
pub struct ShellArgs {
    /// Host of the running fabric
    #[arg(value_name = "HOST")]
    host: String,
}

/// Runs the command. Returns only if that fails: the shell replaces this process, so its exit status is its own.
pub fn run(args: &ShellArgs) -> ExitCode {
    ExitCode::from(start(&args.host))
}

/// Replaces this process by the user's shell as `host`. Returns the exit code of a failure.
pub fn start(host: &str) -> u8 {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| DEFAULT_SHELL.into());
    let prompt = prompt(&shell, host, weft_sys::process::euid() == 0);
    run::start(&RunArgs {
        adapters: AdapterArgs::of_host(host),
        variables: vec![("PS1".into(), prompt)],
        command: vec![shell],
        ..RunArgs::default()
    })
}

/// The prompt of a shell whose startup files set none. Those that do usually show the host's name, which the shell's UTS
/// namespace has.
fn prompt(shell: &OsStr, host: &str, is_root: bool) -> OsString {
    let sign = if is_root { '#' } else { '$' };
    match Path::new(shell).file_name().and_then(OsStr::to_str) {
        Some("bash") => format!("{host}:\\w{sign} "),
        Some("zsh") => format!("{host}:%~{sign} "),
        _ => format!("{host}{sign} "),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_names_the_host() {
        assert_eq!(prompt(OsStr::new("/bin/sh"), "node1", false), "node1$ ");
        assert_eq!(prompt(OsStr::new("/usr/bin/bash"), "node1", true), "node1:\\w# ");
    }
}
