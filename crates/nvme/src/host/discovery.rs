//! Query of a discovery controller: one command at a time on its admin queue.
//!
//! ```text
//! Connect ─▶ Property Set CC ─▶ Property Get CSTS (until ready) ─▶ Get Log Page: header ─▶ whole log ─▶ done
//!                                                                        ▲                   │ generation changed
//!                                                                        └───────────────────┘
//! ```

use super::config::HostName;
use super::record::{DiscoveryLog, RECORD_LEN, header};
use crate::Status;
use crate::limits::DISCOVERY_RECORDS_MAX;
use crate::wire::{
    AdminOpcode, CONNECT_DATA_LEN, Command, Completion, ConnectData, ConnectFields, DISCOVERY_NQN, DYNAMIC_CONTROLLER,
    Descriptor, FabricsType, HostMemory, OPCODE_FABRICS, PropertyOffset,
};

/// Log page of discovery.
const LOG_DISCOVERY: u32 = 0x70;
/// CC: enable, entries of 64 and 16 bytes.
const ENABLE: u32 = 1 | 6 << 16 | 4 << 20;
/// CSTS: ready, fatal.
const READY: u64 = 1 << 0;
const FATAL: u64 = 1 << 1;
/// Reads of a log that changes meanwhile.
const TRIES_MAX: u32 = 10;

/// Next step of the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostStep {
    /// Put the data at the begin of the memory, and send the capsule.
    Send {
        /// Capsule.
        capsule: Vec<u8>,
        /// Data for the target to fetch.
        data: Vec<u8>,
    },
    /// Wait some milliseconds, then call [`DiscoverySession::repeat`].
    Wait,
    /// The log is here.
    Done(DiscoveryLog),
}

/// Failure of a query.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// A command failed.
    #[error("{0}: {1}")]
    Status(&'static str, Status),
    /// The completion is of another command.
    #[error("the target answered a command that it was not asked")]
    Unexpected,
    /// The controller reports a fatal error.
    #[error("the controller cannot be enabled")]
    Fatal,
    /// The log has too many records.
    #[error("the discovery log has {0} records; at most {DISCOVERY_RECORDS_MAX} are read")]
    TooLong(u64),
    /// The log never stays the same.
    #[error("the discovery log changed during each of {TRIES_MAX} attempts to read it")]
    Unstable,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Connect,
    Enable,
    Ready,
    Header,
    Log { generation: u64, records: usize },
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Connect => "Connect",
            Phase::Enable => "Property Set",
            Phase::Ready => "Property Get",
            Phase::Header | Phase::Log { .. } => "Get Log Page",
        }
    }
}

/// Query of a discovery controller.
#[derive(Debug)]
pub struct DiscoverySession {
    host: HostName,
    memory: HostMemory,
    entries: u16,
    phase: Phase,
    next_id: u16,
    tries: u32,
}

impl DiscoverySession {
    /// Bytes of the memory that the target writes to.
    pub const MEMORY_LEN: usize = (DISCOVERY_RECORDS_MAX + 1) * RECORD_LEN;

    /// Creates a query. `memory` has [`DiscoverySession::MEMORY_LEN`] bytes; the queue has so many entries.
    pub fn new(host: HostName, memory: HostMemory, entries: u16) -> DiscoverySession {
        DiscoverySession { host, memory, entries, phase: Phase::Connect, next_id: 0, tries: 0 }
    }

    /// Returns the first capsule.
    pub fn begin(&mut self) -> HostStep {
        self.repeat()
    }

    /// Returns the capsule of the current phase.
    pub fn repeat(&mut self) -> HostStep {
        self.next_id = self.next_id.wrapping_add(1);
        let id = self.next_id;
        let fabrics = |kind: FabricsType, offset: PropertyOffset| {
            Command::new(OPCODE_FABRICS, id, kind.0.into()).with_cdw(11, offset.0)
        };
        let (command, data) = match self.phase {
            Phase::Connect => {
                let fields = ConnectFields {
                    format: 0,
                    queue_id: 0,
                    sq_size: self.entries.saturating_sub(1),
                    disable_sq_flow: false,
                    keep_alive_ms: 0,
                };
                let data = ConnectData {
                    host_id: self.host.id,
                    controller: DYNAMIC_CONTROLLER,
                    subsystem: DISCOVERY_NQN.to_owned(),
                    host: self.host.nqn.clone(),
                };
                (fields.command(id, self.memory_of(CONNECT_DATA_LEN)), data.to_bytes().to_vec())
            }
            Phase::Enable => {
                (fabrics(FabricsType::PROPERTY_SET, PropertyOffset::CONFIGURATION).with_cdw(12, ENABLE), Vec::new())
            }
            Phase::Ready => (fabrics(FabricsType::PROPERTY_GET, PropertyOffset::STATUS), Vec::new()),
            Phase::Header => (self.log_page(id, RECORD_LEN), Vec::new()),
            Phase::Log { records, .. } => (self.log_page(id, (records + 1) * RECORD_LEN), Vec::new()),
        };
        HostStep::Send { capsule: zerocopy::IntoBytes::as_bytes(&command).to_vec(), data }
    }

    fn memory_of(&self, length: usize) -> HostMemory {
        HostMemory { length: length as u32, ..self.memory }
    }

    fn log_page(&self, id: u16, length: usize) -> Command {
        let dwords = (length / 4 - 1) as u32;
        let mut command = Command::new(AdminOpcode::GET_LOG_PAGE.0, id, 0);
        command.descriptor = Descriptor::Host(self.memory_of(length)).to_bytes();
        command.with_cdw(10, LOG_DISCOVERY | dwords << 16).with_cdw(11, dwords >> 16)
    }

