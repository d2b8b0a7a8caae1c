//! Connection of one initiator: a channel's queue pair, and the data of its commands.

use weft_client::rdmacm::{CmId, ConnParam, PeerParam};
use weft_client::verbs::{Pd, Remote};
use weft_rdma_service::limits::{COMPLAINTS_MAX, RETRIES};
use weft_rdma_service::{
    Data, Direction, Endpoint, EndpointConfig, Piece, Statistics, TransferError, Transferred, Transfers,
};
use weft_srp::limits::{REQUEST_LIMIT, RESPONSES_MAX, TARGET_IU_MAX};
use weft_srp::scsi::{Lun, Operation};
use weft_srp::wire::PortId;
use weft_srp::{ChannelEvent, CommandKey, DataMove, LoginAnswer, Response, ResponseData};
use weft_tool::errln;

use crate::limits::{DATA_MEMORY_MAX, READS_IN_PROGRESS};

/// Infinite: an initiator posts its receives before its requests, but loses time on other things.
const RNR_RETRIES: u8 = 7;

/// Operation for the threads.
#[derive(Debug)]
pub struct Job {
    /// The command.
    pub command: CommandKey,
    /// Logical unit.
    pub lun: Lun,
    /// The operation.
    pub operation: Operation,
    /// Its data.
    pub data: Data,
}

/// Event of a session for the state machine.
pub type SessionEvent = Transferred<CommandKey, Job>;

/// An initiator's connection.
#[derive(Debug)]
pub struct Session {
    /// The initiator's address, for the log.
    pub host: String,
    /// The initiator.
    pub initiator: PortId,
    transfers: Transfers<CommandKey, Job>,
    accept: ConnParam,
    complaints: u32,
}

impl Session {
    /// Prepares a connection for an initiator's request.
    pub fn new(id: &CmId, peer: &PeerParam, host: String, answer: &LoginAnswer) -> std::io::Result<Session> {
        let context = id.context()?;
        let pd = Pd::new(&context)?;
        let config = EndpointConfig {
            receives: answer.receives.into(),
            receive_bytes: answer.receive_bytes as usize,
            // Responses, a credit request, a logout.
            sends: usize::from(REQUEST_LIMIT + RESPONSES_MAX) + 1,
            send_bytes: TARGET_IU_MAX as usize,
        };
        let transfers = Transfers::new(id, &pd, config, DATA_MEMORY_MAX, "request")?;
        let reads = u8::try_from(context.query_device()?.orig_attr.max_qp_init_rd_atom).unwrap_or(u8::MAX);
        let accept = ConnParam {
            private_data: answer.accept.to_bytes().to_vec(),
            // Initiators READ nothing.
            responder_resources: 0,
            initiator_depth: peer.initiator_depth.min(reads).clamp(1, READS_IN_PROGRESS),
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        };
        Ok(Session { host, initiator: answer.initiator, transfers, accept, complaints: 0 })
    }

    /// Returns the queue pair's side of the connection.
    pub fn endpoint(&self) -> &Endpoint<CommandKey> {
        self.transfers.endpoint()
    }

    /// Returns the counters.
    pub fn statistics(&self) -> &Statistics {
        &self.transfers.statistics
    }

    /// Accepts the initiator's request. The receives are posted.
    pub fn accept(&self) -> std::io::Result<()> {
        self.endpoint().id().accept(Some(&self.accept))
    }

    /// Prints an event of the channel, up to a number of them.
    pub fn log(&mut self, event: &ChannelEvent) {
        if self.complaints >= COMPLAINTS_MAX {
            return;
        }
        self.complaints += 1;
        let last = if self.complaints == COMPLAINTS_MAX { "; no more lines about this channel" } else { "" };
        let host = &self.host;
        match event {
            ChannelEvent::Failed { opcode, sense } => {
                errln!("weft srp target: host {host}: command {opcode:#04x}: {sense}{last}");
            }
            ChannelEvent::Aborting { function, commands } => {
                let plural = if *commands == 1 { "" } else { "s" };
                let what = format!("task management function {function:#04x}: {commands} command{plural}");
                errln!("weft srp target: host {host}: {what}{last}");
            }
        }
    }

    /// Takes completions, and appends the events. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<SessionEvent>) -> Result<bool, TransferError> {
        self.transfers.poll(events)
    }

    /// Begins to fetch data of a command for the state machine.
    pub fn fetch(&mut self, key: CommandKey, from: &[weft_srp::wire::Piece]) -> Result<(), TransferError> {
        self.transfers.fetch(key, pieces(from))
    }

    /// Begins an operation. Appends [`SessionEvent::Ready`] once it has its data.
    pub fn execute(
        &mut self,
        mut job: Job,
        data: DataMove,
        events: &mut Vec<SessionEvent>,
    ) -> Result<(), TransferError> {
        let key = job.command;
        match data {
            DataMove::None => events.push(SessionEvent::Ready(job, None)),
            DataMove::Immediate(bytes) => {
                job.data = Data::Bytes(bytes);
                events.push(SessionEvent::Ready(job, None));
            }
            DataMove::Gather(from) => {
                self.transfers.begin(key, job, pieces(&from), Direction::FromPeer, events)?;
            }
            DataMove::Scatter(to) => self.transfers.begin(key, job, pieces(&to), Direction::ToPeer, events)?,
        }
        Ok(())
    }

    /// Sends a response, after its data.
    pub fn respond(&mut self, response: Response) -> Result<(), TransferError> {
        let data = match response.data {
            ResponseData::None => None,
            ResponseData::Bytes(bytes, to) => Some((bytes, pieces(&to))),
            ResponseData::Executed => {
                self.transfers.deliver(response.command)?;
                None
            }
        };
        self.transfers.respond(response.command, data, response.iu, None)
    }

    /// Forgets an aborted command.
    pub fn forget(&mut self, key: CommandKey) {
        self.transfers.forget(key);
    }

    /// Sends an information unit that is no response.
    pub fn send(&mut self, iu: Vec<u8>) -> Result<(), TransferError> {
        self.transfers.send(iu)
    }
}

/// Returns the initiator's memory as verbs name it.
fn pieces(from: &[weft_srp::wire::Piece]) -> Vec<Piece> {
    from.iter()
        .map(|piece| Piece { remote: Remote { addr: piece.address, rkey: piece.key }, length: piece.length })
        .collect()
}
