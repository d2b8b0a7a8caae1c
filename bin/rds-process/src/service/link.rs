//! Queue pair of a connection, from the resolution of the peer's address on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Result, anyhow};
use weft_abi_types::{
    IBV_WC_REM_ACCESS_ERR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ROUTE_RESOLVED,
    RDMA_PS_TCP,
};
use weft_client::rdmacm::{CmId, ConnParam, Event, EventChannel, IdKey, lookup};
use weft_client::verbs::Remote;
use weft_rdma_service::limits::{RETRIES, SEND_DEPTH};
use weft_rdma_service::{Broken, Completed, Endpoint, EndpointConfig, Work};
use weft_rds::limits::{FRAGMENT_BYTES, RECEIVES};
use weft_rds::wire::{HEADER_LEN, PrivateData, RDS_PORT};
use weft_rds::{OperationId, OutgoingFrame, Pair, RdmaStatus};
use weft_tool::errno;

use super::memory::{LocalMemory, ProgramMemory, Transfer};
use crate::limits::{POLLS_PER_TURN, READS_MAX, STEP_MS};

/// Infinite: a host that is busy posts its receives later.
const RNR_RETRIES: u8 = 7;

/// Result of an event of the connection manager.
#[derive(Debug)]
pub enum Progress {
    /// The next step is under way.
    Continues,
    /// The connection is made; with the peer's private data, if this end asked.
    Established(Option<PrivateData>),
}

/// Event of a connection's queue pair.
#[derive(Debug)]
pub enum LinkEvent {
    /// A frame of the peer.
    Frame(Vec<u8>),
    /// A work request of an operation has completed.
    Transferred(OperationId),
}

/// A connection's queue pair. Dropping it ends the connection.
#[derive(Debug)]
pub struct Link {
    // Destroyed before the id.
    endpoint: Option<Endpoint<OperationId>>,
    is_ready: bool,
    is_passive: bool,
    id: CmId,
    /// Private data of this end.
    data: PrivateData,
    /// Token of the completions; also tells this link from others of the same pair.
    pub token: u64,
}

fn text(error: io::Error) -> anyhow::Error {
    anyhow!("{}", errno::text(&error))
}

fn broken(broken: Broken) -> anyhow::Error {
    anyhow!("{broken}")
}

impl Link {
    /// Begins to connect.
    pub fn connect(channel: &EventChannel, pair: Pair, data: PrivateData, token: u64) -> Result<Link> {
        let address = |ip: std::net::Ipv4Addr, port: u16| {
            lookup(Some(&ip.to_string()), Some(&port.to_string()), 0).map_err(|error| anyhow!("{ip}: {error}"))
        };
        let id = CmId::new(channel, RDMA_PS_TCP).map_err(text)?;
        id.resolve_addr(Some(&address(pair.local, 0)?), &address(pair.peer, RDS_PORT)?, STEP_MS).map_err(text)?;
        Ok(Link { endpoint: None, is_ready: false, is_passive: false, id, data, token })
    }

    /// Accepts a peer's request.
    pub fn accept(id: &CmId, data: PrivateData, token: u64, memory: &mut ProgramMemory) -> Result<Link> {
        let endpoint = Link::endpoint_of(id, memory).map_err(text)?;
        let link = Link { endpoint: Some(endpoint), is_ready: false, is_passive: true, id: id.clone(), data, token };
        link.id.accept(Some(&link.parameters())).map_err(text)?;
        Ok(link)
    }

    fn endpoint_of(id: &CmId, memory: &mut ProgramMemory) -> io::Result<Endpoint<OperationId>> {
        // Peers reach the regions of programs by any connection of the device.
        let pd = memory.domain(&id.context()?)?;
        let bytes = HEADER_LEN + FRAGMENT_BYTES;
        let config = EndpointConfig { receives: RECEIVES, receive_bytes: bytes, sends: SEND_DEPTH, send_bytes: bytes };
        Endpoint::new(id, &pd, config)
    }

    fn parameters(&self) -> ConnParam {
        ConnParam {
            private_data: self.data.to_bytes().to_vec(),
            responder_resources: READS_MAX,
            initiator_depth: READS_MAX,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        }
    }

    /// Key of the connection's events.
    pub fn key(&self) -> IdKey {
        self.id.key()
    }

    /// Descriptor of completions, once there is a queue pair.
    pub fn completions(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.as_ref().map(|endpoint| endpoint.as_fd())
    }