    /// Handles a completion; `memory` has what the target wrote, from the begin.
    ///
    /// # Errors
    /// The query failed.
    pub fn handle_completion(&mut self, completion: &Completion, memory: &[u8]) -> Result<HostStep, HostError> {
        if completion.command_id != self.next_id {
            return Err(HostError::Unexpected);
        }
        if !completion.status.is_success() {
            return Err(HostError::Status(self.phase.name(), completion.status));
        }
        self.phase = match self.phase {
            Phase::Connect => Phase::Enable,
            Phase::Enable => Phase::Ready,
            Phase::Ready if completion.result & FATAL != 0 => return Err(HostError::Fatal),
            Phase::Ready if completion.result & READY == 0 => return Ok(HostStep::Wait),
            Phase::Ready => Phase::Header,
            Phase::Header => {
                let (generation, records) = header(memory).map_err(HostError::TooLong)?;
                Phase::Log { generation, records }
            }
            Phase::Log { generation, records } => {
                let log = DiscoveryLog::parse(memory.get(..(records + 1) * RECORD_LEN).unwrap_or(memory));
                match log {
                    Some(log) if log.generation == generation && log.records.len() == records => {
                        return Ok(HostStep::Done(log));
                    }
                    _ => self.again()?,
                }
            }
        };
        Ok(self.repeat())
    }

    fn again(&mut self) -> Result<Phase, HostError> {
        self.tries += 1;
        if self.tries >= TRIES_MAX { Err(HostError::Unstable) } else { Ok(Phase::Header) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::configuration;
    use crate::wire::ConnectRequest;
    use crate::{Action, LocalAddress, Target};
    use std::time::Duration;

    fn session() -> DiscoverySession {
        let host = HostName { nqn: "nqn.2014-08.org.nvmexpress:uuid:1".into(), id: [1; 16] };
        let memory = HostMemory { address: 0, length: 0, key: 5, invalidate: false };
        DiscoverySession::new(host, memory, 32)
    }

    #[test]
    fn a_target_answers_with_its_log() {
        let mut target = Target::new(configuration());
        let local = LocalAddress { is_ipv6: false, address: "192.0.2.1".into(), service: "4420".into() };
        let request = ConnectRequest { queue_id: 0, host_receives: 32, host_sends: 32, controller: 0 };
        target.admit(Duration::ZERO, 0, 0, local, &request.to_bytes()).expect("admitted");
        let (mut session, mut memory) = (session(), vec![0; DiscoverySession::MEMORY_LEN]);
        let mut step = session.begin();
        let log = loop {
            match step {
                HostStep::Send { capsule, data } => {
                    memory[..data.len()].copy_from_slice(&data);
                    target.handle_capsule(Duration::ZERO, 0, &capsule);
                }
                HostStep::Wait => panic!("the controller is ready at once"),
                HostStep::Done(log) => break log,
            }
            step = loop {
                match target.poll().expect("an action") {
                    Action::Fetch(key, from) => {
                        target.handle_data(Duration::ZERO, key, &memory[..from.length as usize]);
                    }
                    Action::Respond(response) => {
                        let data = response.data.map(|(bytes, _)| bytes).unwrap_or_default();
                        memory[..data.len()].copy_from_slice(&data);
                        break session.handle_completion(&response.completion, &memory).expect("a step");
                    }
                    _ => {}
                }
            };
        };
        assert_eq!((log.generation, log.records.len()), (1, 1));
        let record = &log.records[0];
        assert_eq!((record.address.as_str(), record.service.as_str(), record.subtype), ("192.0.2.1", "4420", 2));
        assert_eq!((record.subsystem.as_str(), record.rdma), ("nqn.2026-01.io.weft:disk", [1, 1, 1]));
    }

    fn completion(id: u16, status: Status, result: u64) -> Completion {
        Completion { result, sq_head: 0, command_id: id, status }
    }

    #[test]
    fn failures_are_named() {
        let mut session = session();
        session.begin();
        let refused = session.handle_completion(&completion(1, Status::CONNECT_HOST, 0), &[]);
        assert_eq!(refused, Err(HostError::Status("Connect", Status::CONNECT_HOST)));
        assert_eq!(session.handle_completion(&completion(7, Status::SUCCESS, 0), &[]), Err(HostError::Unexpected));
        session.phase = Phase::Ready;
        assert_eq!(session.handle_completion(&completion(1, Status::SUCCESS, 0), &[]), Ok(HostStep::Wait));
        assert_eq!(session.handle_completion(&completion(1, Status::SUCCESS, 2), &[]), Err(HostError::Fatal));
    }

    #[test]
    fn a_log_that_changes_is_read_again_and_a_long_one_is_refused() {
        let mut session = session();
        session.phase = Phase::Header;
        let mut memory = vec![0_u8; RECORD_LEN];
        for _ in 0..TRIES_MAX - 1 {
            memory[0] = memory[0].wrapping_add(1);
            let id = session.next_id;
            assert!(session.handle_completion(&completion(id, Status::SUCCESS, 0), &memory).is_ok());
            memory[0] = memory[0].wrapping_add(1);
            let id = session.next_id;
            assert!(session.handle_completion(&completion(id, Status::SUCCESS, 0), &memory).is_ok());
        }
        let id = session.next_id;
        assert!(session.handle_completion(&completion(id, Status::SUCCESS, 0), &memory).is_ok());
        memory[0] = memory[0].wrapping_add(1);
        let id = session.next_id;
        assert_eq!(session.handle_completion(&completion(id, Status::SUCCESS, 0), &memory), Err(HostError::Unstable));
        session.phase = Phase::Header;
        memory[10] = 1;
        let id = session.next_id;
        let error = session.handle_completion(&completion(id, Status::SUCCESS, 0), &memory);
        assert_eq!(error, Err(HostError::TooLong(1 << 16)));
    }
}
