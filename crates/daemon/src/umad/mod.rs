//! Management datagrams of virtual hosts: who has which port open, which agents are on it, what they wait for.

use weft_ipc::Refusal;

use crate::refusal::{ENODEV, refuse};

/// All open ports.
#[derive(Debug, Default)]
pub struct UmadService {}

impl UmadService {
    /// Whether programs can run as this host; else what a person is told.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        Err(format!("no host {host}, for no fabric is up in this network namespace: bring one up with `weft up`"))
    }

    /// Why nothing can be asked.
    pub fn refuse(&self) -> Refusal {
        refuse(ENODEV, "no fabric is up in this network namespace: bring one up with `weft up`")
    }
}
