//! Answers of a target, for an initiator: forged ones among right ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::INITIATOR_TRANSFER_MAX;
use crate::scsi::{Attentions, Cdb, Device, Sense, Step, parse_lun};
use crate::wire::{
    CommandIu, CreditRequest, LoginAccept, LogoutReason, MultiChannelResult, Piece, PortId, Residual, ResponseIu,
    TargetLogout, TaskStatus,
};
use crate::{
    CommandTag, DiskCommandData, DiskContent, DiskOperation, DiskOutcome, Initiator, InitiatorAction, InitiatorConfig,
    LossTimes, RequestFailure, RequestKey,
};

/// Requests under way.
const REQUESTS_MAX: usize = 40;
/// Commands in progress, and requests that the target takes.
const QUEUE: u16 = 16;

/// Command that the target has.
struct Sent {
    lun: [u8; 8],
    cdb: Cdb,
    /// Bytes that it awaits at most; `None`: it lends no memory.
    memory: Option<u32>,
}

/// The owner's end, with its books, and a device that answers rightly.
struct Owner {
    initiator: Initiator,
    device: Device,
    now: Duration,
    sent: BTreeMap<CommandTag, Sent>,
    /// Tags of task management functions.
    tasks: Vec<[u8; 8]>,
    requests: BTreeMap<RequestKey, u32>,
    ended: BTreeSet<RequestKey>,
    is_over: bool,
}

fn config() -> InitiatorConfig {
    InitiatorConfig {
        initiator: PortId([1; 16]),
        target: super::PORT,
        queue_size: QUEUE,
        loss: LossTimes {
            reconnect_delay: Some(Duration::from_secs(1)),
            fast_io_fail: Some(Duration::from_secs(10)),
            dev_loss: Some(Duration::from_secs(40)),
        },
        command_timeout: Duration::from_secs(20),
    }
}

/// Feeds a target's answers to an initiator. Each event begins with a byte that names its kind, and a byte of detail; the
/// structures that the target writes are changed by the bytes that follow. Returns the number of commands that were sent.
pub fn initiator(mut bytes: &[u8]) -> usize {
    let configuration = super::configuration();
    let mut owner = Owner {
        initiator: Initiator::new(Duration::ZERO, config()),
        device: Device::new(configuration.identity, configuration.units),
        now: Duration::ZERO,
        sent: BTreeMap::new(),
        tasks: Vec::new(),
        requests: BTreeMap::new(),
        ended: BTreeSet::new(),
        is_over: false,
    };
    let mut commands = owner.act(bytes);
    while let [kind, detail, rest @ ..] = bytes {
        bytes = rest;
        owner.now += Duration::from_millis(u64::from(*detail));
        owner.event(*kind, *detail, rest);
        commands += owner.act(rest);
        owner.initiator.handle_timeout(owner.now);
        commands += owner.act(rest);
    }
    owner.initiator.shutdown(owner.now);
    for _ in 0..3 {
        commands += owner.act(&[]);
        owner.now += Duration::from_secs(60);
        owner.initiator.handle_timeout(owner.now);
    }
    owner.act(&[]);
    assert!(owner.is_over && owner.requests.is_empty());
    commands
}

impl Owner {
    fn event(&mut self, kind: u8, detail: u8, rest: &[u8]) {
        let value = rest.first().copied().unwrap_or(0);
        match kind % 8 {
            // Mostly answers to commands in progress.
            0..=3 => {
                let Some(tag) = self.sent.keys().nth(usize::from(detail) % self.sent.len().max(1)).copied() else {
                    return;
                };
                let residual = if kind & 0x20 == 0 { Residual::None } else { Residual::Under(value.into()) };
                let sense = Sense { key: value & 0xf, code: u16::from(detail) << 8 };
                let ended = if kind & 0x80 == 0 { Ok(()) } else { Err(sense) };
                let iu = match kind & 0x40 {
                    0 => ResponseIu::Command { ended, out: Residual::None, into: residual },
                    _ => ResponseIu::Aborted,
                };
                self.unit(&iu.to_bytes(tag.to_be_bytes(), 1));
                // Memory of other commands comes back by an action.
                if self.sent.get(&tag).is_some_and(|sent| sent.memory.is_none()) {
                    self.sent.remove(&tag);
                }
            }
            4 if kind & 0x80 == 0 => {
                let forged = (kind & 0x20 != 0).then_some([detail; 8]);
                let Some(tag) = self.tasks.pop().or(forged) else { return };
                let status = if kind & 0x40 == 0 { TaskStatus::Complete } else { TaskStatus::NotSupported };
                self.unit(&ResponseIu::Task(status).to_bytes(tag, 1));
            }
            4 => self.unit(&CreditRequest { limit_delta: u32::from(detail) % 3 }.to_bytes()),
            5 if kind & 0xc0 == 0 => self.unit(rest),
            5 => self.unit(&TargetLogout { reason: LogoutReason::Unspecified }.to_bytes()),
            6 if kind & 0x40 == 0 => self.request(detail),
            6 => self.initiator.connection_lost(self.now, "broken".into()),
            _ => self.now += Duration::from_secs(u64::from(detail) / 4),
        }
    }

    fn unit(&mut self, bytes: &[u8]) {
        self.initiator.handle_iu(self.now, bytes, None);
    }

