//! `weft nvme disconnect`: ends the processes in the background.

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use weft_tool::outln;

use crate::registry::{ControllerState, Registry};

/// Options of `weft nvme disconnect`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("controllers").required(true).args(["nqn", "device"]))]
pub struct DisconnectArgs {
    /// Name of the subsystem: all its controllers are disconnected
    #[arg(short = 'n', long, value_name = "NQN")]
    pub nqn: Option<String>,
    /// Device, such as nvme0
    #[arg(short = 'd', long, value_name = "DEVICE")]
    pub device: Option<String>,
}

/// Disconnects.
///
/// # Errors
/// There is no such device, or a process does not end.
pub fn run(args: &DisconnectArgs) -> Result<()> {
    let registry = Registry::open()?;
    let all = registry.all();
    let (nqn, chosen) = match (&args.nqn, &args.device) {
        (Some(nqn), _) => (nqn.clone(), all.into_iter().filter(|found| found.subsystem == *nqn).collect()),
        (None, device) => {
            let found = named(&all, device.as_deref().unwrap_or_default())?;
            (found.subsystem.clone(), vec![found])
        }
    };
    registry.end(&chosen)?;
    outln!("NQN:{nqn} disconnected {} controller(s)", chosen.len());
    Ok(())
}

/// Returns the controller with this device name, or of this namespace's.
fn named(all: &[ControllerState], device: &str) -> Result<ControllerState> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let is_it = |found: &&ControllerState| {
        let is_namespace = |rest: &str| rest.strip_prefix('n').is_some_and(|id| id.parse::<u32>().is_ok());
        name.strip_prefix(found.device.as_str()).is_some_and(|rest| rest.is_empty() || is_namespace(rest))
    };
    let found = all.iter().find(is_it).cloned();
    found.with_context(|| format!("no device `{device}` is connected; `weft nvme list` shows those that are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_controller_or_one_of_its_namespaces() {
        let all =
            ["nvme1", "nvme10"].map(|device| ControllerState { device: device.into(), ..ControllerState::default() });
        let name = |device: &str| named(&all, device).map(|found| found.device).ok();
        assert_eq!(name("nvme1").as_deref(), Some("nvme1"));
        assert_eq!(name("/dev/nvme10n3").as_deref(), Some("nvme10"));
        assert_eq!((name("nvme100"), name("nvme1nx"), name("nvme")), (None, None, None));
    }
}
