//! Connection of one host: a queue's queue pair, and the data of its commands.

use std::collections::{BTreeMap, VecDeque};

use weft_client::rdmacm::{CmId, ConnParam, PeerParam};
use weft_client::verbs::{Buffer, Pd, Remote};
use weft_nvme::wire::HostMemory;
use weft_nvme::{Admitted, CommandKey, ControllerEvent, IoData, Operation, QueueKey, Response};
use weft_rdma_service::{Broken, Completed, Endpoint, EndpointConfig, Pool, Statistics, Work};
use weft_tool::{errln, errno};

use super::store::Data;
use crate::limits::{COMPLAINTS_MAX, DATA_MEMORY_MAX, READS_IN_PROGRESS};

/// Infinite: a host posts its receives before its commands, but loses time on other things.
const RNR_RETRIES: u8 = 7;
const RETRIES: u8 = 7;
/// Batches of completions in one turn, so that one host does not keep the others waiting.
const POLLS_PER_TURN: usize = 8;

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

/// Reason why a connection no longer works.
#[derive(Debug)]
pub enum SessionError {
    /// The queue pair.
    Broken(Broken),
    /// No memory could be registered.
    Memory(std::io::Error),
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SessionError::Broken(broken) => write!(f, "{broken}"),
            SessionError::Memory(error) => write!(
                f,
                "memory cannot be registered: {}; raise the limit of locked memory (ulimit -l), or lower --connections",
                errno::text(error)
            ),
        }
    }
}

impl From<Broken> for SessionError {
    fn from(broken: Broken) -> SessionError {
        SessionError::Broken(broken)
    }
}

/// Event of a session for the state machines.
#[derive(Debug)]
pub enum SessionEvent {
    /// A capsule arrived.
    Capsule(Vec<u8>),
    /// Data that was to be fetched is here.
    Fetched(CommandKey, Vec<u8>),
    /// An operation has its data and can run.
    Ready(Job),
}

/// Command with memory of this process.
#[derive(Debug)]
struct OpenData {
    memory: Buffer,
    host: HostMemory,
    /// Operation that waits for its data; `None`: the state machines want the data, or the operation runs.
    job: Option<Job>,
    /// Whether the data goes to the host.
    is_read: bool,
}

