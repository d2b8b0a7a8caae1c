//! The host's subnet managers, and when a process started.

use std::fs;

use weft_ipc::Client;
use weft_tool::fabric::spell;

use crate::commands::sm::service::{self, RunningProcess};

/// PortGUIDs of the host's InfiniBand ports.
///
/// # Errors
/// The text is for the user.
pub fn ports(client: &mut Client) -> Result<Vec<u64>, String> {
    let devices = client.list_devices().map_err(spell)?;
    let ports = devices.iter().filter_map(|device| device.infiniband.as_deref()).flat_map(|adapter| &adapter.ports);
    Ok(ports.filter(|port| !port.is_ethernet()).map(|port| port.guid).collect())
}

/// The managers on them.
///
/// # Errors
/// The text is for the user.
pub fn managers(client: &mut Client) -> Result<Vec<RunningProcess>, String> {
    Ok(service::running(&ports(client)?))
}

/// Start of a process in seconds since the epoch.
pub fn started(pid: u32) -> Option<i64> {
    let ticks = weft_sys::process::start_time(pid)?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot: i64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + i64::try_from(ticks / TICKS_PER_SECOND).ok()?)
}

/// USER_HZ, the same on every architecture that Linux runs Weft on.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_started_a_moment_ago() {
        let now = jiff::Timestamp::now().as_second();
        let started = started(std::process::id()).unwrap();
        assert!((now - 86_400..=now + 1).contains(&started), "{started} {now}");
    }
}
