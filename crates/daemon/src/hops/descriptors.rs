//! Descriptors of packet channels: the daemon's wake-up descriptors, and the programs' ends until they are sent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weft_link::hops::{ProcessFds, SwitchEnd};

use crate::slots::ClientId;

/// The descriptors of all packet channels, by the programs' numbers.
#[derive(Debug, Default)]
pub struct PacketChannelFds {
    calls: BTreeMap<ClientId, OwnedFd>,
    programs: RefCell<BTreeMap<ClientId, ProcessFds>>,
    /// Closed ones that epoll still watches.
    closed: Vec<OwnedFd>,
    /// New ones that epoll does not watch yet.
    new: Vec<ClientId>,
}

impl PacketChannelFds {
    /// Makes a packet channel.
    pub fn open(&mut self, client: ClientId) -> io::Result<SwitchEnd> {
        let (end, fds) = SwitchEnd::create()?;
        self.close(client);
        self.calls.insert(client, end.call().as_fd().try_clone_to_owned()?);
        self.programs.borrow_mut().insert(client, fds);
        self.new.push(client);
        Ok(end)
    }

    /// Closes a packet channel.
    pub fn close(&mut self, client: ClientId) {
        self.programs.borrow_mut().remove(&client);
        self.new.retain(|new| *new != client);
        self.closed.extend(self.calls.remove(&client));
    }

    /// Takes the program's descriptors, to send them.
    pub fn take_programs(&self, client: ClientId) -> Option<ProcessFds> {
        self.programs.borrow_mut().remove(&client)
    }

    /// Puts back descriptors that could not be sent yet.
    pub fn keep_programs(&self, client: ClientId, fds: ProcessFds) {
        self.programs.borrow_mut().insert(client, fds);
    }

    /// Returns the descriptors to start watching.
    pub fn take_new(&mut self) -> Vec<(ClientId, &OwnedFd)> {
        let new = std::mem::take(&mut self.new);
        new.into_iter().filter_map(|client| Some((client, self.calls.get(&client)?))).collect()
    }

    /// Returns the descriptors to stop watching.
    pub fn take_closed(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.closed)
    }
}
