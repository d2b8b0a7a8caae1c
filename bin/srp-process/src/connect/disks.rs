//! Disks of the target as disks of NBD clients.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use weft_nbd::{Command, Export};
use weft_rdma_service::limits::COMPLAINTS_MAX;
use weft_rdma_service::nbd::{DiskDriver, DiskRequest, DiskResult};
use weft_srp::scsi::Lun;
use weft_srp::{InitiatorEvent, LostReason};
use weft_tool::errln;

use super::translate;
use crate::initiator::Driver;
use crate::registry::Claim;

/// Initiator with its place in the registry.
#[derive(Debug)]
pub struct Disks {
    driver: Driver,
    claim: Claim,
    /// Lines about failed commands.
    complaints: u32,
}

impl Disks {
    /// Takes an initiator whose disks are known.
    pub fn new(driver: Driver, claim: Claim) -> Disks {
        Disks { driver, claim, complaints: 0 }
    }

    fn print(&mut self, event: &InitiatorEvent) {
        let device = self.claim.state().device.clone();
        let say = |text: String| errln!("weft srp connect: {device}: {text}");
        match event {
            InitiatorEvent::Ready { disks, attempts: 0 } => {
                say(format!("{disks} disk{}", if *disks == 1 { "" } else { "s" }));
            }
            InitiatorEvent::Ready { disks, attempts } => {
                let plural = if *attempts == 1 { "" } else { "s" };
                say(format!("logged in again after {attempts} attempt{plural}; disks: {disks}"));
                self.claim.state().lost.clear();
            }
            InitiatorEvent::Lost(reason) => {
                say(format!("connection lost: {reason}"));
                self.claim.state().lost = reason.to_string();
            }
            InitiatorEvent::FailingFast => {
                say("no connection for too long: requests fail (fast_io_fail_tmo)".to_owned())
            }
            InitiatorEvent::Unusable { lun, reason } => say(format!("logical unit {lun} is not offered: {reason}")),
            InitiatorEvent::Unknown(count) => {
                say(format!("{count} logical units are not offered: their addresses are not known"))
            }
            InitiatorEvent::Changed(disk) => {
                say(format!("disk {} has gone, or is another one now; its requests fail", disk.lun));
            }
            InitiatorEvent::Attention { lun, sense } => say(format!("disk {lun}: {sense}; connect again to see it")),
            InitiatorEvent::Failed { lun, opcode, failure } => {
                self.complain(&format!("disk {lun}: command {opcode:#04x}: {failure}"));
            }
            InitiatorEvent::Aborting { lun, opcode, is_reset: false } => {
                self.complain(&format!("disk {lun}: command {opcode:#04x} takes too long and is aborted"));
            }
            InitiatorEvent::Aborting { lun, .. } => self.complain(&format!("disk {lun}: the disk is reset")),
        }
    }

    /// Prints a line about a command, up to a number of them.
    fn complain(&mut self, text: &str) {
        if self.complaints >= COMPLAINTS_MAX {
            return;
        }
        self.complaints += 1;
        let last = if self.complaints == COMPLAINTS_MAX { "; no more lines about commands" } else { "" };
        errln!("weft srp connect: {}: {text}{last}", self.claim.state().device);
    }
}

impl AsFd for Disks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.driver.as_fd()
    }
}

impl DiskDriver for Disks {
    fn timeout(&self) -> Option<Duration> {
        self.driver.timeout()
    }

    fn turn(&mut self) -> Result<()> {
        self.driver.turn()
    }

    fn shutdown(&mut self) {
        self.driver.shutdown();
    }

    fn submit(&mut self, request: DiskRequest, export: &str, command: Command) -> bool {
        let lun: Lun = export.parse().unwrap_or(Lun::MAX);
        let has_fua = self.driver.disks().any(|disk| disk.lun == lun && disk.has_fua);
        let operations = translate::operations(command, has_fua);
        self.driver.submit(request, lun, operations.first, operations.data);
        operations.then_flush
    }

    fn take_finished(&mut self) -> Vec<DiskResult> {
        let finished = self.driver.take_finished().into_iter();
        finished.map(|(request, result)| (request, result.map_err(translate::error))).collect()
    }

    fn take_news(&mut self) -> Option<Vec<Export>> {
        let events = self.driver.take_events();
        if events.is_empty() {
            return None;
        }
        events.iter().for_each(|event| self.print(event));
        translate::update(self.claim.state(), &self.driver);
        if let Err(error) = self.claim.save().context("cannot save the login's state") {
            errln!("weft srp connect: {error:#}");
        }
        Some(translate::exports(&self.driver))
    }

    fn ended(&mut self) -> Option<Result<()>> {
        let reason = self.driver.ended()?.clone();
        let device = &self.claim.state().device;
        Some(match reason {
            LostReason::Shutdown => Ok(()),
            reason => Err(anyhow::anyhow!("{device}: the login has ended: {reason}")),
        })
    }
}