/// A host's connection.
#[derive(Debug)]
pub struct Session {
    /// Name of the host for the log: its address.
    pub host: String,
    /// Counters.
    pub statistics: Statistics,
    endpoint: Endpoint<CommandKey>,
    pool: Pool,
    accept: ConnParam,
    open: BTreeMap<CommandKey, OpenData>,
    /// Operations that wait for memory.
    waiting: VecDeque<(Job, HostMemory)>,
    /// Bytes of registered memory in use.
    memory_used: usize,
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
        let endpoint = Endpoint::new(id, &pd, config)?;
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
        Ok(Session {
            host,
            statistics: Statistics::new("command"),
            endpoint,
            pool: Pool::new(&pd),
            accept,
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            memory_used: 0,
            complaints: 0,
        })
    }

    /// Returns the queue pair's side of the connection.
    pub fn endpoint(&self) -> &Endpoint<CommandKey> {
        &self.endpoint
    }

    /// Accepts the host's request. The receives are posted.
    pub fn accept(&self) -> std::io::Result<()> {
        self.endpoint.id().accept(Some(&self.accept))
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
    pub fn poll(&mut self, events: &mut Vec<SessionEvent>) -> Result<bool, SessionError> {
        let mut completed = Vec::new();
        for _ in 0..POLLS_PER_TURN {
            let has_more = self.endpoint.poll(&mut completed)?;
            for event in completed.drain(..) {
                self.on_completed(event, events)?;
            }
            if !has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn on_completed(
        &mut self,
        event: Completed<CommandKey>,
        events: &mut Vec<SessionEvent>,
    ) -> Result<(), SessionError> {
        match event {
            Completed::Received { slot, len, .. } => {
                let mut capsule = Vec::new();
                self.endpoint.take_received(slot, len, &mut capsule)?;
                events.push(SessionEvent::Capsule(capsule));
            }
            Completed::Read(key) => {
                let Some(open) = self.open.get_mut(&key) else { return Ok(()) };
                self.statistics.bytes_in += u64::from(open.host.length);
                match open.job.take() {
                    Some(job) => events.push(SessionEvent::Ready(job)),
                    None => {
                        let mut bytes = vec![0; open.host.length as usize];
                        open.memory.read(0, &mut bytes);
                        events.push(SessionEvent::Fetched(key, bytes));
                    }
                }
            }
            Completed::Sent(memory) => {
                if let Some(memory) = memory {
                    self.give_back(memory);
                    self.admit(events)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, len: u32) -> Result<Buffer, SessionError> {
        let memory = self.pool.take(len as usize).map_err(SessionError::Memory)?;
        self.memory_used += memory.len();
        Ok(memory)
    }

    fn give_back(&mut self, memory: Buffer) {
        self.memory_used -= memory.len();
        self.pool.give(memory);
    }

    /// Begins to fetch data of a command for the state machines.
    pub fn fetch(&mut self, key: CommandKey, host: HostMemory) -> Result<(), SessionError> {
        let memory = self.take(host.length)?;
        self.read(key, OpenData { memory, host, job: None, is_read: false })
    }

    fn read(&mut self, key: CommandKey, open: OpenData) -> Result<(), SessionError> {
        let piece = open.memory.sge(0, open.host.length as usize);
        let from = remote(&open.host);
        self.open.insert(key, open);
        Ok(self.endpoint.post(Work::Read(key, piece, from))?)
    }

    /// Begins an operation. Appends [`SessionEvent::Ready`] once it has its data.
    pub fn execute(&mut self, mut job: Job, data: IoData, events: &mut Vec<SessionEvent>) -> Result<(), SessionError> {
        match data {
            IoData::None => events.push(SessionEvent::Ready(job)),
            IoData::Capsule(bytes) => {
                job.data = Data::Bytes(bytes);
                events.push(SessionEvent::Ready(job));
            }
            IoData::Host(host) => {
                self.waiting.push_back((job, host));
                self.admit(events)?;
            }
        }
        Ok(())
    }

    /// Begins waiting operations in their order while there is memory; one always fits.
    fn admit(&mut self, events: &mut Vec<SessionEvent>) -> Result<(), SessionError> {
        while let Some((_, host)) = self.waiting.front() {
            if self.memory_used > 0 && self.memory_used + host.length as usize > DATA_MEMORY_MAX {
                break;
            }
            let Some((mut job, host)) = self.waiting.pop_front() else { break };
            let memory = self.take(host.length)?;
            job.data = Data::Registered(memory.memory());
            let key = job.command;
            let is_read = matches!(job.operation, Operation::Read { .. });
            if is_read {
                self.open.insert(key, OpenData { memory, host, job: None, is_read });
                events.push(SessionEvent::Ready(job));
            } else {
                self.read(key, OpenData { memory, host, job: Some(job), is_read })?;
            }
        }
        Ok(())
    }

    /// Posts the data of an executed Read, so that it arrives before the response.
    pub fn on_executed(&mut self, key: CommandKey, is_success: bool) -> Result<(), SessionError> {
        let Some(open) = self.open.get(&key).filter(|open| open.is_read && is_success) else { return Ok(()) };
        let piece = open.memory.sge(0, open.host.length as usize);
        self.statistics.bytes_out += u64::from(open.host.length);
        Ok(self.endpoint.post(Work::Write(piece, remote(&open.host)))?)
    }

    /// Sends a response, after its data.
    pub fn respond(&mut self, response: Response) -> Result<(), SessionError> {
        self.statistics.answered += 1;
        let mut holds = self.open.remove(&response.command).map(|open| open.memory);
        if let Some((bytes, host)) = response.data {
            if let Some(memory) = holds.take() {
                self.give_back(memory);
            }
            let memory = self.take(host.length)?;
            memory.write(0, &bytes);
            self.statistics.bytes_out += bytes.len() as u64;
            self.endpoint.post(Work::Write(memory.sge(0, bytes.len()), remote(&host)))?;
            holds = Some(memory);
        }
        let bytes = response.completion.to_bytes().to_vec();
        Ok(self.endpoint.post(Work::Send { bytes, invalidate: response.invalidate, holds })?)
    }
}

/// Returns host memory as verbs name it.
fn remote(host: &HostMemory) -> Remote {
    Remote { addr: host.address, rkey: host.key }
}
