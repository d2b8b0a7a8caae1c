//! Connection of one host: a queue's queue pair, and the data of its commands.

use weft_client::rdmacm::{CmId, ConnParam, PeerParam};
use weft_client::verbs::{Pd, Remote};
use weft_nvme::wire::HostMemory;
use weft_nvme::{Admitted, CommandKey, ControllerEvent, IoData, Operation, QueueKey, Response};
use weft_rdma_service::limits::{COMPLAINTS_MAX, RETRIES};
use weft_rdma_service::{
    Data, Direction, Endpoint, EndpointConfig, Piece, Statistics, TransferError, Transferred, Transfers,
};
use weft_tool::errln;

use crate::limits::{DATA_MEMORY_MAX, READS_IN_PROGRESS};

/// Infinite: a host posts its receives before its commands, but loses time on other things.
const RNR_RETRIES: u8 = 7;

/// Operation for the threads.
#[derive(Debug)]
pub struct Job {
    /// The command.
    pub command: CommandKey,
    /// Subsystem: index of the configuration.
    pub subsystem: usize,
    /// Namespace identifier.
    pub namespace: u32,
    /// The operation.
    pub operation: Operation,
    /// Its data.
    pub data: Data,
}

/// Event of a session for the state machines.
pub type SessionEvent = Transferred<CommandKey, Job>;

/// A host's connection.
#[derive(Debug)]
pub struct Session {
    /// Name of the host for the log: its address.
    pub host: String,
    transfers: Transfers<CommandKey, Job>,
    accept: ConnParam,
    complaints: u32,
}

impl Session {
    /// Prepares a connection for a host's request.
    pub fn new(id: &CmId, peer: &PeerParam, host: String, admitted: &Admitted) -> std::io::Result<Session> {
        let context = id.context()?;
        let pd = Pd::new(&context)?;
        let config = EndpointConfig {
            receives: admitted.receives.into(),
            receive_bytes: admitted.receive_bytes as usize,
            sends: admitted.receives.into(),
            send_bytes: weft_nvme::wire::COMPLETION_LEN,
        };
        let transfers = Transfers::new(id, &pd, config, DATA_MEMORY_MAX, "command")?;
        let reads = u8::try_from(context.query_device()?.orig_attr.max_qp_init_rd_atom).unwrap_or(u8::MAX);
        let accept = ConnParam {
            private_data: admitted.accept.to_bytes().to_vec(),
            // Hosts READ nothing.
            responder_resources: 0,
            initiator_depth: peer.initiator_depth.min(reads).clamp(1, READS_IN_PROGRESS),
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        };
        Ok(Session { host, transfers, accept, complaints: 0 })
    }

    /// Returns the queue pair's side of the connection.
    pub fn endpoint(&self) -> &Endpoint<CommandKey> {
        self.transfers.endpoint()
    }

    /// Returns the counters.
    pub fn statistics(&self) -> &Statistics {
        &self.transfers.statistics
    }

    /// Accepts the host's request. The receives are posted.
    pub fn accept(&self) -> std::io::Result<()> {
        self.endpoint().id().accept(Some(&self.accept))
    }

    /// Prints an event of the queue; failed commands up to a number of them.
    pub fn log(&mut self, queue: QueueKey, event: &ControllerEvent) {
        let host = &self.host;
        match event {
            ControllerEvent::Created { controller, subsystem, host: name } => {
                errln!("weft nvme target: host {host}: controller {controller} of {subsystem} for {name}");
            }
            ControllerEvent::Refused { subsystem, host: name, reason } => {
                errln!("weft nvme target: host {host}: Connect to {subsystem} by {name} refused: {reason}");
            }
            ControllerEvent::Failed { opcode, status } if self.complaints < COMPLAINTS_MAX => {
                self.complaints += 1;
                let last = if self.complaints == COMPLAINTS_MAX { "; no more lines about this queue" } else { "" };
                errln!("weft nvme target: host {host}: queue {queue}: command {opcode:#04x}: {status}{last}");
            }
            ControllerEvent::Failed { .. } => {}
        }
    }

    /// Takes completions, and appends the events. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<SessionEvent>) -> Result<bool, TransferError> {
        self.transfers.poll(events)
    }

    /// Begins to fetch data of a command for the state machines.
    pub fn fetch(&mut self, key: CommandKey, host: HostMemory) -> Result<(), TransferError> {
        self.transfers.fetch(key, vec![piece(&host)])
    }

    /// Begins an operation. Appends [`SessionEvent::Ready`] once it has its data.
    pub fn execute(&mut self, mut job: Job, data: IoData, events: &mut Vec<SessionEvent>) -> Result<(), TransferError> {
        match data {
            IoData::None => events.push(SessionEvent::Ready(job, None)),
            IoData::Capsule(bytes) => {
                job.data = Data::Bytes(bytes);
                events.push(SessionEvent::Ready(job, None));
            }
            IoData::Host(host) => {
                let is_read = matches!(job.operation, Operation::Read { .. });
                let direction = if is_read { Direction::ToPeer } else { Direction::FromPeer };
                self.transfers.begin(job.command, job, vec![piece(&host)], direction, events)?;
            }
        }
        Ok(())
    }

    /// Posts the data of an executed Read, so that it arrives before the response.
    pub fn on_executed(&mut self, key: CommandKey, is_read: bool) -> Result<(), TransferError> {
        if is_read { self.transfers.deliver(key) } else { Ok(()) }
    }

    /// Sends a response, after its data.
    pub fn respond(&mut self, response: Response) -> Result<(), TransferError> {
        let data = response.data.map(|(bytes, host)| (bytes, vec![piece(&host)]));
        let bytes = response.completion.to_bytes().to_vec();
        self.transfers.respond(response.command, data, bytes, response.invalidate)
    }
}

/// Returns host memory as verbs name it.
fn piece(host: &HostMemory) -> Piece {
    Piece { remote: Remote { addr: host.address, rkey: host.key }, length: host.length }
}
