//! The fabric host that sends the queries: the one that the caller names, or one that the daemon knows.

use std::os::unix::process::CommandExt;
use std::process::Command;

use weft_ipc::{Client, ConnectOptions, HOST_VARIABLE, Spawn};

use super::args::Args;
use crate::commands::{topology, up};

/// Set for programs that run on a fabric simulated by ibsim, whose library stands in for libibumad.
const IBSIM_VARIABLE: &str = "SIM_HOST";

/// Re-executes the command as a host of the fabric where needed: libraries read the host from the environment only
/// once.
///
/// # Errors
/// The command cannot be re-executed.
pub fn enter(args: &Args) -> Result<(), String> {
    let current = std::env::var(HOST_VARIABLE).unwrap_or_default();
    let host = match &args.host {
        Some(host) => host.clone(),
        None if args.system || !current.is_empty() || std::env::var_os(IBSIM_VARIABLE).is_some() => return Ok(()),
        None => match of_fabric() {
            Some(host) => host,
            None => return Ok(()),
        },
    };
    if host == current {
        return Ok(());
    }
    if args.host.is_none() {
        crate::errln!("weft diagnose: asks from host {host} of the fabric; --host NODE chooses another");
    }
    let mut again = Command::new("/proc/self/exe");
    again.args(std::env::args_os().skip(1)).env(HOST_VARIABLE, &host);
    Err(format!("cannot restart as host {host}: {}", crate::errno::text(&again.exec())))
}

/// A host of the running fabric: one with programs, as the subnet manager's host has, or else the description's first.
fn of_fabric() -> Option<String> {
    let options = ConnectOptions { program: "weft".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    let mut client = Client::connect(&options).ok()?;
    client.fabric_status().ok()??;
    let hosts = client.fabric_hosts().unwrap_or_default();
    if let Some(entry) = hosts.into_iter().next() {
        return Some(entry.host);
    }
    let picture = topology::read(&client.fabric_picture().ok()?).ok()?;
    up::first_host(&picture.topology).map(str::to_owned)
}

/// Adds a hint to an error if no port can be opened.
pub fn explained(why: String) -> String {
    match why.starts_with("Failed to open") {
        true => format!("{why}: no InfiniBand port is here; `weft up` brings up a fabric, --system asks real adapters"),
        false => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_port_is_explained() {
        let text = explained("Failed to open '(null)' port '0'".to_owned());
        assert!(text.contains("port '0': no InfiniBand port is here; `weft up`"), "{text}");
        assert_eq!(explained("odd".to_owned()), "odd");
    }
}
