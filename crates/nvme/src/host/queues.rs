//! Queues of a controller with their commands in progress.

use std::time::Duration;

use super::action::{CommandData, Content, Outcome, Outgoing, SlotKey};
use super::breach::Breach;
use super::request::Piece;
use super::slots::Slots;
use crate::wire::{Command, Completion};

/// Purpose of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Step of the setup.
    Setup,
    /// Keep Alive.
    KeepAlive,
    /// Step of the shutdown.
    Shutdown,
    /// Piece of a request.
    Piece(Piece),
}

/// Memory that a command lends to the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loan {
    None,
    /// The owner has to register it, and then sends the command.
    Wanted,
    /// The target has this key.
    Key(u32),
}

#[derive(Debug)]
struct OpenCommand {
    purpose: Purpose,
    since: Duration,
    loan: Loan,
    /// Data that the target writes.
    awaited: Option<Content>,
}

/// Completed command.
#[derive(Debug)]
pub struct Completed {
    /// Its purpose.
    pub purpose: Purpose,
    /// The completion.
    pub completion: Completion,
    /// Memory to take back: whether its key is invalid, and the use of the bytes.
    pub release: Option<(bool, Outcome)>,
    /// Its place.
    pub slot: SlotKey,
}

/// Queues: the first is the admin queue.
#[derive(Debug, Default)]
pub struct Queues(Vec<Slots<OpenCommand>>);

impl Queues {
    /// Adds the next queue.
    pub fn open(&mut self, entries: u16) {
        self.0.push(Slots::new(entries));
    }

    /// Number of queues.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Commands in progress on all queues.
    pub fn in_progress(&self) -> usize {
        self.0.iter().map(Slots::len).sum()
    }

    /// Returns the I/O queue with the fewest commands that has room.
    pub fn io_with_room(&self) -> Option<u16> {
        let io = self.0.iter().enumerate().skip(1).filter(|(_, slots)| slots.has_room());
        io.min_by_key(|(_, slots)| slots.len()).map(|(index, _)| index as u16)
    }

    /// Begins a command. `None`: the queue is full, or there is no such queue.
    pub fn send(
        &mut self,
        now: Duration,
        queue: u16,
        purpose: Purpose,
        command: Command,
        data: CommandData,
    ) -> Option<Outgoing> {
        let (loan, awaited) = match &data {
            CommandData::None | CommandData::Capsule(_) => (Loan::None, None),
            CommandData::Lent(_) => (Loan::Wanted, None),
            CommandData::Awaited(content) => (Loan::Wanted, Some(content.clone())),
        };
        let open = OpenCommand { purpose, since: now, loan, awaited };
        let id = self.0.get_mut(usize::from(queue))?.put(open)?;
        Some(Outgoing { slot: SlotKey { queue, command: id }, data, command: command.with_id(id) })
    }

    /// Notes the key that a command lends. The command is sent now.
    pub fn lent(&mut self, slot: SlotKey, key: u32) {
        let open = self.0.get_mut(usize::from(slot.queue)).and_then(|slots| slots.get_mut(slot.command));
        if let Some(open) = open.filter(|open| open.loan == Loan::Wanted) {
            open.loan = Loan::Key(key);
        }
    }

    /// Ends a command by a capsule of the target, which may have invalidated a key. `None`: there is no such queue (any more).
    ///
    /// # Errors
    /// The target broke the protocol.
    pub fn complete(
        &mut self,
        queue: u16,
        capsule: &[u8],
        invalidated: Option<u32>,
    ) -> Result<Option<Completed>, Breach> {
        let Some(slots) = self.0.get_mut(usize::from(queue)) else { return Ok(None) };
        let completion = Completion::parse(capsule).ok_or(Breach::Short)?;
        let id = completion.command_id;
        let lent = match slots.get_mut(id).map(|open| open.loan) {
            None => return Err(Breach::UnknownCommand(id)),
            Some(Loan::Wanted) => return Err(Breach::NotSent(id)),
            Some(Loan::None) => None,
            Some(Loan::Key(key)) => Some(key),
        };
        if let Some(key) = invalidated.filter(|key| lent != Some(*key)) {
            return Err(Breach::WrongKey(key));
        }
        let Some(open) = slots.take(id) else { return Err(Breach::UnknownCommand(id)) };
        let outcome = match open.awaited {
            Some(content) if completion.status.is_success() => Outcome::Take(content),
            _ => Outcome::Discard,
        };
        let release = lent.map(|_| (invalidated.is_some(), outcome));
        let slot = SlotKey { queue, command: id };
        Ok(Some(Completed { purpose: open.purpose, completion, release, slot }))
    }

    /// Whether a command is in progress for longer than its time.
    pub fn is_late(&self, now: Duration, limit: Duration) -> bool {
        self.0.iter().flat_map(Slots::iter).any(|open| open.since + limit <= now)
    }

    /// Ends all queues, and returns the pieces that were in progress.
    pub fn drain(&mut self) -> Vec<Piece> {
        let queues = std::mem::take(&mut self.0);
        let open = queues.into_iter().flat_map(Slots::drain);
        open.filter_map(|open| if let Purpose::Piece(piece) = open.purpose { Some(piece) } else { None }).collect()
    }
}
