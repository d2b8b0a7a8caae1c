//! Connection of an initiator to its target, from the resolution of the address on, with the memory that commands lend.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_abi_types::{
    AF_IB, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ESTABLISHED,
    RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_IB, RDMA_PS_TCP,
};
use weft_client::rdmacm::{CmId, ConnParam, Event, EventChannel, IdKey, SockAddr};
use weft_client::verbs::Pd;
use weft_tool::errno;

use crate::endpoint::{Broken, Completed, Endpoint, EndpointConfig, Work};
use crate::lending::{EndedLoan, Lender, Loan};
use crate::limits::{CM_STEP_MS, PEER_READS_MAX, POLLS_PER_TURN, RETRIES};

/// Infinite: a target posts its receives before it accepts, but loses time on other things.
const RNR_RETRIES: u8 = 7;
/// Requests of a command: the bind of its window, and its SEND.
const ROOM_OF_COMMAND: usize = 2;

/// Name of a command: chosen by the owner, and unique among those in progress on the connection.
pub type LoanName = u64;

/// Message of the target, and the key that its SEND invalidated.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub bytes: Vec<u8>,
    /// The key.
    pub invalidated: Option<u32>,
}

/// Memory that the target reaches.
#[derive(Clone, Copy, Debug)]
pub struct LentMemory {
    /// Address.
    pub address: u64,
    /// Key.
    pub key: u32,
    /// Whether the target may invalidate the key.
    pub invalidate: bool,
}

/// Sizes and private data of a connection, and the words for its failures.
#[derive(Clone, Debug)]
pub struct ConnectionRequest {
    /// Sizes.
    pub sizes: EndpointConfig,
    /// Private data for the target.
    pub private_data: Vec<u8>,
    /// Returns the reason for which an event ends the connection.
    pub failure: fn(&Event) -> String,
}

/// Queue pair and memory of a connection.
#[derive(Debug)]
struct Parts {
    endpoint: Endpoint<()>,
    lender: Lender,
    /// Memory of commands in progress.
    loans: BTreeMap<LoanName, Loan>,
}

/// Connection to the target. Dropping it ends the connection.
#[derive(Debug)]
pub struct ActiveConnection {
    // Destroyed before the id.
    parts: Option<Parts>,
    is_ready: bool,
    id: CmId,
    request: ConnectionRequest,
}

fn text(error: io::Error) -> String {
    errno::text(&error)
}

fn broken(broken: Broken) -> String {
    broken.to_string()
}

impl ActiveConnection {
    /// Begins to connect.
    ///
    /// # Errors
    /// There is no such address.
    pub fn start(
        channel: &EventChannel,
        target: &SockAddr,
        request: ConnectionRequest,
    ) -> Result<ActiveConnection, String> {
        let port_space = if target.family() == AF_IB { RDMA_PS_IB } else { RDMA_PS_TCP };
        let id = CmId::new(channel, port_space).map_err(text)?;
        id.resolve_addr(None, target, CM_STEP_MS).map_err(text)?;
        Ok(ActiveConnection { parts: None, is_ready: false, id, request })
    }

    /// Key of the connection's events.
    pub fn key(&self) -> IdKey {
        self.id.key()
    }

