//! Namespaces of the controller as disks of NBD clients.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use weft_nbd::{Command, Export};
use weft_nvme::{HostEvent, LostReason};
use weft_rdma_service::nbd::{DiskDriver, DiskRequest, DiskResult};
use weft_tool::errln;

use super::translate;
use crate::host::Driver;
use crate::registry::Claim;

/// Controller with its place in the registry.
#[derive(Debug)]
pub struct Namespaces {
    driver: Driver,
    claim: Claim,
}

impl Namespaces {
    /// Takes a controller that is ready.
    pub fn new(driver: Driver, claim: Claim) -> Namespaces {
        Namespaces { driver, claim }
    }

    fn print(&mut self, event: &HostEvent) {
        let device = self.claim.state().device.clone();
        let say = |text: String| errln!("weft nvme connect: {device}: {text}");
        match event {
            HostEvent::Ready { controller, io_queues, attempts: 0 } => {
                say(format!(
                    "controller {controller}, {io_queues} I/O queue{}",
                    if *io_queues == 1 { "" } else { "s" }
                ));
            }
            HostEvent::Ready { controller, attempts, .. } => {
                let plural = if *attempts == 1 { "" } else { "s" };
                say(format!("connected again as controller {controller} after {attempts} attempt{plural}"));
                self.claim.state().lost.clear();
            }
            HostEvent::Lost(reason) => {
                say(format!("connection lost: {reason}"));
                self.claim.state().lost = reason.to_string();
            }
            HostEvent::Unusable { namespace, reason } => say(format!("namespace {namespace} is not offered: {reason}")),
            HostEvent::Changed(namespace) => {
                say(format!("namespace {} has gone, or is another one now; its requests fail", namespace.id));
            }
        }
    }
}

impl AsFd for Namespaces {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.driver.as_fd()
    }
}

impl DiskDriver for Namespaces {
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
        let operations = translate::operations(command);
        self.driver.submit(request, export.parse().unwrap_or(0), operations.first, operations.data);
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
        if let Err(error) = self.claim.save().context("cannot save the controller's state") {
            errln!("weft nvme connect: {error:#}");
        }
        Some(translate::exports(&self.driver))
    }

    fn ended(&mut self) -> Option<Result<()>> {
        let reason = self.driver.ended()?.clone();
        let device = &self.claim.state().device;
        Some(match reason {
            LostReason::Shutdown => Ok(()),
            reason => Err(anyhow::anyhow!("{device}: the controller has ended: {reason}")),
        })
    }
}
