//! Data of a connection's commands, on its way between the peer's memory and registered memory of this process: fetched before
//! an operation, delivered before a response. The owner's state machine decides what is moved; this moves it, with a bound
//! on the memory that is registered at a time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io;

use weft_client::rdmacm::CmId;
use weft_client::verbs::{Buffer, Memory, Pd, Remote};
use weft_tool::errno;

use crate::endpoint::{Broken, Completed, Endpoint, EndpointConfig, Work};
use crate::pool::Pool;
use crate::statistics::Statistics;

/// Batches of completions in one turn, so that one peer does not keep the others waiting.
const POLLS_PER_TURN: usize = 8;

/// Memory of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Address and key.
    pub remote: Remote,
    /// Bytes.
    pub length: u32,
}

/// Direction of an operation's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The operation takes it from the peer.
    FromPeer,
    /// The operation leaves it for the peer.
    ToPeer,
}

/// Reason why a connection no longer works.
#[derive(Debug)]
pub enum TransferError {
    /// The queue pair.
    Broken(Broken),
    /// No memory could be registered.
    Memory(io::Error),
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransferError::Broken(broken) => write!(f, "{broken}"),
            TransferError::Memory(error) => write!(
                f,
                "memory cannot be registered: {}; raise the limit of locked memory (ulimit -l), or lower --connections",
                errno::text(error)
            ),
        }
    }
}

impl From<Broken> for TransferError {
    fn from(broken: Broken) -> TransferError {
        TransferError::Broken(broken)
    }
}

/// Event for the owner.
#[derive(Debug)]
pub enum Transferred<K, J> {
    /// A message of the peer arrived.
    Message(Vec<u8>),
    /// Data that was to be fetched is here.
    Fetched(K, Vec<u8>),
    /// An operation can run: with the memory that has its data or takes it.
    Ready(J, Option<Memory>),
}

/// Command with memory of this process.
#[derive(Debug)]
struct Open<J> {
    memory: Buffer,
    pieces: Vec<Piece>,
    length: usize,
    /// READs that have not completed.
    reads: usize,
    /// Operation that waits for its data; `None`: the owner wants the data, or the operation runs.
    job: Option<J>,
}

/// Operation that waits for memory.
#[derive(Debug)]
struct Waiting<K, J> {
    key: K,
    job: J,
    pieces: Vec<Piece>,
    length: usize,
    direction: Direction,
}

/// A connection with its commands' data. `K` names a command, `J` is an operation for threads.
#[derive(Debug)]
pub struct Transfers<K, J> {
    /// Counters.
    pub statistics: Statistics,
    endpoint: Endpoint<K>,
    pool: Pool,
    open: BTreeMap<K, Open<J>>,
    waiting: VecDeque<Waiting<K, J>>,
    /// Bytes of registered memory in use, and the most.
    used: usize,
    most: usize,
}

impl<K: Copy + Ord + Debug, J> Transfers<K, J> {
    /// Creates the queue pair of a connection request, and posts the receives. `most`: bytes of registered memory for data;
    /// one operation always fits. `request`: the protocol's word for one request.
    ///
    /// # Errors
    /// The system has no room.
    pub fn new(
        id: &CmId,
        pd: &Pd,
        config: EndpointConfig,
        most: usize,
        request: &'static str,
    ) -> io::Result<Transfers<K, J>> {
        Ok(Transfers {
            statistics: Statistics::new(request),
            endpoint: Endpoint::new(id, pd, config)?,
            pool: Pool::new(pd),
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            used: 0,
            most,
        })
    }

    /// The queue pair's side of the connection.
    pub fn endpoint(&self) -> &Endpoint<K> {
        &self.endpoint
    }

    /// Takes completions, and appends the events. Returns whether there may be more.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn poll(&mut self, events: &mut Vec<Transferred<K, J>>) -> Result<bool, TransferError> {
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

    fn on_completed(&mut self, event: Completed<K>, events: &mut Vec<Transferred<K, J>>) -> Result<(), TransferError> {
        match event {
            Completed::Received { slot, len, .. } => {
                let mut message = Vec::new();
                self.endpoint.take_received(slot, len, &mut message)?;
                events.push(Transferred::Message(message));
            }
            Completed::Read(key) => self.on_read(key, events),
            Completed::Sent(Some(memory)) => {
                self.give_back(memory);
                self.admit(events)?;
            }
            Completed::Sent(None) | Completed::Written(_) => {}
        }
        Ok(())
    }

    fn on_read(&mut self, key: K, events: &mut Vec<Transferred<K, J>>) {
        let Some(open) = self.open.get_mut(&key) else { return };
        open.reads -= 1;
        if open.reads > 0 {
            return;
        }
        self.statistics.bytes_in += open.length as u64;
        match open.job.take() {
            Some(job) => events.push(Transferred::Ready(job, Some(open.memory.memory()))),
            None => {
                let mut bytes = vec![0; open.length];
                open.memory.read(0, &mut bytes);
                // An operation of the same command may follow, with memory of its own.
                self.forget(key);
                events.push(Transferred::Fetched(key, bytes));
            }
        }
    }

