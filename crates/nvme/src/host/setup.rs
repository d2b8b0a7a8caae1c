//! Setup of a controller: from the first connection to the list of namespaces. One command is in progress at a time.
//!
//! ```text
//! open admin queue ─▶ Connect ─▶ CAP ─▶ CC.EN ─▶ CSTS (until ready) ─▶ Identify Controller ─▶ Set Features: queues
//!        ┌──────────────────────────────────────────────────────────────────────────────────────────┘
//!        └▶ for each I/O queue: open, Connect ─▶ list of namespaces ─▶ for each: Identify, identifiers ─▶ done
//! ```

use std::time::Duration;

use super::action::{CommandData, ConnectRefusal, Content, LostReason};
use super::breach::Breach;
use super::config::HostConfig;
use super::identity::{Capabilities, ControllerInfo, NamespaceInfo, PAGE_LEN, namespace_list, queue_entries};
use crate::Status;
use crate::limits::{ADMIN_QUEUE_ENTRIES, READY_POLLS_EVERY};
use crate::wire::{
    AdminOpcode, COMMAND_LEN, CONNECT_DATA_LEN, Command, Completion, ConnectData, ConnectFields, ConnectRequest,
    DYNAMIC_CONTROLLER, FabricsType, HostMemory, OPCODE_FABRICS, PropertyOffset,
};

/// CC: enable; entries of 64 and 16 bytes.
const ENABLE: u32 = 1 | 6 << 16 | 4 << 20;
/// CC: shutdown notification.
const SHUTDOWN: u32 = 1 << 14;
/// CSTS: ready, fatal, shutdown complete.
const READY: u64 = 1 << 0;
const FATAL: u64 = 1 << 1;
const SHUTDOWN_STATUS: u64 = 3 << 2;
const SHUTDOWN_COMPLETE: u64 = 2 << 2;
/// Set Features: number of queues.
const FEATURE_QUEUES: u32 = 0x07;
/// Values of Identify's CNS.
const CNS_NAMESPACE: u32 = 0x00;
const CNS_CONTROLLER: u32 = 0x01;
const CNS_ACTIVE_NAMESPACES: u32 = 0x02;
const CNS_UNIQUE_IDS: u32 = 0x03;
/// Bits of Identify Controller's type: a discovery controller.
const TYPE_AT: usize = 111;
const TYPE_DISCOVERY: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Open(u16),
    Connect(u16),
    Capabilities,
    Enable,
    Ready,
    Identify,
    Queues,
    List,
    Namespace(usize),
    Ids(usize),
    Done,
}

/// Next step of the setup.
#[derive(Clone, Debug)]
pub enum SetupStep {
    /// Connect a queue pair.
    Open {
        /// Private data of the request.
        request: ConnectRequest,
        /// Bytes of the longest capsule.
        capsule_bytes: u32,
    },
    /// Send a command on a queue.
    Command(u16, Command, CommandData),
    /// The controller is ready.
    Done,
}

/// Setup of a controller, and what it found.
#[derive(Debug)]
pub struct Setup {
    step: Step,
    controller: u16,
    capabilities: Option<Capabilities>,
    info: Option<ControllerInfo>,
    granted: u16,
    listed: Vec<u32>,
    namespaces: Vec<NamespaceInfo>,
    unusable: Vec<(u32, &'static str)>,
    /// Time at which the controller has to be ready.
    ready_by: Option<Duration>,
}

impl Setup {
    /// Begins with the admin queue.
    pub fn new() -> Setup {
        Setup {
            step: Step::Open(0),
            controller: DYNAMIC_CONTROLLER,
            capabilities: None,
            info: None,
            granted: 0,
            listed: Vec::new(),
            namespaces: Vec::new(),
            unusable: Vec::new(),
            ready_by: None,
        }
    }

    /// Identifier of the controller.
    pub fn controller(&self) -> u16 {
        self.controller
    }

    /// I/O queues that the controller grants.
    pub fn granted(&self) -> u16 {
        self.granted
    }

    /// Controller, once it is identified.
    pub fn info(&self) -> Option<&ControllerInfo> {
        self.info.as_ref()
    }

