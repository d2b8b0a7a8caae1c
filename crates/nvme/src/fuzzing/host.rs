//! Answers of a target, for a host: forged ones among right ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{QUEUE_ENTRIES_MAX, TRANSFER_BYTES_MAX};
use crate::page::{self, ControllerPage};
use crate::wire::{Command, Completion, HostMemory};
use crate::{
    CommandData, Content, HostAction, HostConfig, HostController, HostName, Operation, Outcome, RequestFailure,
    RequestKey, SlotKey, Status,
};

const NAMESPACE: u32 = 1;
/// Result of most commands: the identifier of a controller, its capabilities, its status (ready), and the number of its queues.
const RESULT: u64 = 0x1d_001d;
/// Requests under way.
const REQUESTS_MAX: usize = 40;

/// The owner's end, with its books.
struct Owner {
    host: HostController,
    now: Duration,
    /// Commands that were sent, with the keys that they lent.
    sent: BTreeMap<SlotKey, Option<u32>>,
    requests: BTreeMap<RequestKey, u32>,
    ended: BTreeSet<RequestKey>,
    next_key: u32,
    /// CNS and namespace of the last command.
    last: (u32, u32),
    is_over: bool,
}

/// Returns the structure that Identify asks for, with a byte of it changed; or these bytes.
fn structure((cns, namespace): (u32, u32), bytes: &[u8]) -> Vec<u8> {
    let [kind, low, high, value, ..] = bytes else { return Vec::new() };
    let mut page = match (cns, kind) {
        (_, 0xf0..) => bytes.to_vec(),
        (0, _) => page::namespace_page(1 << 20, 9, &[namespace as u8; 16], false),
        (1, _) => ControllerPage {
            id: RESULT as u16,
            version: 0x1_0400,
            is_discovery: false,
            serial: "1",
            model: "Weft",
            firmware: "0.1",
            subsystem: "nqn.2026-01.io.weft:disk",
            in_capsule_bytes: 512,
        }
        .to_bytes(),
        (2, _) => page::namespace_ids(1..3),
        _ => page::unique_ids(&[1; 16], &[2; 16]),
    };
    if *kind & 1 == 1 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % page.len().max(1);
        page.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= *value);
    }
    page
}

fn config() -> HostConfig {
    HostConfig {
        host: HostName { nqn: "nqn.2014-08.org.nvmexpress:uuid:1".into(), id: [1; 16] },
        subsystem: "nqn.2026-01.io.weft:disk".into(),
        io_queues: 2,
        queue_entries: 16,
        keep_alive: Duration::from_secs(5),
        reconnect_delay: Duration::from_secs(1),
        controller_loss: Some(Duration::from_secs(10)),
    }
}

/// Feeds a target's answers to a host. Each event begins with a byte that names its kind, and a byte of detail; the structures
/// that the target writes are the bytes that follow. Returns the number of commands that were sent.
pub fn host(mut bytes: &[u8]) -> usize {
    let mut owner = Owner {
        host: HostController::new(Duration::ZERO, config()),
        now: Duration::ZERO,
        sent: BTreeMap::new(),
        requests: BTreeMap::new(),
        ended: BTreeSet::new(),
        next_key: 1,
        last: (0, 0),
        is_over: false,
    };
    let mut commands = owner.act(bytes);
    while let [kind, detail, rest @ ..] = bytes {
        bytes = rest;
        owner.now += Duration::from_millis(u64::from(*detail));
        owner.event(*kind, *detail, rest);
        commands += owner.act(rest);
        owner.host.handle_timeout(owner.now);
        commands += owner.act(rest);
    }
    owner.host.shutdown(owner.now);
    for _ in 0..3 {
        owner.now += Duration::from_secs(60);
        owner.host.handle_timeout(owner.now);
        commands += owner.act(&[]);
    }
    assert!(owner.is_over && owner.requests.is_empty());
    commands
}

impl Owner {
    fn event(&mut self, kind: u8, detail: u8, rest: &[u8]) {
        match kind % 8 {
            // Mostly answers to commands in progress.
            0..=3 => {
                let Some((slot, key)) = self.sent.iter().nth(usize::from(detail) % self.sent.len().max(1)) else {
                    return;
                };
                let (slot, key) = (*slot, *key);
                let status = if kind & 0x80 == 0 { 0 } else { u16::from(detail) << 1 };
                let invalidated = if kind & 0x40 == 0 { key } else { None };
                let result = if kind & 0x20 == 0 { RESULT } else { rest.first().copied().unwrap_or(0).into() };
                self.complete(slot, Status::from_wire(status), result, invalidated);
            }
            4 => {
                let command = u16::from_le_bytes([detail, rest.first().copied().unwrap_or(0)]);
                self.complete(SlotKey { queue: u16::from(kind >> 6), command }, Status::SUCCESS, 1, None);
            }
            5 => self.capsule(u16::from(kind >> 6), rest, Some(detail.into())),
            6 if kind & 0x40 == 0 => self.request(detail),
            6 => self.host.connection_lost(self.now, "broken".into()),
            _ => self.now += Duration::from_secs(u64::from(detail)),
        }
    }

