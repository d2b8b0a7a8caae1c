//! Loop of the process in the background: requests of NBD clients go to the controller, and its results to the clients.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use weft_nvme::{HostEvent, LostReason, Operation, RequestKey};
use weft_rdma_service::nbd::{NbdRequest, NbdServer, RequestName};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;
use weft_tool::errln;

use super::translate;
use crate::host::Driver;
use crate::registry::Claim;

const CONTROLLER: u64 = 0;
const CLIENTS: u64 = 1;
const SIGNALS: u64 = 2;

/// Request in progress.
#[derive(Debug)]
struct Open {
    name: RequestName,
    namespace: u32,
    then_flush: bool,
}

/// Controller and NBD server.
#[derive(Debug)]
pub struct Bridge {
    driver: Driver,
    server: NbdServer,
    claim: Claim,
    signals: SignalQueue,
    epoll: Epoll,
    open: BTreeMap<RequestKey, Open>,
    next: RequestKey,
}

impl Bridge {
    /// Creates it.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(driver: Driver, server: NbdServer, claim: Claim, signals: SignalQueue) -> Result<Bridge> {
        let epoll = Epoll::new()?;
        epoll.add(&driver, CONTROLLER, Interest::READ)?;
        epoll.add(&server, CLIENTS, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        Ok(Bridge { driver, server, claim, signals, epoll, open: BTreeMap::new(), next: 0 })
    }

    /// Serves until the controller ends.
    ///
    /// # Errors
    /// The controller ended by itself.
    pub fn run(mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            self.epoll.wait(&mut ready, self.driver.timeout())?;
            let mut requests = Vec::new();
            for event in &ready {
                match event.token {
                    CLIENTS => self.server.on_ready(&mut requests)?,
                    SIGNALS if self.signals.take().is_some() => self.driver.shutdown(),
                    _ => {}
                }
            }
            self.submit(requests);
            self.driver.turn()?;
            self.finish()?;
            self.log();
            match self.driver.ended() {
                None => {}
                Some(LostReason::Shutdown) => return Ok(()),
                Some(reason) => bail!("{}: the controller has ended: {reason}", self.claim.state().device),
            }
        }
    }

    fn submit(&mut self, requests: Vec<NbdRequest>) {
        for request in requests {
            let namespace = request.export.parse().unwrap_or(0);
            let operations = translate::operations(request.command);
            let open = Open { name: request.name, namespace, then_flush: operations.then_flush };
            self.begin(open, operations.first, operations.data);
        }
    }

    fn begin(&mut self, open: Open, operation: Operation, data: Vec<u8>) {
        let (key, namespace) = (self.next, open.namespace);
        self.next += 1;
        self.open.insert(key, open);
        self.driver.submit(key, namespace, operation, data);
    }

    /// Replies to requests that have ended. A reply may make room for further requests.
    fn finish(&mut self) -> Result<()> {
        loop {
            let finished = self.driver.take_finished();
            if finished.is_empty() {
                return Ok(());
            }
            let mut requests = Vec::new();
            for (key, result) in finished {
                let Some(open) = self.open.remove(&key) else { continue };
                if open.then_flush && result.is_ok() {
                    self.begin(Open { then_flush: false, ..open }, Operation::Flush, Vec::new());
                } else {
                    self.server.reply(open.name, result.map_err(translate::error), &mut requests)?;
                }
            }
            self.submit(requests);
        }
    }

    /// Prints what happened, and tells it to `weft nvme list`.
    fn log(&mut self) {
        let events = self.driver.take_events();
        for event in &events {
            self.print(event);
        }
        if events.is_empty() {
            return;
        }
        translate::update(self.claim.state(), &self.driver);
        self.server.set_exports(translate::exports(&self.driver));
        if let Err(error) = self.claim.save().context("cannot save the controller's state") {
            errln!("weft nvme connect: {error:#}");
        }
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