    /// Handles an event of the connection manager.
    ///
    /// # Errors
    /// The connection cannot be made, or has ended.
    pub fn on_event(&mut self, event: &Event, memory: &mut ProgramMemory) -> Result<Progress> {
        match (event.kind, self.endpoint.is_some(), self.is_ready) {
            (RDMA_CM_EVENT_ADDR_RESOLVED, false, _) => self.id.resolve_route(STEP_MS).map_err(text)?,
            (RDMA_CM_EVENT_ROUTE_RESOLVED, false, _) => {
                self.endpoint = Some(Link::endpoint_of(&self.id, memory).map_err(text)?);
                self.id.connect(&self.parameters()).map_err(text)?;
            }
            (RDMA_CM_EVENT_ESTABLISHED, true, false) => {
                self.is_ready = true;
                let peer = event.peer.as_ref().filter(|_| !self.is_passive);
                return match peer {
                    Some(peer) => Ok(Progress::Established(Some(PrivateData::parse(&peer.private_data)?))),
                    None => Ok(Progress::Established(None)),
                };
            }
            (kind, ..) => {
                let name = self.id.library().event_name(kind);
                let name = name.trim_start_matches("RDMA_CM_EVENT_").to_lowercase().replace('_', " ");
                return Err(anyhow!("{name} (status {})", event.status));
            }
        }
        Ok(Progress::Continues)
    }

    /// Whether a frame can be sent now.
    pub fn has_room(&self) -> bool {
        self.is_ready && self.endpoint.as_ref().is_some_and(|endpoint| endpoint.room() > 0)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The queue pair is of no use any more.
    pub fn send(&mut self, frame: OutgoingFrame) -> Result<()> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        let bytes = frame.bytes;
        let work = if frame.is_last {
            Work::SendSolicited(bytes)
        } else {
            Work::Send { bytes, invalidate: None, holds: None }
        };
        endpoint.post(work).map_err(broken)
    }

    /// Posts the work requests of an operation: one WRITE, or a READ for each piece of the program's memory.
    ///
    /// # Errors
    /// The queue pair is of no use any more.
    pub fn post(&mut self, transfer: &Transfer) -> Result<()> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        let operation = &transfer.operation;
        let mut remote = Remote { addr: operation.address, rkey: operation.key };
        match &transfer.memory {
            LocalMemory::Data(block) => {
                let data = block.sge(0, operation.length as usize);
                endpoint.post(Work::ReportedWrite(operation.id, data, remote)).map_err(broken)
            }
            LocalMemory::Pages(regions) => regions.iter().try_for_each(|region| {
                endpoint.post(Work::Read(operation.id, region.sge(), remote)).map_err(broken)?;
                remote.addr = remote.addr.wrapping_add(region.len() as u64);
                Ok(())
            }),
        }
    }

    /// Returns the operation that broke the queue pair, with its result.
    pub fn failed_operation(&self) -> Option<(OperationId, RdmaStatus)> {
        let (id, status) = self.endpoint.as_ref()?.failed_transfer()?;
        let is_remote = status == IBV_WC_REM_ACCESS_ERR;
        Some((id, if is_remote { RdmaStatus::RemoteError } else { RdmaStatus::OtherError }))
    }

    /// Takes the event that made the completions' descriptor readable.
    ///
    /// # Errors
    /// The queue pair is of no use any more.
    pub fn on_readable(&self) -> Result<()> {
        self.endpoint.as_ref().map_or(Ok(()), |endpoint| endpoint.on_readable().map_err(broken))
    }

    /// Takes completions, and appends their events, also those before an error. Returns whether there may be more.
    ///
    /// # Errors
    /// The queue pair is of no use any more.
    pub fn poll(&mut self, events: &mut Vec<LinkEvent>) -> Result<bool> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(false) };
        let mut completed = Vec::new();
        for _ in 0..POLLS_PER_TURN {
            let polled = endpoint.poll(&mut completed);
            for event in completed.drain(..) {
                match event {
                    Completed::Received { slot, len, .. } => {
                        let mut frame = Vec::new();
                        endpoint.take_received(slot, len, &mut frame).map_err(broken)?;
                        events.push(LinkEvent::Frame(frame));
                    }
                    Completed::Read(id) | Completed::Written(id) => events.push(LinkEvent::Transferred(id)),
                    Completed::Sent(_) => {}
                }
            }
            if !polled.map_err(broken)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.endpoint.is_some() {
            // It fails if the peer was first.
            let _ = self.id.disconnect();
        }
    }
}
