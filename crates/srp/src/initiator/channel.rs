//! Channel: the commands in progress, and the requests that the target still takes (SRP §5.3, request limit).
//!
//! Tags are never used twice, so that a late response to an earlier command names no command in progress.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{CommandTag, DiskCommandData, DiskContent, DiskOutcome, OutgoingDiskCommand};
use super::address::UnitAddress;
use super::failure::{Breach, CommandFailure};
use super::request::Piece;
use crate::scsi::{Cdb, Lun};
use crate::wire::{ReceivedResponse, Residual};

/// Purpose of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Step of the setup.
    Setup,
    /// Piece of a request.
    Piece(Piece),
}

/// Memory that a command lends to the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// The owner has it.
    Waiting,
    /// It was sent at a time, and lends memory under a key.
    Sent(Duration, Option<u32>),
}

/// Command in progress.
#[derive(Debug)]
struct OpenCommand {
    purpose: Purpose,
    unit: UnitAddress,
    opcode: u8,
    progress: Progress,
    /// Data that the target writes.
    awaited: Option<DiskContent>,
}

/// Command that has ended, or that was taken back.
#[derive(Debug)]
pub struct Ended {
    /// Its tag.
    pub tag: CommandTag,
    /// Its purpose.
    pub purpose: Purpose,
    /// Number of its logical unit.
    pub lun: Lun,
    /// Its operation code.
    pub opcode: u8,
    /// How it ended.
    pub result: Result<(), CommandFailure>,
    /// Memory to take back: whether its key is invalid, and the use of the bytes.
    pub release: Option<(bool, DiskOutcome)>,
}

/// Command that takes too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// Its tag.
    pub tag: CommandTag,
    /// Its logical unit.
    pub unit: UnitAddress,
    /// Its operation code.
    pub opcode: u8,
}

/// Task management function in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rescue {
    /// Its tag.
    pub tag: CommandTag,
    /// The command that takes too long.
    pub late: Late,
    /// The whole logical unit is reset.
    pub is_reset: bool,
    /// Time at which it was sent.
    pub since: Duration,
}

/// Channel to the target.
#[derive(Debug, Default)]
pub struct Channel {
    open: BTreeMap<CommandTag, OpenCommand>,
    /// Requests that the target still takes.
    credits: i64,
    /// Credit that commands leave for a task management function.
    reserve: i64,
    /// Commands in progress at most.
    commands_max: usize,
}

impl Channel {
    /// Creates a channel with the limit of a login response.
    pub fn new(request_limit: i32, commands_max: u16) -> Channel {
        let credits = i64::from(request_limit);
        // A target that takes a single request gets commands, and no task management.
        Channel {
            open: BTreeMap::new(),
            credits,
            reserve: i64::from(credits > 1),
            commands_max: usize::from(commands_max),
        }
    }

    /// Whether another command may be sent.
    pub fn has_room(&self) -> bool {
        self.credits > self.reserve && self.open.len() < self.commands_max
    }

    /// Number of commands in progress.
    pub fn in_progress(&self) -> usize {
        self.open.len()
    }

    /// Takes a credit for a task management function. Returns whether there was one.
    pub fn take_reserve(&mut self) -> bool {
        let has_credit = self.credits > 0;
        self.credits -= i64::from(has_credit);
        has_credit
    }

    /// Notes that the target takes more requests, or fewer.
    pub fn add_credits(&mut self, delta: i32) {
        self.credits = self.credits.saturating_add(delta.into());
    }

    /// Begins a command.
    pub fn begin(
        &mut self,
        tag: CommandTag,
        purpose: Purpose,
        unit: UnitAddress,
        cdb: Cdb,
        data: DiskCommandData,
    ) -> OutgoingDiskCommand {
        self.credits -= 1;
        let awaited = if let DiskCommandData::Awaited(content) = &data { Some(content.clone()) } else { None };
        let open = OpenCommand { purpose, unit, opcode: cdb.opcode(), progress: Progress::Waiting, awaited };
        self.open.insert(tag, open);
        OutgoingDiskCommand { tag, data, lun: unit.bytes, cdb }
    }

    /// Notes that the owner sends a command now, which lends memory under a key.
    pub fn sent(&mut self, now: Duration, tag: CommandTag, key: Option<u32>) {
        if let Some(open) = self.open.get_mut(&tag).filter(|open| open.progress == Progress::Waiting) {
            open.progress = Progress::Sent(now, key);
        }
    }

    /// Ends a command by its response. `invalidated` is the key that the response's SEND invalidated.
    ///
    /// # Errors
    /// The target broke the protocol.
    pub fn end(&mut self, response: &ReceivedResponse, invalidated: Option<u32>) -> Result<Ended, Breach> {
        let tag = response.tag;
        let key = match self.open.get(&tag).map(|open| open.progress) {
            None => return Err(Breach::UnknownCommand(tag)),
            Some(Progress::Waiting) => return Err(Breach::NotSent(tag)),
            Some(Progress::Sent(_, key)) => key,
        };
        if let Some(other) = invalidated.filter(|other| key != Some(*other)) {
            return Err(Breach::WrongKey(other));
        }
        let Some(open) = self.open.remove(&tag) else { return Err(Breach::UnknownCommand(tag)) };
        let mut result = CommandFailure::of(response);
        let outcome = match (open.awaited, result) {
            (Some(content), Ok(())) => match short(&content, response.into) {
                Ok(content) => DiskOutcome::Take(content),
                Err(failure) => {
                    result = Err(failure);
                    DiskOutcome::Discard
                }
            },
            _ => DiskOutcome::Discard,
        };
        let release = key.map(|_| (invalidated.is_some(), outcome));
        Ok(Ended { tag, purpose: open.purpose, lun: open.unit.lun, opcode: open.opcode, result, release })
    }