    fn request(&mut self, detail: u8) {
        if self.requests.len() >= REQUESTS_MAX {
            return;
        }
        let key = (self.requests.len() + self.ended.len()) as RequestKey;
        let length = u32::from(detail) << 13 | 512;
        let operation = match detail % 5 {
            0 => DiskOperation::Read { offset: 0, length },
            1 => DiskOperation::Write { offset: 512, length, durable: true },
            2 => DiskOperation::Discard { offset: 0, length: length.into() },
            3 => DiskOperation::WriteZeroes { offset: 0, length: length.into(), may_free: true },
            _ => DiskOperation::Flush,
        };
        self.requests.insert(key, length);
        self.initiator.submit(self.now, key, u16::from(detail) % 3, operation);
    }

    /// Carries out the actions. These bytes change structures that are awaited.
    fn act(&mut self, change: &[u8]) -> usize {
        let mut commands = 0;
        while let Some(action) = self.initiator.poll() {
            // A request that comes after the end fails at once.
            let is_late = matches!(action, InitiatorAction::Done(_, Err(RequestFailure::Ended)));
            assert!(!self.is_over || is_late, "{action:?} after the end");
            match action {
                InitiatorAction::Open(login) => self.accept(login.tag),
                InitiatorAction::Send(outgoing) => {
                    commands += 1;
                    let memory = self.lend(&outgoing.data);
                    let piece = memory.map(|length| Piece { address: 0, key: outgoing.tag as u32, length });
                    self.initiator.sent(self.now, outgoing.tag, piece.map(|piece| piece.key));
                    let iu = CommandIu::parse(&outgoing.to_iu(piece), None).ok().flatten();
                    let sent = iu.map(|iu| Sent { lun: iu.lun, cdb: Cdb(iu.cdb), memory });
                    assert!(sent.is_some(), "no command");
                    let earlier = sent.and_then(|sent| self.sent.insert(outgoing.tag, sent));
                    assert!(earlier.is_none(), "a tag is used twice");
                    assert!(self.sent.values().filter(|sent| sent.memory.is_some()).count() <= usize::from(QUEUE));
                }
                InitiatorAction::SendUnit(unit) => {
                    if let (Some(1), Some(tag)) = (unit.first(), unit.get(8..16)) {
                        self.tasks.extend(<[u8; 8]>::try_from(tag));
                    }
                }
                InitiatorAction::Release { tag, outcome, .. } => self.release(tag, &outcome, change),
                InitiatorAction::Done(key, _) => {
                    assert!(self.requests.remove(&key).is_some(), "request {key} is not in progress");
                    self.ended.insert(key);
                }
                InitiatorAction::Close => {
                    self.sent.clear();
                    self.tasks.clear();
                }
                InitiatorAction::Log(_) => {}
                InitiatorAction::Ended(_) => self.is_over = true,
            }
        }
        commands
    }

    fn accept(&mut self, tag: [u8; 8]) {
        let accept = LoginAccept {
            tag,
            request_limit: QUEUE,
            initiator_iu_len: 64,
            target_iu_len: 128,
            multi_channel: MultiChannelResult::None,
            immediate: false,
        };
        self.initiator.logged_in(self.now, &accept.to_bytes());
    }

    fn lend(&self, data: &DiskCommandData) -> Option<u32> {
        match data {
            DiskCommandData::None => None,
            DiskCommandData::Lent(content) | DiskCommandData::Awaited(content) => {
                self.check(content);
                Some(content.len())
            }
        }
    }

    fn release(&mut self, tag: CommandTag, outcome: &DiskOutcome, change: &[u8]) {
        let sent = self.sent.remove(&tag);
        assert!(sent.as_ref().is_some_and(|sent| sent.memory.is_some()), "memory that was not lent");
        if let (DiskOutcome::Take(content), Some(sent)) = (outcome, sent) {
            self.check(content);
            assert!(sent.memory.is_some_and(|lent| content.len() <= lent));
            if let DiskContent::Page(length) = content {
                let mut page = self.structure(&sent, change);
                page.resize(*length as usize, 0);
                self.initiator.handle_page(self.now, &page);
            }
        }
    }

    /// Returns the structure that a command asks for, with a byte of it changed; or these bytes.
    fn structure(&mut self, sent: &Sent, change: &[u8]) -> Vec<u8> {
        let [kind, at, value, ..] = change else { return Vec::new() };
        let step = self.device.begin(&mut Attentions::default(), parse_lun(sent.lun), &sent.cdb);
        let Ok(Step::Data(mut page)) = step else { return change.to_vec() };
        match kind {
            0xf0.. => change.to_vec(),
            _ => {
                let at = usize::from(*at) % page.len().max(1);
                page.iter_mut().skip(at).take(usize::from(kind & 1)).for_each(|byte| *byte ^= *value);
                page
            }
        }
    }

    /// A piece lies within its request's data.
    fn check(&self, content: &DiskContent) {
        if let DiskContent::Request { request, offset, length } = content {
            let whole = self.requests.get(request).copied().unwrap_or(0);
            assert!(offset + *length as usize <= whole as usize && *length <= INITIATOR_TRANSFER_MAX);
        }
    }
}