    /// Descriptor of completions, once the connection is there.
    pub fn completions(&self) -> Option<BorrowedFd<'_>> {
        self.parts.as_ref().map(|parts| parts.endpoint.as_fd())
    }

    /// Handles an event of the connection manager. Returns the target's private data if the connection is made now.
    ///
    /// # Errors
    /// The connection cannot be made, or has ended.
    pub fn on_event(&mut self, event: &Event) -> Result<Option<Vec<u8>>, String> {
        match (event.kind, self.parts.is_some(), self.is_ready) {
            (RDMA_CM_EVENT_ADDR_RESOLVED, false, _) => self.id.resolve_route(CM_STEP_MS).map_err(text).map(|()| None),
            (RDMA_CM_EVENT_ROUTE_RESOLVED, false, _) => {
                self.parts = Some(self.connect().map_err(text)?);
                Ok(None)
            }
            (RDMA_CM_EVENT_ESTABLISHED, true, false) => {
                self.is_ready = true;
                Ok(Some(event.peer.as_ref().map(|peer| peer.private_data.to_vec()).unwrap_or_default()))
            }
            _ => Err((self.request.failure)(event)),
        }
    }

    fn connect(&self) -> io::Result<Parts> {
        let pd = Pd::new(&self.id.context()?)?;
        let endpoint = Endpoint::new(&self.id, &pd, self.request.sizes)?;
        let lender = Lender::new(&pd)?;
        let reads = u8::try_from(pd.context().query_device()?.orig_attr.max_qp_rd_atom).unwrap_or(u8::MAX);
        self.id.connect(&ConnParam {
            private_data: self.request.private_data.clone(),
            // The target READs, and this end does not.
            responder_resources: reads.clamp(1, PEER_READS_MAX),
            initiator_depth: 0,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        })?;
        Ok(Parts { endpoint, lender, loans: BTreeMap::new() })
    }

    /// Whether the send queue has room for a command.
    pub fn has_room(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.endpoint.room() >= ROOM_OF_COMMAND)
    }

    /// Lends memory for a command: with these bytes, for the target to read, or for `length` bytes that it writes.
    ///
    /// # Errors
    /// No memory can be registered.
    pub fn lend(&mut self, command: LoanName, bytes: Option<&[u8]>, length: u32) -> Result<LentMemory, String> {
        let parts = self.parts.as_mut().ok_or("the connection has ended")?;
        let access = if bytes.is_some() { IBV_ACCESS_REMOTE_READ } else { IBV_ACCESS_REMOTE_WRITE };
        let advice = "raise the limit of locked memory (ulimit -l)";
        let lent = parts.lender.lend(length as usize, access);
        let mut loan = lent.map_err(|error| format!("memory cannot be registered: {}; {advice}", text(error)))?;
        if let Some(bytes) = bytes {
            loan.memory().write(0, bytes);
        }
        loan.bind(&mut parts.endpoint).map_err(broken)?;
        let invalidate = parts.lender.takes_invalidation();
        let memory = LentMemory { address: loan.address(), key: loan.key(), invalidate };
        parts.loans.insert(command, loan);
        Ok(memory)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        let parts = self.parts.as_mut().ok_or("the connection has ended")?;
        parts.endpoint.post(Work::Send { bytes, invalidate: None, holds: None }).map_err(broken)
    }

    /// Takes memory of a command back: the target can no longer reach it.
    pub fn release(&mut self, command: LoanName, is_invalid: bool) {
        drop(self.take(command, is_invalid, 0));
    }

    /// Takes memory of a command back with `length` bytes that the target left in it, and can no longer reach. `None`: the command
    /// has lent nothing.
    pub fn take(&mut self, command: LoanName, is_invalid: bool, length: u32) -> Option<EndedLoan> {
        let parts = self.parts.as_mut()?;
        let mut loan = parts.loans.remove(&command)?;
        if is_invalid {
            loan.invalidated();
        }
        Some(parts.lender.end(loan, length as usize))
    }

    /// Takes the event that made the descriptor of completions readable.
    ///
    /// # Errors
    /// The connection broke.
    pub fn on_readable(&self) -> Result<(), String> {
        self.parts.as_ref().map_or(Ok(()), |parts| parts.endpoint.on_readable().map_err(broken))
    }

    /// Takes completions, and appends the target's messages. Returns whether there may be more.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll(&mut self, received: &mut Vec<Received>) -> Result<bool, String> {
        let Some(parts) = &mut self.parts else { return Ok(false) };
        let mut completed = Vec::new();
        for _ in 0..POLLS_PER_TURN {
            let has_more = parts.endpoint.poll(&mut completed).map_err(broken)?;
            for event in completed.drain(..) {
                if let Completed::Received { slot, len, invalidated } = event {
                    let mut bytes = Vec::new();
                    parts.endpoint.take_received(slot, len, &mut bytes).map_err(broken)?;
                    received.push(Received { bytes, invalidated });
                }
            }
            if !has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for ActiveConnection {
    fn drop(&mut self) {
        if self.is_ready {
            // It fails if the target was first.
            let _ = self.id.disconnect();
        }
    }
}