    /// Returns the command that was sent first of those that take longer than the limit.
    pub fn late(&self, now: Duration, limit: Duration) -> Option<Late> {
        let is_late = |open: &OpenCommand| matches!(open.progress, Progress::Sent(at, _) if at + limit <= now);
        let (tag, open) = self.open.iter().find(|(_, open)| is_late(open))?;
        Some(Late { tag: *tag, unit: open.unit, opcode: open.opcode })
    }

    /// Whether a command is in progress.
    pub fn has(&self, tag: CommandTag) -> bool {
        self.open.contains_key(&tag)
    }

    /// Takes back commands that the target has aborted: one, or all that were sent to a logical unit.
    pub fn take_aborted(&mut self, unit: UnitAddress, only: Option<CommandTag>) -> Vec<Ended> {
        let is_meant = |tag: &CommandTag, open: &OpenCommand| match only {
            Some(only) => *tag == only,
            None => open.unit == unit && open.progress != Progress::Waiting,
        };
        let tags: Vec<_> = self.open.iter().filter(|(tag, open)| is_meant(tag, open)).map(|(tag, _)| *tag).collect();
        let taken = tags.into_iter().filter_map(|tag| Some((tag, self.open.remove(&tag)?)));
        let ended = taken.map(|(tag, open)| {
            let release = matches!(open.progress, Progress::Sent(_, Some(_))).then_some((false, DiskOutcome::Discard));
            Ended { tag, purpose: open.purpose, lun: open.unit.lun, opcode: open.opcode, result: Ok(()), release }
        });
        ended.collect()
    }

    /// Ends the channel, and returns the pieces that were in progress.
    pub fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.open
            .into_values()
            .filter_map(|open| if let Purpose::Piece(piece) = open.purpose { Some(piece) } else { None })
    }
}

/// Returns the content that the target wrote: a structure may be shorter than its memory, data may not.
fn short(content: &DiskContent, residual: Residual) -> Result<DiskContent, CommandFailure> {
    match (content, residual) {
        (DiskContent::Page(length), Residual::Under(bytes)) => Ok(DiskContent::Page(length.saturating_sub(bytes))),
        (DiskContent::Request { .. }, Residual::Under(bytes)) => Err(CommandFailure::Short(bytes)),
        _ => Ok(content.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: UnitAddress = UnitAddress { lun: 0, bytes: [0; 8] };

    fn response(tag: u64, into: Residual) -> ReceivedResponse {
        ReceivedResponse { tag, limit_delta: 1, status: 0, sense: None, code: None, out: Residual::None, into }
    }

    fn begin(channel: &mut Channel, tag: u64, data: DiskCommandData) {
        channel.begin(tag, Purpose::Setup, UNIT, Cdb([0; 16]), data);
    }

    #[test]
    fn commands_leave_a_credit_for_task_management() {
        let mut channel = Channel::new(3, 10);
        begin(&mut channel, 0, DiskCommandData::None);
        assert!(channel.has_room());
        begin(&mut channel, 1, DiskCommandData::None);
        assert!(!channel.has_room() && channel.take_reserve() && !channel.take_reserve());
        channel.add_credits(2);
        assert!(channel.has_room());
        channel.add_credits(i32::MIN);
        assert!(!channel.has_room());
        assert!(Channel::new(1, 1).has_room() && !Channel::new(0, 1).has_room());
    }

    #[test]
    fn responses_that_name_no_sent_command_are_breaches() {
        let mut channel = Channel::new(9, 9);
        let page = DiskCommandData::Awaited(DiskContent::Page(100));
        begin(&mut channel, 0, page.clone());
        let none = response(0, Residual::None);
        assert_eq!(channel.end(&none, None).err(), Some(Breach::NotSent(0)));
        channel.sent(Duration::ZERO, 0, Some(7));
        assert_eq!(channel.end(&none, Some(8)).err(), Some(Breach::WrongKey(8)));
        let ended = channel.end(&response(0, Residual::Under(30)), Some(7)).expect("an end");
        assert_eq!(ended.release, Some((true, DiskOutcome::Take(DiskContent::Page(70)))));
        assert_eq!(channel.end(&none, None).err(), Some(Breach::UnknownCommand(0)));
        // Data that did not come is a failure.
        let data = DiskContent::Request { request: 1, offset: 0, length: 512 };
        begin(&mut channel, 1, DiskCommandData::Awaited(data));
        channel.sent(Duration::ZERO, 1, Some(9));
        let ended = channel.end(&response(1, Residual::Under(512)), None).expect("an end");
        assert_eq!(
            (ended.result, ended.release),
            (Err(CommandFailure::Short(512)), Some((false, DiskOutcome::Discard)))
        );
    }

    #[test]
    fn aborted_commands_give_their_memory_back() {
        let mut channel = Channel::new(9, 9);
        (0..3).for_each(|tag| begin(&mut channel, tag, DiskCommandData::None));
        channel.sent(Duration::from_secs(5), 1, Some(3));
        channel.sent(Duration::from_secs(1), 2, None);
        let late =
            |channel: &Channel, at| channel.late(Duration::from_secs(at), Duration::from_secs(30)).map(|late| late.tag);
        assert_eq!([30, 31, 40].map(|at| late(&channel, at)), [None, Some(2), Some(1)]);
        let tags = |ended: &[Ended]| ended.iter().map(|ended| (ended.tag, ended.release.is_some())).collect::<Vec<_>>();
        assert_eq!(tags(&channel.take_aborted(UNIT, Some(2))), [(2, false)]);
        // The command that the owner has not sent stays.
        assert_eq!(tags(&channel.take_aborted(UNIT, None)), [(1, true)]);
        assert_eq!((channel.in_progress(), channel.has(0)), (1, true));
    }
}
