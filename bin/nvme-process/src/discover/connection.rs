//! Connection to a target's admin queue. One command is in progress at a time.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weft_abi_types::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, RDMA_CM_EVENT_ADDR_RESOLVED,
    RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_TCP,
};
use weft_client::Which;
use weft_client::rdmacm::{CmId, ConnParam, EventChannel, lookup, readable};
use weft_client::verbs::{Buffer, Pd};
use weft_nvme::DiscoverySession;
use weft_nvme::wire::{COMMAND_LEN, COMPLETION_LEN, Completion, ConnectRequest, HostMemory};
use weft_rdma_service::limits::RETRIES;
use weft_rdma_service::{Completed, Endpoint, EndpointConfig, Work};
use weft_tool::errno;

use crate::failure::event_failure;
use crate::limits::READS_IN_PROGRESS;

/// Entries of the queue: the fewest that an admin queue has.
const ENTRIES: u16 = 32;
/// Time limit of one step of the connection manager, in milliseconds.
const STEP_MS: i32 = 2000;
/// Infinite: a target posts its receives before it accepts, but loses time on other things.
const RNR_RETRIES: u8 = 7;

/// Connection. Dropping it ends the connection.
#[derive(Debug)]
pub struct Connection {
    // Destroyed before the memory that the target writes to.
    endpoint: Endpoint<()>,
    memory: Buffer,
    channel: EventChannel,
    id: CmId,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The target cannot be reached, or refuses.
    pub fn open(which: Which, address: &str, service: u16, until: Instant) -> Result<Connection> {
        let text = |error: std::io::Error| anyhow::anyhow!("{}", errno::text(&error));
        let channel = weft_rdma_service::channel(which)?;
        let address =
            lookup(Some(address), Some(&service.to_string()), 0).map_err(|error| anyhow::anyhow!("{error}"))?;
        let id = CmId::new(&channel, RDMA_PS_TCP).map_err(text)?;
        id.resolve_addr(None, &address, STEP_MS).map_err(text)?;
        expect(&channel, RDMA_CM_EVENT_ADDR_RESOLVED, until)?;
        id.resolve_route(STEP_MS).map_err(text)?;
        expect(&channel, RDMA_CM_EVENT_ROUTE_RESOLVED, until)?;
        let pd = Pd::new(&id.context().map_err(text)?).map_err(text)?;
        let config = EndpointConfig {
            receives: ENTRIES.into(),
            receive_bytes: COMPLETION_LEN,
            sends: ENTRIES.into(),
            send_bytes: COMMAND_LEN,
        };
        let endpoint = Endpoint::new(&id, &pd, config).map_err(text)?;
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        let memory = Buffer::new(&pd, DiscoverySession::MEMORY_LEN, access, false).map_err(text)?;
        let reads =
            u8::try_from(pd.context().query_device().map_err(text)?.orig_attr.max_qp_rd_atom).unwrap_or(u8::MAX);
        let request = ConnectRequest { queue_id: 0, host_receives: ENTRIES, host_sends: ENTRIES, controller: 0 };
        id.connect(&ConnParam {
            private_data: request.to_bytes().to_vec(),
            // The target READs, and this end does not.
            responder_resources: reads.clamp(1, READS_IN_PROGRESS),
            initiator_depth: 0,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        })
        .map_err(text)?;
        expect(&channel, RDMA_CM_EVENT_ESTABLISHED, until)?;
        Ok(Connection { endpoint, memory, channel, id })
    }

    /// Returns the memory that the target reaches.
    pub fn memory(&self) -> HostMemory {
        let (address, length) = (self.memory.addr(), self.memory.len() as u32);
        HostMemory { address, length, key: self.memory.rkey(), invalidate: false }
    }

    /// Returns the number of entries of the queue.
    pub fn entries(&self) -> u16 {
        ENTRIES
    }

    /// Sends a capsule, and returns its completion with the memory's bytes.
    ///
    /// # Errors
    /// The connection broke, or no answer came in time.
    pub fn exchange(&mut self, capsule: Vec<u8>, data: &[u8], until: Instant) -> Result<(Completion, Vec<u8>)> {
        self.memory.write(0, data);
        let broken = |broken: weft_rdma_service::Broken| anyhow::anyhow!("{broken}");
        self.endpoint.post(Work::Send { bytes: capsule, invalidate: None, holds: None }).map_err(broken)?;
        let mut completed = Vec::new();
        loop {
            self.endpoint.poll(&mut completed).map_err(broken)?;
            for event in completed.drain(..) {
                if let Completed::Received { slot, len, .. } = event {
                    let mut bytes = Vec::new();
                    self.endpoint.take_received(slot, len, &mut bytes).map_err(broken)?;
                    let completion = Completion::parse(&bytes).context("the target sent a short completion")?;
                    let mut memory = vec![0; self.memory.len()];
                    self.memory.read(0, &mut memory);
                    return Ok((completion, memory));
                }
            }
            self.wait(until)?;
        }
    }

    /// Waits for completions.
    fn wait(&self, until: Instant) -> Result<()> {
        use std::os::fd::AsFd;
        let fds = [self.endpoint.as_fd().as_raw_fd(), self.channel.fd()];
        let ready = readable(&fds, Some(left_ms(until)))?;
        match ready.as_slice() {
            [true, _] => self.endpoint.on_readable().map_err(|broken| anyhow::anyhow!("{broken}")),
            [_, true] => bail!(event_failure(&self.channel.next()?)),
            _ if Instant::now() >= until => bail!("no answer in time"),
            _ => Ok(()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It fails if the target was first.
        let _ = self.id.disconnect();
    }
}

/// Waits for an event.
fn expect(channel: &EventChannel, kind: u32, until: Instant) -> Result<()> {
    if !readable(&[channel.fd()], Some(left_ms(until)))?.contains(&true) {
        bail!("no answer in time");
    }
    let event = channel.next()?;
    if event.kind == kind { Ok(()) } else { bail!(event_failure(&event)) }
}

/// Returns the time left, in milliseconds.
fn left_ms(until: Instant) -> u32 {
    let left = until.saturating_duration_since(Instant::now());
    u32::try_from(left.max(Duration::from_millis(1)).as_millis()).unwrap_or(u32::MAX)
}
