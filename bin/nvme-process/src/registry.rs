//! Description of a connected controller, and the registry of those.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_rdma_service::registry::{self, Registered};

/// Registry of the connected controllers.
pub type Registry = registry::Registry<ControllerState>;
/// Place of this process.
pub type Claim = registry::Claim<ControllerState>;

/// Namespace of a connected controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamespaceState {
    /// Identifier.
    pub id: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Writes are refused.
    pub read_only: bool,
}

/// Controller that a process holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ControllerState {
    /// Device name, such as `nvme0`.
    pub device: String,
    /// The process.
    pub pid: u32,
    /// Address or name of the target.
    pub address: String,
    /// Port of the target.
    pub service: u16,
    /// The system's libraries are used.
    pub system: bool,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Name of this host.
    pub host_nqn: String,
    /// Identifier of this host.
    pub host_id: String,
    /// Identifier of the controller.
    pub controller: u16,
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Socket of NBD.
    pub socket: PathBuf,
    /// Namespaces.
    pub namespaces: Vec<NamespaceState>,
    /// Commands are sent now.
    pub is_live: bool,
    /// Reason for which the connection is lost; empty: it is not.
    pub lost: String,
}

impl ControllerState {
    /// Creates the description of a controller that is about to be connected.
    pub fn new(
        (address, service, system): (&str, u16, bool),
        subsystem: &str,
        (host_nqn, host_id): (&str, &str),
    ) -> ControllerState {
        ControllerState {
            pid: std::process::id(),
            address: address.to_owned(),
            service,
            system,
            subsystem: subsystem.to_owned(),
            host_nqn: host_nqn.to_owned(),
            host_id: host_id.to_owned(),
            ..ControllerState::default()
        }
    }

    /// Returns the name of a namespace's device, such as `nvme0n1`.
    pub fn namespace_device(&self, namespace: u32) -> String {
        format!("{}n{namespace}", self.device)
    }
}

impl Registered for ControllerState {
    const DIRECTORY: &'static str = "weft-nvme";
    const PREFIX: &'static str = "nvme";
    const DUPLICATE_ADVICE: &'static str = "`weft nvme list` shows its namespaces, --duplicate-connect connects again";
    const DISCONNECT_ADVICE: &'static str = "disconnect some with `weft nvme disconnect`";

    fn device(&self) -> &str {
        &self.device
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn place(&mut self, device: String, socket: PathBuf) {
        (self.device, self.socket) = (device, socket);
    }

    fn is_like(&self, other: &ControllerState) -> bool {
        let key = |state: &ControllerState| {
            (state.address.clone(), state.service, state.subsystem.clone(), state.host_nqn.clone(), state.system)
        };
        key(self) == key(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_or_host_is_another_connection() {
        let state = ControllerState::new(("a", 4420, false), "nqn", ("host", "id"));
        assert!(state.is_like(&ControllerState { device: "nvme0".into(), pid: 1, ..state.clone() }));
        assert!(!state.is_like(&ControllerState { service: 4421, ..state.clone() }));
        assert!(!state.is_like(&ControllerState { host_nqn: "other".into(), ..state.clone() }));
    }
}
