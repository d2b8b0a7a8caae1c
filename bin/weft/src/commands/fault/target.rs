//! Programs that a fault concerns.

use clap::Args;
use weft_ipc::FaultTarget;
use weft_verbs::injection::Injection;

/// Programs that suffer from a fault: all of the user's by default, and all of all users for root.
#[derive(Args, Clone, PartialEq, Debug, Default)]
pub struct TargetArgs {
    /// Only this process
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Only programs of this name, e.g. ib_write_bw
    #[arg(long, value_name = "NAME")]
    pub command: Option<String>,
    /// Only this device, for status, errno and event
    #[arg(long, value_name = "DEV")]
    pub device: Option<String>,
}

impl TargetArgs {
    /// Returns the programs concerned, and the specification for them.
    pub fn apply(&self, spec: &str) -> Result<(FaultTarget, String), String> {
        let target = match (self.pid, &self.command) {
            (Some(pid), _) => FaultTarget::Pid(pid),
            (None, Some(name)) => FaultTarget::Command(name.clone()),
            (None, None) => FaultTarget::All,
        };
        let Some(device) = &self.device else { return Ok((target, spec.to_owned())) };
        if !Injection::is_meant_by(spec) {
            return Err(
                "--device is for status, errno and event; add to=ADDRESS to faults in packets for those to a device's address".into()
            );
        }
        Ok((target, format!("{spec},device={device}")))
    }
}

/// Returns a number of processes in words.
pub fn count_processes(count: u32) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_belongs_to_injected_failures() {
        let target = TargetArgs { device: Some("rxe1".into()), ..TargetArgs::default() };
        let applied = target.apply("event=PORT_ERR").unwrap();
        assert_eq!(applied, (FaultTarget::All, "event=PORT_ERR,device=rxe1".to_owned()));
        assert!(target.apply("loss=1%").unwrap_err().contains("faults in packets"));
        let both = TargetArgs { pid: Some(5), ..TargetArgs::default() };
        assert_eq!(both.apply("loss=1%").unwrap().0, FaultTarget::Pid(5));
    }
}
