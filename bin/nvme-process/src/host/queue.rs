//! Queue of a controller: one connection to the target.

use std::os::fd::BorrowedFd;

use weft_client::rdmacm::{Event, EventChannel, IdKey, SockAddr};
use weft_nvme::wire::{COMPLETION_LEN, ConnectRequest, HostMemory};
use weft_rdma_service::{ActiveConnection, ConnectionRequest, EndedLoan, EndpointConfig, Received};

use crate::failure::event_failure;

/// Connection to the target. Dropping it ends the connection.
#[derive(Debug)]
pub struct Queue {
    connection: ActiveConnection,
    number: u16,
}

impl Queue {
    /// Begins to connect.
    ///
    /// # Errors
    /// There is no such address.
    pub fn start(
        channel: &EventChannel,
        target: &SockAddr,
        request: ConnectRequest,
        capsule_bytes: u32,
    ) -> Result<Queue, String> {
        let connection = ConnectionRequest {
            sizes: EndpointConfig {
                receives: request.host_receives.into(),
                receive_bytes: COMPLETION_LEN,
                sends: request.host_sends.into(),
                send_bytes: capsule_bytes as usize,
            },
            private_data: request.to_bytes().to_vec(),
            failure: event_failure,
        };
        let connection = ActiveConnection::start(channel, target, connection)?;
        Ok(Queue { connection, number: request.queue_id })
    }

    /// Key of the connection's events.
    pub fn key(&self) -> IdKey {
        self.connection.key()
    }

    /// Number of the queue.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Descriptor of completions, once the connection is there.
    pub fn completions(&self) -> Option<BorrowedFd<'_>> {
        self.connection.completions()
    }

    /// Handles an event of the connection manager. Returns whether the connection is made now.
    ///
    /// # Errors
    /// The connection cannot be made, or has ended.
    pub fn on_event(&mut self, event: &Event) -> Result<bool, String> {
        self.connection.on_event(event).map(|made| made.is_some())
    }

    /// Whether the send queue has room for a command.
    pub fn has_room(&self) -> bool {
        self.connection.has_room()
    }

    /// Lends memory for a command: with these bytes, for the target to read, or for `length` bytes that it writes.
    ///
    /// # Errors
    /// No memory can be registered.
    pub fn lend(&mut self, command: u16, bytes: Option<&[u8]>, length: u32) -> Result<HostMemory, String> {
        let lent = self.connection.lend(command.into(), bytes, length)?;
        Ok(HostMemory { address: lent.address, length, key: lent.key, invalidate: lent.invalidate })
    }

    /// Sends a capsule.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        self.connection.send(bytes)
    }

    /// Takes memory of a command back: the target can no longer reach it.
    pub fn release(&mut self, command: u16, is_invalid: bool) {
        self.connection.release(command.into(), is_invalid);
    }

    /// Takes memory of a command back with the bytes that the target left in it.
    pub fn take(&mut self, command: u16, is_invalid: bool, length: u32) -> Option<EndedLoan> {
        self.connection.take(command.into(), is_invalid, length)
    }

    /// Takes the event that made the descriptor of completions readable.
    ///
    /// # Errors
    /// The connection broke.
    pub fn on_readable(&self) -> Result<(), String> {
        self.connection.on_readable()
    }

    /// Takes completions, and appends the target's capsules. Returns whether there may be more.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll(&mut self, received: &mut Vec<Received>) -> Result<bool, String> {
        self.connection.poll(received)
    }
}
