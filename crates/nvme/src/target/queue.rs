//! Queue: one connection of a host, with its commands in progress.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::CloseReason;
use super::config::LocalAddress;
use crate::Status;
use crate::wire::{Command, Completion, ConnectFields, ConnectRequest};

/// Head in completions for hosts that do not want it.
const NO_HEAD: u16 = 0xffff;

/// Queue of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Association {
    /// Identifier of the controller.
    pub controller: u16,
    /// Identifier of the queue; 0 is the admin queue.
    pub queue_id: u16,
}

/// State of a command.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The data of this command is on its way.
    Fetching(Command),
    /// The operation runs.
    Executing,
    /// An Asynchronous Event Request that waits for an event.
    Held,
}

/// Command in progress.
#[derive(Clone, Debug)]
pub struct OpenCommand {
    /// Identifier that the host gave it.
    pub id: u16,
    /// Opcode.
    pub opcode: u8,
    /// Key that the response invalidates.
    pub invalidate: Option<u32>,
    /// State.
    pub progress: Progress,
}

/// Queue.
#[derive(Debug)]
pub struct Queue {
    /// Index of the port.
    pub port: usize,
    /// Address at which the host reached the target.
    pub local: LocalAddress,
    /// Announcement of the host.
    pub announced: ConnectRequest,
    /// Controller, once Connect succeeded.
    pub association: Option<Association>,
    /// Time limit for Connect.
    pub connects_by: Duration,
    head: u16,
    entries: u16,
    has_sq_flow: bool,
    open: BTreeMap<u64, OpenCommand>,
    next: u64,
}

impl Queue {
    /// Creates a queue without commands.
    pub fn new(port: usize, local: LocalAddress, announced: ConnectRequest, connects_by: Duration) -> Queue {
        Queue {
            port,
            local,
            announced,
            association: None,
            connects_by,
            head: 0,
            entries: announced.host_sends,
            has_sq_flow: true,
            open: BTreeMap::new(),
            next: 0,
        }
    }

    /// Makes it a queue of a controller.
    pub fn associate(&mut self, association: Association, fields: &ConnectFields) {
        self.association = Some(association);
        self.entries = fields.sq_size.saturating_add(1);
        self.has_sq_flow = !fields.disable_sq_flow;
    }

    /// Begins a command, and returns its number. Requests that wait for events do not count against the entries.
    ///
    /// # Errors
    /// The host exceeds its queue.
    pub fn begin(&mut self, command: &Command, invalidate: Option<u32>) -> Result<u64, CloseReason> {
        let counted = self.open.values().filter(|open| !matches!(open.progress, Progress::Held)).count();
        if counted >= usize::from(self.announced.host_sends) {
            return Err(CloseReason::Overrun);
        }
        let sequence = self.next;
        self.next += 1;
        let progress = Progress::Executing;
        let open = OpenCommand { id: command.id(), opcode: command.opcode, invalidate, progress };
        self.open.insert(sequence, open);
        Ok(sequence)
    }

    /// Whether another command in progress has this identifier.
    pub fn has_id_twice(&self, id: u16) -> bool {
        self.open.values().filter(|open| open.id == id).count() > 1
    }

    /// Returns a command in progress.
    pub fn open(&mut self, sequence: u64) -> Option<&mut OpenCommand> {
        self.open.get_mut(&sequence)
    }

    /// Ends a command without a completion.
    pub fn forget(&mut self, sequence: u64) {
        self.open.remove(&sequence);
    }

    /// Ends a command, and returns it with its completion.
    pub fn complete(&mut self, sequence: u64, result: u64, status: Status) -> Option<(OpenCommand, Completion)> {
        let open = self.open.remove(&sequence)?;
        self.head = (self.head + 1) % self.entries.max(1);
        let sq_head = if self.has_sq_flow { self.head } else { NO_HEAD };
        let completion = Completion { result, sq_head, command_id: open.id, status };
        Some((open, completion))
    }
}
