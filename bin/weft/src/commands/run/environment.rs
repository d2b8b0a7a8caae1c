//! The variables that `weft run` and `weft env` set, and checks of the values that the user gave.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::args::RunArgs;
use crate::rdma_dir::{AUDIT, CHECK, RDS, VIEW};

/// Variable by which libraries find this command.
const COMMAND_VARIABLE: &str = "WEFT_BIN";

/// Variable with the directory of reports of misuse: the library that writes them does nothing without it.
pub const REPORT_VARIABLE: &str = "WEFT_CHECK_REPORT";

/// `LD_LIBRARY_PATH` with `dir` prepended.
pub fn library_path(dir: &Path) -> OsString {
    let mut value = dir.as_os_str().to_owned();
    if let Some(old) = env::var_os("LD_LIBRARY_PATH").filter(|old| !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    value
}

/// `LD_AUDIT` with Weft's library in it, after those of the user; `None` if that library is not built.
pub fn audit(dir: &Path) -> Option<OsString> {
    let own = dir.join(AUDIT);
    own.exists().then(|| with_own(env::var_os("LD_AUDIT"), own, b":"))
}

/// `LD_PRELOAD` with the library of the view in it, after those of the user.
///
/// # Errors
/// The library is not built, or its path holds a character at which the loader divides the list.
pub fn preload(dir: &Path) -> Result<OsString> {
    Ok(with_own(env::var_os("LD_PRELOAD"), preloadable(dir, VIEW)?, b" :"))
}

/// Adds the libraries that the options, and the variable of [`preload_check`], ask for.
///
/// # Errors
/// As [`preload`].
pub fn preload_wanted(args: &RunArgs, dir: &Path, command: &mut Command) -> Result<()> {
    if args.adapters.rds {
        preload_rds(dir, command)?;
    }
    match env::var_os(REPORT_VARIABLE).filter(|reports| !reports.is_empty()) {
        Some(reports) => preload_check(dir, Path::new(&reports), command),
        None => Ok(()),
    }
}

/// Gives the program RDS sockets: the library for them joins `LD_PRELOAD`, and finds this command by a variable, since it
/// starts the RDS service.
fn preload_rds(dir: &Path, command: &mut Command) -> Result<()> {
    add_preloaded(preloadable(dir, RDS)?, command);
    command.env(COMMAND_VARIABLE, env::current_exe().context("this program's file")?);
    Ok(())
}

/// Has the program's misuse of verbs reported into files of the directory `reports`, which this makes if it is missing.
///
/// # Errors
/// As [`preload`]; the directory cannot be made.
pub fn preload_check(dir: &Path, reports: &Path, command: &mut Command) -> Result<()> {
    add_preloaded(preloadable(dir, CHECK)?, command);
    std::fs::create_dir_all(reports).with_context(|| format!("{REPORT_VARIABLE}={}", reports.display()))?;
    // The program may change its directory.
    command.env(REPORT_VARIABLE, std::path::absolute(reports).context(REPORT_VARIABLE)?);
    Ok(())
}

/// Appends a library to the `LD_PRELOAD` that the program gets.
fn add_preloaded(own: PathBuf, command: &mut Command) {
    let set = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    let list = set.map_or_else(|| env::var_os("LD_PRELOAD"), |(_, list)| list.map(OsStr::to_owned));
    command.env("LD_PRELOAD", with_own(list, own, b" :"));
}

/// Path of a library for `LD_PRELOAD`.
fn preloadable(dir: &Path, name: &str) -> Result<PathBuf> {
    let own = dir.join(name);
    if !own.exists() {
        bail!("there is no {}; build or install all of Weft", own.display());
    }
    if own.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!("{}: LD_PRELOAD can name no path with a blank or a colon; move Weft elsewhere", own.display());
    }
    Ok(own)
}

/// A loader's list with `own` at its end, once.
fn with_own(list: Option<OsString>, own: PathBuf, separators: &[u8]) -> OsString {
    let own = own.into_os_string();
    let Some(list) = list.filter(|list| !list.is_empty()) else { return own };
    if list.as_bytes().split(|byte| separators.contains(byte)).any(|entry| entry == own.as_bytes()) {
        return list;
    }
    [list, own].join(OsStr::new(":"))
}

/// Checks a fault specification, so that a typo gives an error here instead of a fault that never happens. `from` names
/// the option or variable that holds it.
pub fn check_fault(spec: &str, from: &'static str) -> Result<()> {
    weft_link::FaultPlan::parse(spec).context(from)?;
    Ok(())
}

/// Checks that the capture file is writable, and returns its absolute path, because the program may change its
/// directory.
pub fn check_pcap(file: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(file).context("--pcap")?;
    let dir = absolute.parent().unwrap_or(Path::new("/"));
    if absolute.is_dir() {
        bail!("--pcap {}: that is a directory; name a file in it", file.display());
    }
    if !dir.is_dir() {
        bail!("--pcap {}: the directory {} does not exist", file.display(), dir.display());
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_specifications_are_checked() {
        check_fault("loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7", "--fault").unwrap();
        check_fault("loss=500ppm", "--fault").unwrap();
        for wrong in ["loss", "loss=abc", "loss=1", "loss=0.01", "lose=1%", "delay=1"] {
            assert!(check_fault(wrong, "--fault").is_err(), "{wrong}");
        }
        assert!(check_fault(&"loss=1%;".repeat(40), "--fault").is_err());
    }

    #[test]
    fn the_loader_s_lists_keep_the_user_s_entries() {
        let of = |list: &str| with_own(Some(list.into()), "/w/l.so".into(), b" :").into_string().unwrap();
        assert_eq!(of(""), "/w/l.so");
        assert_eq!(of("/u/a.so b.so"), "/u/a.so b.so:/w/l.so");
        assert_eq!(of("/w/l.so /u/a.so"), "/w/l.so /u/a.so");
        assert_eq!(with_own(None, "/w/l.so".into(), b":"), "/w/l.so");
        assert!(preload(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn preloaded_libraries_join_those_of_the_program() {
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", "/w/view.so");
        add_preloaded("/w/check.so".into(), &mut command);
        let list = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, list)| list);
        assert_eq!(list, Some(OsStr::new("/w/view.so:/w/check.so")));
    }

    #[test]
    fn captures_go_to_an_existing_directory() {
        assert!(check_pcap(Path::new("/nonexistent/x.pcapng")).is_err());
        assert!(check_pcap(Path::new("/")).is_err());
        assert!(check_pcap(Path::new("x.pcapng")).unwrap().is_absolute());
    }
}