    /// Takes namespaces that can be used, and others with the reason.
    pub fn take_namespaces(&mut self) -> (Vec<NamespaceInfo>, Vec<(u32, &'static str)>) {
        (std::mem::take(&mut self.namespaces), std::mem::take(&mut self.unusable))
    }

    /// Returns the entries of a queue.
    pub fn entries(&self, queue: u16, config: &HostConfig) -> u16 {
        match (queue, &self.capabilities, &self.info) {
            (1.., Some(capabilities), Some(info)) => queue_entries(config.entries(), capabilities, info.commands_max),
            _ => ADMIN_QUEUE_ENTRIES,
        }
    }

    /// Smallest page of the controller, as CC names it.
    fn page_bits(&self) -> u32 {
        self.capabilities.map_or(0, |capabilities| u32::from(capabilities.page_shift) << 7)
    }

    /// Returns the step to take now.
    pub fn next(&self, config: &HostConfig) -> SetupStep {
        match self.step {
            Step::Open(queue) => {
                let entries = self.entries(queue, config);
                let controller = if queue == 0 { 0 } else { self.controller };
                let request =
                    ConnectRequest { queue_id: queue, host_receives: entries, host_sends: entries, controller };
                let in_capsule = match (queue, &self.info) {
                    (1.., Some(info)) => info.in_capsule_bytes,
                    _ => 0,
                };
                SetupStep::Open { request, capsule_bytes: COMMAND_LEN as u32 + in_capsule }
            }
            Step::Connect(queue) => self.connect(queue, config),
            Step::Capabilities => property(PropertyOffset::CAPABILITIES, true),
            Step::Enable => set_configuration(ENABLE | self.page_bits()),
            Step::Ready => property(PropertyOffset::STATUS, false),
            Step::Identify => identify(CNS_CONTROLLER, 0),
            Step::Queues => {
                let last = u32::from(config.queues() - 1);
                let command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
                let command = command.with_cdw(10, FEATURE_QUEUES).with_cdw(11, last | last << 16);
                SetupStep::Command(0, command, CommandData::None)
            }
            Step::List => identify(CNS_ACTIVE_NAMESPACES, 0),
            Step::Namespace(index) => identify(CNS_NAMESPACE, self.listed_at(index)),
            Step::Ids(index) => identify(CNS_UNIQUE_IDS, self.listed_at(index)),
            Step::Done => SetupStep::Done,
        }
    }

    fn listed_at(&self, index: usize) -> u32 {
        self.listed.get(index).copied().unwrap_or(0)
    }

    fn connect(&self, queue: u16, config: &HostConfig) -> SetupStep {
        let keep_alive_ms = match queue {
            0 => u32::try_from(config.keep_alive.as_millis()).unwrap_or(u32::MAX),
            _ => 0,
        };
        let sq_size = self.entries(queue, config) - 1;
        let fields = ConnectFields { format: 0, queue_id: queue, sq_size, disable_sq_flow: false, keep_alive_ms };
        let data = ConnectData {
            host_id: config.host.id,
            controller: if queue == 0 { DYNAMIC_CONTROLLER } else { self.controller },
            subsystem: config.subsystem.clone(),
            host: config.host.nqn.clone(),
        };
        let nowhere = HostMemory { address: 0, length: CONNECT_DATA_LEN as u32, key: 0, invalidate: false };
        let data = CommandData::Lent(Content::Bytes(data.to_bytes().to_vec()));
        SetupStep::Command(queue, fields.command(0, nowhere), data)
    }

    /// Notes that the connection is made.
    pub fn on_opened(&mut self) {
        if let Step::Open(queue) = self.step {
            self.step = Step::Connect(queue);
        }
    }

    /// Handles the completion of the step's command, with the structure that the target wrote. Returns the time to wait
    /// before the next step.
    ///
    /// # Errors
    /// The setup failed.
    pub fn on_completion(
        &mut self,
        now: Duration,
        config: &HostConfig,
        completion: &Completion,
        page: &[u8],
    ) -> Result<Duration, LostReason> {
        if !completion.status.is_success() {
            return self.on_failure(completion).map(|()| Duration::ZERO);
        }
        let result = completion.result;
        self.step = match self.step {
            Step::Connect(0) => {
                self.controller = result as u16;
                Step::Capabilities
            }
            Step::Connect(queue) => self.after_queue(queue),
            Step::Capabilities => {
                self.capabilities = Some(Capabilities::parse(result)?);
                Step::Enable
            }
            Step::Enable => {
                self.ready_by = self.capabilities.map(|capabilities| now + capabilities.ready_within);
                Step::Ready
            }
            Step::Ready if result & FATAL != 0 => {
                return Err(LostReason::Unusable("the controller reports a fatal error"));
            }
            Step::Ready if result & READY != 0 => Step::Identify,
            Step::Ready if self.ready_by.is_some_and(|by| by <= now) => {
                return Err(LostReason::Unusable("the controller does not become ready"));
            }
            Step::Ready => return Ok(READY_POLLS_EVERY),
            Step::Identify => self.on_identified(page)?,
            Step::Queues => {
                let (submission, completion) = (result & 0xffff, result >> 16 & 0xffff);
                self.granted = config.queues().min(submission.min(completion) as u16 + 1);
                Step::Open(1)
            }
            Step::List => {
                self.listed = namespace_list(page, 0)?;
                self.at(0)
            }
            Step::Namespace(index) => match NamespaceInfo::parse(self.listed_at(index), page) {
                Ok(info) => {
                    self.namespaces.push(info);
                    Step::Ids(index)
                }
                Err(reason) => {
                    self.unusable.push((self.listed_at(index), reason));
                    self.at(index + 1)
                }
            },
            Step::Ids(index) => {
                if let Some(namespace) = self.namespaces.last_mut() {
                    namespace.add_ids(page);
                }
                self.at(index + 1)
            }
            step @ (Step::Open(_) | Step::Done) => step,
        };
        Ok(Duration::ZERO)
    }

    fn on_identified(&mut self, page: &[u8]) -> Result<Step, LostReason> {
        let capabilities = self.capabilities.ok_or(Breach::Page("it has no capabilities"))?;
        if page.get(TYPE_AT) == Some(&TYPE_DISCOVERY) {
            return Err(LostReason::Unusable("it is a discovery controller, which has no namespaces"));
        }
        let info = ControllerInfo::parse(page, &capabilities)?;
        if info.id != self.controller {
            return Err(Breach::Page("its Identify names another controller than its Connect").into());
        }
        self.info = Some(info);
        Ok(Step::Queues)
    }

    /// Some failures end the setup, others a part of it.
    fn on_failure(&mut self, completion: &Completion) -> Result<(), LostReason> {
        let status = completion.status;
        self.step = match self.step {
            Step::Connect(_) => {
                return Err(LostReason::Connect(ConnectRefusal { status, parameter: completion.result }));
            }
            // The namespace may have gone since the list was read.
            Step::Namespace(index) => {
                self.unusable.push((self.listed_at(index), "it cannot be identified"));
                self.at(index + 1)
            }
            // Controllers before version 1.3 do not have them.
            Step::Ids(index) => self.at(index + 1),
            step => return Err(LostReason::Setup(step.name(), status)),
        };
        Ok(())
    }

    fn after_queue(&self, queue: u16) -> Step {
        if queue < self.granted { Step::Open(queue + 1) } else { Step::List }
    }

    fn at(&self, index: usize) -> Step {
        if index < self.listed.len() { Step::Namespace(index) } else { Step::Done }
    }

    /// Name of the step, for messages.
    pub fn name(&self) -> &'static str {
        self.step.name()
    }
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Open(_) => "the connection",
            Step::Connect(_) => "Connect",
            Step::Capabilities | Step::Ready => "Property Get",
            Step::Enable => "Property Set",
            Step::Identify => "Identify Controller",
            Step::Queues => "Set Features",
            Step::List => "the list of namespaces",
            Step::Namespace(_) | Step::Ids(_) => "Identify Namespace",
            Step::Done => "the setup",
        }
    }
}

