//! A host and this crate's target, in memory, and the network between them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fuzzing::configuration;
use crate::wire::{Completion, HostMemory};
use crate::{
    Action, Breach, CommandData, Content, HostAction, HostConfig, HostController, HostEvent, HostName, IoData,
    LocalAddress, LostReason, Operation, Outcome, Outgoing, QueueKey, RequestFailure, RequestKey, SlotKey, Status,
    Target,
};

/// Bytes of the namespace.
pub const DISK_BYTES: usize = 1 << 20;
/// Name of the subsystem.
pub const DISK: &str = "nqn.2026-01.io.weft:disk";

/// Host, target, and the network between them.
pub struct World {
    pub host: HostController,
    pub target: Target,
    pub now: Duration,
    pub disk: Vec<u8>,
    /// Connections by the host's queues.
    pub connections: BTreeMap<u16, QueueKey>,
    next_connection: QueueKey,
    /// Registered memory by its key, and the keys of commands.
    pub memory: BTreeMap<u32, Vec<u8>>,
    pub lent: BTreeMap<SlotKey, u32>,
    next_key: u32,
    pub data: BTreeMap<RequestKey, Vec<u8>>,
    pub done: BTreeMap<RequestKey, Result<(), RequestFailure>>,
    pub events: Vec<HostEvent>,
    pub ended: Option<LostReason>,
    /// Whether connections can be made.
    pub is_up: bool,
    /// The connection breaks before so many further messages of the target.
    pub breaks_after: Option<u32>,
    pub capsule_bytes: u32,
}

/// Returns a configuration.
pub fn config(io_queues: u16) -> HostConfig {
    HostConfig {
        host: HostName { nqn: "nqn.2014-08.org.nvmexpress:uuid:1".into(), id: [1; 16] },
        subsystem: DISK.into(),
        io_queues,
        queue_entries: 32,
        keep_alive: Duration::from_secs(5),
        reconnect_delay: Duration::from_secs(1),
        controller_loss: Some(Duration::from_secs(60)),
    }
}

impl World {
    /// Begins to connect.
    pub fn new(config: HostConfig) -> World {
        World {
            host: HostController::new(Duration::ZERO, config),
            target: Target::new(configuration()),
            now: Duration::ZERO,
            disk: vec![0; DISK_BYTES],
            connections: BTreeMap::new(),
            next_connection: 0,
            memory: BTreeMap::new(),
            lent: BTreeMap::new(),
            next_key: 0x100,
            data: BTreeMap::new(),
            done: BTreeMap::new(),
            events: Vec::new(),
            ended: None,
            is_up: true,
            breaks_after: None,
            capsule_bytes: 0,
        }
    }

    /// Connects.
    pub fn ready(io_queues: u16) -> World {
        let mut world = World::new(config(io_queues));
        world.run();
        assert!(world.host.is_ready(), "{:?} {:?}", world.events, world.ended);
        world
    }

    /// Carries out all actions of both ends.
    pub fn run(&mut self) {
        loop {
            if let Some(action) = self.host.poll() {
                self.act(action);
            } else if let Some(action) = self.target.poll() {
                self.serve(action);
            } else {
                return;
            }
        }
    }

