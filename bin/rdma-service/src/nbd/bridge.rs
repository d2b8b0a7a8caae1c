//! Loop of a process in the background: requests of NBD clients go to the disks' driver, and its results to the clients.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Result;
use weft_nbd::{Command, ErrorCode, Export};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::signals::SignalQueue;

use super::server::{NbdRequest, NbdServer, RequestName};
use crate::read_data::ReadData;

const DRIVER: u64 = 0;
const CLIENTS: u64 = 1;
const SIGNALS: u64 = 2;

/// Name of a request on a disk.
pub type DiskRequest = u64;

/// Request that has ended; a READ with its data.
pub type DiskResult = (DiskRequest, Result<ReadData, ErrorCode>);

/// Disks of a target. The descriptor is readable when [`DiskDriver::turn`] has something to do.
pub trait DiskDriver: AsFd {
    /// Returns the time until the next [`DiskDriver::turn`] that is due without an event.
    fn timeout(&self) -> Option<Duration>;

    /// Handles what has happened, and does what is due.
    ///
    /// # Errors
    /// The process cannot go on.
    fn turn(&mut self) -> Result<()>;

    /// Begins to end.
    fn shutdown(&mut self);

    /// Takes a command for an export. Returns whether [`Command::Flush`] has to follow its success, before it is complete.
    fn submit(&mut self, request: DiskRequest, export: &str, command: Command) -> bool;

    /// Takes the requests that have ended.
    fn take_finished(&mut self) -> Vec<DiskResult>;

    /// Prints what happened, and tells it to others. Returns the exports if something did.
    fn take_news(&mut self) -> Option<Vec<Export>>;

    /// Returns how the driver has ended. `None`: it has not.
    fn ended(&mut self) -> Option<Result<()>>;
}

/// Request in progress.
#[derive(Debug)]
struct Open {
    name: RequestName,
    export: String,
    then_flush: bool,
}

/// Driver and NBD server.
#[derive(Debug)]
pub struct Bridge<D> {
    driver: D,
    server: NbdServer,
    signals: SignalQueue,
    epoll: Epoll,
    open: BTreeMap<DiskRequest, Open>,
    next: DiskRequest,
}

impl<D: DiskDriver> Bridge<D> {
    /// Creates it. The signals end it.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(driver: D, server: NbdServer, signals: SignalQueue) -> Result<Bridge<D>> {
        let epoll = Epoll::new()?;
        epoll.add(&driver, DRIVER, Interest::READ)?;
        epoll.add(&server, CLIENTS, Interest::READ)?;
        epoll.add(&signals, SIGNALS, Interest::READ)?;
        Ok(Bridge { driver, server, signals, epoll, open: BTreeMap::new(), next: 0 })
    }

    /// Serves until the driver ends.
    ///
    /// # Errors
    /// The driver ended by itself.
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
            if let Some(exports) = self.driver.take_news() {
                self.server.set_exports(exports);
            }
            if let Some(ended) = self.driver.ended() {
                return ended;
            }
        }
    }

    fn submit(&mut self, requests: Vec<NbdRequest>) {
        for request in requests {
            self.begin(request.name, request.export, request.command);
        }
    }

    fn begin(&mut self, name: RequestName, export: String, command: Command) {
        let key = self.next;
        self.next += 1;
        let then_flush = self.driver.submit(key, &export, command);
        self.open.insert(key, Open { name, export, then_flush });
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
                    self.begin(open.name, open.export, Command::Flush);
                } else {
                    self.server.reply(open.name, result, &mut requests)?;
                }
            }
            self.submit(requests);
        }
    }
}
