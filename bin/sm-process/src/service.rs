//! The managers of a virtual host as a service: started, stopped and told to read their files again, as `systemctl`
//! does it with OpenSM's on a machine of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use weft_wire::mad::subn::SmState;

use super::control::{self, Conversation};
use super::instances;
use super::metrics::state_name;

/// A running manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningProcess {
    /// PortGUID of its port.
    pub guid: u64,
    /// Process ID; `None` if it ends just now, or belongs to another PID namespace.
    pub pid: Option<u32>,
}

/// Returns the managers on these ports, given by their GUIDs.
pub fn running(ports: &[u64]) -> Vec<RunningProcess> {
    let process = |guid: u64| {
        let pid = Conversation::open(Some(guid)).ok().and_then(|conversation| conversation.process());
        RunningProcess { guid, pid }
    };
    control::running().into_iter().filter(|guid| ports.contains(guid)).map(process).collect()
}

/// Starts the managers that the machine's files name on ports of this host, one on the first port if they name none, and
/// waits until each is a standby manager or has brought its subnet up. Those that run stay.
///
/// # Errors
/// The files cannot be read, or a manager does not start.
pub fn start(ports: &[u64]) -> Result<()> {
    let Some(first) = ports.first() else { anyhow::bail!("the host has no InfiniBand port") };
    let mut taken: BTreeSet<u64> = running(ports).into_iter().map(|one| one.guid).collect();
    for instance in instances::of_the_machine()? {
        // A file that names its port itself is read by the manager alone.
        let guid = instance.guid.unwrap_or(*first);
        if !ports.contains(&guid) || !taken.insert(guid) {
            continue;
        }
        let mut words: Vec<OsString> = instances::words(&instance).into_iter().map(OsString::from).collect();
        words.push("--yields".into());
        if instance.config.is_none() && !may_write(&weft_sm::options::Options::default().log.log_file) {
            // OpenSM's default is in a directory of the machine's root, who need not be the host's. The manager keeps the
            // last lines itself.
            words.extend(["--log_file", "/dev/null"].map(OsString::from));
        }
        super::spawn(&words, &[])?;
        wait_until_settled(guid)?;
    }
    Ok(())
}

/// Whether this user may create or extend a file.
fn may_write(file: &Option<String>) -> bool {
    let Some(file) = file.as_deref().map(Path::new) else { return true };
    let place = if file.exists() { file } else { file.parent().unwrap_or(Path::new("/")) };
    rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Waits until a manager that has just started is a standby manager, or has its subnet up. One that takes longer goes on
/// without us.
///
/// # Errors
/// It does not start.
fn wait_until_settled(guid: u64) -> Result<()> {
    let deadline = Instant::now() + super::START;
    loop {
        let answer = say(guid, "status --json");
        let status: serde_json::Value =
            answer.as_ref().map(|text| serde_json::from_str(text).unwrap_or_default()).unwrap_or_default();
        if status["state"] == state_name(SmState::STANDBY) || status["is_up"] == true {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let failed = "the subnet manager did not start; `weft sm` on this host says why";
            return answer.map(drop).context(failed);
        }
        std::thread::sleep(super::LOOK_AGAIN);
    }
}

/// Ends the managers on these ports, and waits until they have.
///
/// # Errors
/// One of them does not speak to this user, or does not end.
pub fn stop(ports: &[u64]) -> Result<()> {
    for manager in running(ports) {
        say(manager.guid, "shutdown")?;
        super::wait_until_free(manager.guid)?;
    }
    Ok(())
}

/// Tells the managers on these ports to read their files again.
///
/// # Errors
/// One of them does not speak to this user.
pub fn reload(ports: &[u64]) -> Result<()> {
    running(ports).into_iter().try_for_each(|manager| say(manager.guid, "reload").map(drop))
}

/// Returns the last lines of a manager's log.
///
/// # Errors
/// It does not speak to this user.
pub fn log(guid: u64, lines: u32) -> Result<String> {
    say(guid, &format!("log {lines}"))
}

fn say(guid: u64, line: &str) -> Result<String> {
    let mut answer = Vec::new();
    Conversation::open(Some(guid))?
        .say(line, |piece| answer.extend_from_slice(piece))
        .with_context(|| format!("the subnet manager on port 0x{guid:016x}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
