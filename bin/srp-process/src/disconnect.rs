//! `weft srp disconnect`: ends the processes in the background.

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use weft_tool::outln;

use crate::registry::{Registry, SessionState};

/// Options of `weft srp disconnect`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("logins").required(true).args(["device", "all"]))]
pub struct DisconnectArgs {
    /// Device, such as srp0; `weft srp list` shows them
    pub device: Option<String>,
    /// End all logins
    #[arg(long)]
    pub all: bool,
}

/// Disconnects.
///
/// # Errors
/// There is no such device, or a process does not end.
pub fn run(args: &DisconnectArgs) -> Result<()> {
    let registry = Registry::open()?;
    let chosen = chosen(registry.all(), args.device.as_deref())?;
    registry.end(&chosen)?;
    for state in &chosen {
        outln!("{} disconnected", state.device);
    }
    Ok(())
}

/// Returns the login of a device or one of its disks; without a name, all.
fn chosen(all: Vec<SessionState>, device: Option<&str>) -> Result<Vec<SessionState>> {
    let Some(device) = device else { return Ok(all) };
    let name = device.split_once(':').map_or(device, |(name, _)| name);
    match all.into_iter().find(|state| state.device == name) {
        Some(state) => Ok(vec![state]),
        None => bail!("no device `{device}` is connected; `weft srp list` shows those that are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_login_or_one_of_its_disks() {
        let all = || ["srp1", "srp10"].map(|device| SessionState { device: device.into(), ..Default::default() });
        let names =
            |device| chosen(all().into(), device).map(|found| found.iter().map(|one| one.device.clone()).collect());
        assert_eq!(names(Some("srp1")).ok(), Some(vec!["srp1".to_owned()]));
        assert_eq!(names(Some("srp10:3")).ok(), Some(vec!["srp10".to_owned()]));
        assert_eq!(names(None).map(|found: Vec<String>| found.len()).ok(), Some(2));
        assert!(names(Some("srp")).is_err());
    }
}