    fn take(&mut self, len: usize) -> Result<Buffer, TransferError> {
        let memory = self.pool.take(len).map_err(TransferError::Memory)?;
        self.used += memory.len();
        Ok(memory)
    }

    fn give_back(&mut self, memory: Buffer) {
        self.used -= memory.len();
        self.pool.give(memory);
    }

    /// Begins to fetch data of a command for the owner.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn fetch(&mut self, key: K, pieces: Vec<Piece>) -> Result<(), TransferError> {
        let length = total(&pieces);
        let memory = self.take(length)?;
        self.read(key, Open { memory, pieces, length, reads: 0, job: None })
    }

    /// Posts the READs of a command's pieces.
    fn read(&mut self, key: K, mut open: Open<J>) -> Result<(), TransferError> {
        let mut at = 0;
        for piece in &open.pieces {
            let to = open.memory.sge(at, piece.length as usize);
            at += piece.length as usize;
            open.reads += 1;
            self.endpoint.post(Work::Read(key, to, piece.remote))?;
        }
        self.open.insert(key, open);
        Ok(())
    }

    /// Begins an operation with data. Appends [`Transferred::Ready`] once it can run.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn begin(
        &mut self,
        key: K,
        job: J,
        pieces: Vec<Piece>,
        direction: Direction,
        events: &mut Vec<Transferred<K, J>>,
    ) -> Result<(), TransferError> {
        let length = total(&pieces);
        self.waiting.push_back(Waiting { key, job, pieces, length, direction });
        self.admit(events)
    }

    /// Begins waiting operations in their order while there is memory; one always fits.
    fn admit(&mut self, events: &mut Vec<Transferred<K, J>>) -> Result<(), TransferError> {
        while let Some(next) = self.waiting.front() {
            if self.used > 0 && self.used + next.length > self.most {
                break;
            }
            let Some(Waiting { key, job, pieces, length, direction }) = self.waiting.pop_front() else { break };
            let memory = self.take(length)?;
            if direction == Direction::ToPeer {
                events.push(Transferred::Ready(job, Some(memory.memory())));
                self.open.insert(key, Open { memory, pieces, length, reads: 0, job: None });
            } else {
                self.read(key, Open { memory, pieces, length, reads: 0, job: Some(job) })?;
            }
        }
        Ok(())
    }

    /// Posts the data that an operation left, so that it arrives before the response.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn deliver(&mut self, key: K) -> Result<(), TransferError> {
        let Some(open) = self.open.get(&key) else { return Ok(()) };
        self.statistics.bytes_out += open.length as u64;
        write(&mut self.endpoint, &open.memory, &open.pieces)
    }

    /// Sends a command's response, after its data: what [`Transfers::deliver`] posted, or these bytes. `invalidate`: key of the
    /// peer that the response makes invalid.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn respond(
        &mut self,
        key: K,
        data: Option<(Vec<u8>, Vec<Piece>)>,
        response: Vec<u8>,
        invalidate: Option<u32>,
    ) -> Result<(), TransferError> {
        self.statistics.answered += 1;
        let mut holds = self.open.remove(&key).map(|open| open.memory);
        if let Some((bytes, pieces)) = data {
            if let Some(memory) = holds.take() {
                self.give_back(memory);
            }
            let memory = self.take(bytes.len())?;
            memory.write(0, &bytes);
            self.statistics.bytes_out += bytes.len() as u64;
            write(&mut self.endpoint, &memory, &pieces)?;
            holds = Some(memory);
        }
        Ok(self.endpoint.post(Work::Send { bytes: response, invalidate, holds })?)
    }

    /// Sends a message that is no response.
    ///
    /// # Errors
    /// The connection no longer works.
    pub fn send(&mut self, message: Vec<u8>) -> Result<(), TransferError> {
        Ok(self.endpoint.post(Work::Send { bytes: message, invalidate: None, holds: None })?)
    }

    /// Forgets a command whose READs have completed and that has no response.
    pub fn forget(&mut self, key: K) {
        if let Some(open) = self.open.remove(&key) {
            self.give_back(open.memory);
        }
    }
}

/// Posts RDMA WRITEs of memory to pieces of the peer.
fn write<K: Copy + Debug>(endpoint: &mut Endpoint<K>, memory: &Buffer, pieces: &[Piece]) -> Result<(), TransferError> {
    let mut at = 0;
    for piece in pieces {
        let from = memory.sge(at, piece.length as usize);
        at += piece.length as usize;
        endpoint.post(Work::Write(from, piece.remote))?;
    }
    Ok(())
}

fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.length as usize).sum()
}