    fn complete(&mut self, slot: SlotKey, status: Status, result: u64, invalidated: Option<u32>) {
        let completion = Completion { result, sq_head: 0, command_id: slot.command, status };
        self.capsule(slot.queue, &completion.to_bytes(), invalidated);
    }

    fn capsule(&mut self, queue: u16, bytes: &[u8], invalidated: Option<u32>) {
        self.host.handle_capsule(self.now, queue, bytes, invalidated);
        // Memory of other commands comes back by an action.
        if let Some(completion) = Completion::parse(bytes) {
            let slot = SlotKey { queue, command: completion.command_id };
            if self.sent.get(&slot) == Some(&None) {
                self.sent.remove(&slot);
            }
        }
    }

    fn request(&mut self, detail: u8) {
        if self.requests.len() >= REQUESTS_MAX {
            return;
        }
        let key = (self.requests.len() + self.ended.len()) as RequestKey;
        let length = u32::from(detail) << 14 | 512;
        let operation = match detail % 4 {
            0 => Operation::Read { offset: 0, length },
            1 => Operation::Write { offset: 512, length, durable: true },
            2 => Operation::Deallocate(vec![(0, 512)]),
            _ => Operation::Flush,
        };
        self.requests.insert(key, length);
        self.host.submit(self.now, key, NAMESPACE, operation);
    }

    /// Carries out the actions. Structures that are awaited hold these bytes.
    fn act(&mut self, page: &[u8]) -> usize {
        let mut commands = 0;
        while let Some(action) = self.host.poll() {
            // A request that comes after the end fails at once.
            let is_late = matches!(action, HostAction::Done(_, Err(RequestFailure::Ended)));
            assert!(!self.is_over || is_late, "{action:?} after the end");
            match action {
                HostAction::Open { request, .. } => self.host.queue_opened(self.now, request.queue_id),
                HostAction::Send(outgoing) => {
                    commands += 1;
                    let key = self.lend(&outgoing.data);
                    if let Some(key) = key {
                        self.host.lent(outgoing.slot, key);
                    }
                    let memory = key.map(|key| HostMemory { address: 0, length: 512, key, invalidate: true });
                    if let Some((command, _)) = Command::parse(&outgoing.to_capsule(memory, &[])) {
                        self.last = (command.cdw(10), command.nsid());
                    }
                    assert_eq!(self.sent.insert(outgoing.slot, key), None, "a slot is used twice");
                    let of_queue = self.sent.keys().filter(|slot| slot.queue == outgoing.slot.queue).count();
                    assert!(of_queue < usize::from(QUEUE_ENTRIES_MAX));
                }
                HostAction::Release { slot, outcome, .. } => {
                    assert!(self.sent.get(&slot).is_some_and(Option::is_some), "memory that was not lent");
                    if let Outcome::Take(content) = &outcome {
                        self.check(content);
                        if let Content::Page(length) = content {
                            let mut bytes = structure(self.last, page);
                            bytes.resize(*length as usize, 0);
                            self.host.handle_page(self.now, &bytes);
                        }
                    }
                    self.sent.remove(&slot);
                }
                HostAction::Done(key, _) => {
                    assert!(self.requests.remove(&key).is_some(), "request {key} is not in progress");
                    self.ended.insert(key);
                }
                HostAction::Close => self.sent.clear(),
                HostAction::Log(_) => {}
                HostAction::Ended(_) => self.is_over = true,
            }
        }
        commands
    }

    fn lend(&mut self, data: &CommandData) -> Option<u32> {
        match data {
            CommandData::None => None,
            CommandData::Capsule(content) => {
                self.check(content);
                None
            }
            CommandData::Lent(content) | CommandData::Awaited(content) => {
                self.check(content);
                self.next_key += 1;
                Some(self.next_key)
            }
        }
    }

    /// A piece lies within its request's data.
    fn check(&self, content: &Content) {
        if let Content::Request { request, offset, length } = content {
            let whole = self.requests.get(request).copied().unwrap_or(0);
            assert!(offset + *length as usize <= whole as usize && *length <= TRANSFER_BYTES_MAX);
        }
    }
}
