//! Description of a login, and the registry of those.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_rdma_service::registry::{self, Registered};

/// Registry of the logins.
pub type Registry = registry::Registry<SessionState>;
/// Place of this process.
pub type Claim = registry::Claim<SessionState>;

/// Disk of a target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskState {
    /// Number of the logical unit.
    pub lun: u16,
    /// Vendor.
    pub vendor: String,
    /// Model.
    pub model: String,
    /// Revision.
    pub revision: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Writes are refused.
    pub read_only: bool,
}

/// Login that a process holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// Device name, such as `srp0`.
    pub device: String,
    /// The process.
    pub pid: u32,
    /// Address or name of the target; its GID if it was named by a service identifier.
    pub address: String,
    /// Port of the target, unless it was named by a service identifier.
    pub port: Option<u16>,
    /// Service identifier of the target.
    pub service_id: Option<u64>,
    /// The system's libraries are used.
    pub system: bool,
    /// Identifier of the target port.
    pub target: String,
    /// Identifier of this initiator.
    pub initiator: String,
    /// Socket of NBD.
    pub socket: PathBuf,
    /// Disks.
    pub disks: Vec<DiskState>,
    /// Commands are sent now.
    pub is_live: bool,
    /// Reason for which the connection is lost; empty: it is not.
    pub lost: String,
}

impl SessionState {
    /// Returns the name of a disk, such as `srp0:1`.
    pub fn disk_device(&self, lun: u16) -> String {
        format!("{}:{lun}", self.device)
    }
}

impl Registered for SessionState {
    const DIRECTORY: &'static str = "weft-srp";
    const PREFIX: &'static str = "srp";
    const DUPLICATE_ADVICE: &'static str =
        "`weft srp list` shows its disks; another initiator_ext makes a login of its own";
    const DISCONNECT_ADVICE: &'static str = "end some with `weft srp disconnect`";

    fn device(&self) -> &str {
        &self.device
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn place(&mut self, device: String, socket: PathBuf) {
        (self.device, self.socket) = (device, socket);
    }

    /// A second login of the same initiator would end the first one.
    fn is_like(&self, other: &SessionState) -> bool {
        self.target == other.target && self.initiator == other.initiator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_initiator_is_another_login() {
        let state = SessionState { target: "0x1".into(), initiator: "0x2".into(), ..SessionState::default() };
        assert!(state.is_like(&SessionState { device: "srp0".into(), pid: 1, ..state.clone() }));
        assert!(!state.is_like(&SessionState { initiator: "0x3".into(), ..state.clone() }));
        assert_eq!(SessionState { device: "srp2".into(), ..state }.disk_device(7), "srp2:7");
    }
}