fn fabrics(kind: FabricsType, offset: PropertyOffset) -> Command {
    Command::new(OPCODE_FABRICS, 0, kind.0.into()).with_cdw(11, offset.0)
}

fn property(offset: PropertyOffset, is_long: bool) -> SetupStep {
    let command = fabrics(FabricsType::PROPERTY_GET, offset).with_cdw(10, is_long.into());
    SetupStep::Command(0, command, CommandData::None)
}

fn set_configuration(value: u32) -> SetupStep {
    let command = fabrics(FabricsType::PROPERTY_SET, PropertyOffset::CONFIGURATION).with_cdw(12, value);
    SetupStep::Command(0, command, CommandData::None)
}

fn identify(cns: u32, nsid: u32) -> SetupStep {
    let command = Command::new(AdminOpcode::IDENTIFY.0, 0, nsid).with_cdw(10, cns);
    SetupStep::Command(0, command, CommandData::Awaited(Content::Page(PAGE_LEN)))
}

/// Returns the command that tells the controller of the shutdown.
pub fn shutdown_command(setup: &Setup) -> Command {
    let value = ENABLE | setup.page_bits() | SHUTDOWN;
    fabrics(FabricsType::PROPERTY_SET, PropertyOffset::CONFIGURATION).with_cdw(12, value)
}

/// Returns the command that asks for the status.
pub fn status_command() -> Command {
    fabrics(FabricsType::PROPERTY_GET, PropertyOffset::STATUS)
}

/// Whether a status says that the shutdown is complete, or will never be.
pub fn is_shut_down(status: Status, result: u64) -> bool {
    !status.is_success() || result & FATAL != 0 || result & SHUTDOWN_STATUS == SHUTDOWN_COMPLETE
}

/// Returns the command that keeps the controller alive.
pub fn keep_alive_command() -> Command {
    Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0)
}