    /// Lets time pass until a time, event by event.
    pub fn pass(&mut self, until: Duration) {
        self.run();
        while let Some(at) = self.host.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
            self.target.handle_timeout(self.now);
            self.run();
        }
        self.now = until;
    }

    /// Carries out an action of the host.
    pub fn act(&mut self, action: HostAction) {
        match action {
            HostAction::Open { request, capsule_bytes } => {
                self.capsule_bytes = capsule_bytes;
                if !self.is_up {
                    return self.host.connection_lost(self.now, "refused".into());
                }
                let local = LocalAddress { is_ipv6: false, address: "192.0.2.1".into(), service: "4420".into() };
                let (key, bytes) = (self.next_connection, request.to_bytes());
                self.next_connection += 1;
                self.target.admit(self.now, key, 0, local, &bytes).expect("admitted");
                self.connections.insert(request.queue_id, key);
                self.host.queue_opened(self.now, request.queue_id);
            }
            HostAction::Send(outgoing) => self.send(&outgoing),
            HostAction::Release { slot, is_invalid, outcome } => {
                let key = self.lent.remove(&slot).expect("memory was lent");
                let bytes = self.memory.remove(&key).expect("registered memory");
                // The target was asked to invalidate the key, and does so.
                assert!(is_invalid);
                match outcome {
                    Outcome::Discard => {}
                    Outcome::Take(Content::Page(length)) => self.host.handle_page(self.now, &bytes[..length as usize]),
                    Outcome::Take(Content::Request { request, offset, length }) => {
                        let data = self.data.get_mut(&request).expect("a request");
                        data[offset..offset + length as usize].copy_from_slice(&bytes);
                    }
                    Outcome::Take(Content::Bytes(_)) => panic!("nothing awaits bytes that are known"),
                }
            }
            HostAction::Done(key, result) => {
                assert_eq!(self.done.insert(key, result), None, "request {key} ended twice");
            }
            HostAction::Close => self.close(),
            HostAction::Log(event) => self.events.push(event),
            HostAction::Ended(reason) => {
                assert_eq!(self.ended.replace(reason), None);
            }
        }
    }

    fn close(&mut self) {
        for (_, key) in std::mem::take(&mut self.connections) {
            self.target.queue_closed(key);
        }
        self.memory.clear();
        self.lent.clear();
    }

    fn content(&self, content: &Content) -> Vec<u8> {
        match content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Request { request, offset, length } => {
                self.data[request][*offset..*offset + *length as usize].to_vec()
            }
            Content::Page(length) => vec![0; *length as usize],
        }
    }

    fn send(&mut self, outgoing: &Outgoing) {
        let slot = outgoing.slot;
        let capsule = match &outgoing.data {
            CommandData::None => outgoing.to_capsule(None, &[]),
            CommandData::Capsule(content) => outgoing.to_capsule(None, &self.content(content)),
            CommandData::Lent(content) | CommandData::Awaited(content) => {
                let key = self.next_key;
                self.next_key += 1;
                let bytes = self.content(content);
                let memory = HostMemory { address: 0, length: bytes.len() as u32, key, invalidate: true };
                self.memory.insert(key, bytes);
                self.lent.insert(slot, key);
                self.host.lent(slot, key);
                outgoing.to_capsule(Some(memory), &[])
            }
        };
        assert!(capsule.len() <= 64 + 512, "{}", capsule.len());
        if let Some(key) = self.connections.get(&slot.queue) {
            self.target.handle_capsule(self.now, *key, &capsule);
        }
    }

    fn serve(&mut self, action: Action) {
        match action {
            Action::Fetch(key, memory) => {
                // The connection may have ended since.
                let Some(bytes) = self.memory.get(&memory.key).cloned() else { return };
                assert_eq!(bytes.len(), memory.length as usize);
                self.target.handle_data(self.now, key, &bytes);
            }
            Action::Execute { command, operation, data, .. } => {
                let done = self.execute(&operation, data);
                self.target.handle_executed(command, done);
            }
            Action::Respond(response) => {
                let Some((queue, _)) = self.connections.iter().find(|(_, key)| **key == response.command.queue) else {
                    return;
                };
                let queue = *queue;
                if self.breaks_after.is_some_and(|left| left == 0) {
                    self.breaks_after = None;
                    return self.host.connection_lost(self.now, "broken".into());
                }
                self.breaks_after = self.breaks_after.map(|left| left - 1);
                if let Some((bytes, memory)) = response.data {
                    self.memory.insert(memory.key, bytes);
                }
                let capsule = response.completion.to_bytes();
                self.host.handle_capsule(self.now, queue, &capsule, response.invalidate);
            }
            Action::Close(key, _) => {
                self.target.queue_closed(key);
                if self.connections.values().any(|connection| *connection == key) {
                    self.host.connection_lost(self.now, "disconnected".into());
                }
            }
            Action::Log(..) => {}
        }
    }

    fn execute(&mut self, operation: &Operation, data: IoData) -> Result<(), Status> {
        let range = |offset: u64, length: u64| offset as usize..(offset + length) as usize;
        let (bytes, key) = match data {
            IoData::None => (Vec::new(), None),
            IoData::Capsule(bytes) => (bytes, None),
            IoData::Host(memory) => {
                let bytes = self.memory.get(&memory.key).cloned().ok_or(Status::TRANSFER_ERROR)?;
                (bytes, Some(memory.key))
            }
        };
        match operation {
            Operation::Read { offset, length } => {
                let bytes = self.disk[range(*offset, (*length).into())].to_vec();
                self.memory.insert(key.expect("memory"), bytes);
            }
            Operation::Write { offset, length, .. } => {
                self.disk[range(*offset, (*length).into())].copy_from_slice(&bytes);
            }
            Operation::Compare { offset, length } => {
                if self.disk[range(*offset, (*length).into())] != bytes {
                    return Err(Status::COMPARE_FAILURE);
                }
            }
            Operation::WriteZeroes { offset, length, .. } => self.disk[range(*offset, *length)].fill(0),
            Operation::Deallocate(ranges) => {
                ranges.iter().for_each(|(offset, length)| self.disk[range(*offset, *length)].fill(0));
            }
            Operation::Flush => {}
        }
        Ok(())
    }

    /// Submits a request for the namespace.
    pub fn submit(&mut self, key: RequestKey, operation: Operation, data: Vec<u8>) {
        self.data.insert(key, data);
        self.host.submit(self.now, key, 1, operation);
    }

    /// Executes a request, and returns its data.
    pub fn request(&mut self, operation: Operation, data: Vec<u8>) -> Result<Vec<u8>, RequestFailure> {
        let key = 1000 + self.done.len() as RequestKey;
        self.submit(key, operation, data);
        self.run();
        self.done.get(&key).copied().expect("it has ended").map(|()| self.data.remove(&key).unwrap_or_default())
    }

    /// The target sends a completion that it was not asked for.
    pub fn forge(&mut self, queue: u16, id: u16, invalidated: Option<u32>) -> Option<Breach> {
        let completion = Completion { result: 0, sq_head: 0, command_id: id, status: Status::SUCCESS };
        self.host.handle_capsule(self.now, queue, &completion.to_bytes(), invalidated);
        self.run();
        match &self.ended {
            Some(LostReason::Breach(breach)) => Some(*breach),
            _ => None,
        }
    }
}
