//! The descriptors of cables: what calls the daemon, and what programs get until it is on its way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weft_link::hops::{ProcessFds, SwitchEnd};

use crate::slots::ClientId;

/// All of them, by the programs' numbers.
#[derive(Debug, Default)]
pub struct CableFds {
    calls: BTreeMap<ClientId, OwnedFd>,
    programs: RefCell<BTreeMap<ClientId, ProcessFds>>,
    /// Closed ones that are still watched.
    closed: Vec<OwnedFd>,
    /// New ones that are not watched yet.
    new: Vec<ClientId>,
}

impl CableFds {
    /// Makes a cable.
    pub fn open(&mut self, client: ClientId) -> io::Result<SwitchEnd> {
        let (end, fds) = SwitchEnd::create()?;
        self.close(client);
        self.calls.insert(client, end.call().as_fd().try_clone_to_owned()?);
        self.programs.borrow_mut().insert(client, fds);
        self.new.push(client);
        Ok(end)
    }

    /// It is gone.
    pub fn close(&mut self, client: ClientId) {
        self.programs.borrow_mut().remove(&client);
        self.new.retain(|new| *new != client);
        self.closed.extend(self.calls.remove(&client));
    }

    /// What the program gets, to be sent to it.
    pub fn take_programs(&self, client: ClientId) -> Option<ProcessFds> {
        self.programs.borrow_mut().remove(&client)
    }

    /// It could not be sent yet.
    pub fn keep_programs(&self, client: ClientId, fds: ProcessFds) {
        self.programs.borrow_mut().insert(client, fds);
    }

    /// Those that are to be watched.
    pub fn take_new(&mut self) -> Vec<(ClientId, &OwnedFd)> {
        let new = std::mem::take(&mut self.new);
        new.into_iter().filter_map(|client| Some((client, self.calls.get(&client)?))).collect()
    }

    /// Those that are to be watched no longer.
    pub fn take_closed(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.closed)
    }
}
