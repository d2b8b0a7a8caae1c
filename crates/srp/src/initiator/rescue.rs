//! Commands that take too long: ABORT TASK, then LOGICAL UNIT RESET, then a new login (SAM-5 §7; as Linux's error handling).

use std::time::Duration;

use super::action::{InitiatorAction, InitiatorEvent};
use super::channel::{Late, Purpose, Rescue};
use super::failure::LostReason;
use super::session::Initiator;
use crate::limits::TASK_TIMEOUT;
use crate::wire::{TaskFunction, TaskIu};

/// Code of a function that is complete.
const COMPLETE: u8 = 0;

impl Initiator {
    /// Aborts a command that takes too long, unless a function is in progress.
    pub(super) fn check_late(&mut self, now: Duration) {
        match self.rescue {
            Some(rescue) if rescue.since + TASK_TIMEOUT <= now => self.escalate(now, &rescue),
            Some(_) => {}
            None => {
                let late = self.channel.as_ref().and_then(|channel| channel.late(now, self.config.command_timeout));
                if let Some(late) = late {
                    self.send_task(now, late, false);
                }
            }
        }
    }

    fn send_task(&mut self, now: Duration, late: Late, is_reset: bool) {
        if !self.channel.as_mut().is_some_and(|channel| channel.take_reserve()) {
            return self.lose(now, LostReason::Timeout("a command", self.config.command_timeout));
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        let function = if is_reset { TaskFunction::UNIT_RESET } else { TaskFunction::ABORT_TASK };
        let task = TaskIu { tag: tag.to_be_bytes(), lun: late.unit.bytes, function, task: late.tag.to_be_bytes() };
        self.rescue = Some(Rescue { tag, late, is_reset, since: now });
        self.had_aborts = true;
        let event = InitiatorEvent::Aborting { lun: late.unit.lun, opcode: late.opcode, is_reset };
        self.actions.push_back(InitiatorAction::Log(event));
        self.actions.push_back(InitiatorAction::SendUnit(task.to_bytes()));
    }

    /// The function did not help.
    fn escalate(&mut self, now: Duration, rescue: &Rescue) {
        self.rescue = None;
        if rescue.is_reset {
            self.lose(now, LostReason::Timeout("a command", self.config.command_timeout));
        } else {
            self.send_task(now, rescue.late, true);
        }
    }

    /// Handles the answer to the function.
    pub(super) fn on_task(&mut self, now: Duration, code: Option<u8>) {
        let (Some(rescue), Some(channel)) = (self.rescue.take(), &mut self.channel) else { return };
        if code != Some(COMPLETE) && channel.has(rescue.late.tag) {
            return self.escalate(now, &rescue);
        }
        let only = (!rescue.is_reset).then_some(rescue.late.tag);
        for ended in channel.take_aborted(rescue.late.unit, only) {
            if let Some((is_invalid, outcome)) = ended.release {
                self.actions.push_back(InitiatorAction::Release { tag: ended.tag, is_invalid, outcome });
            }
            if let Purpose::Piece(piece) = ended.purpose {
                self.backlog.lost(now, piece);
            }
        }
    }
}
