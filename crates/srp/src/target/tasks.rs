//! Task management functions: they abort commands, and are answered once those have ended (SAM-5 §7).

use std::collections::BTreeSet;

use super::Target;
use super::action::{Action, ChannelEvent, ChannelKey, CommandKey, ResponseData};
use super::channel::{Abort, PendingTask, Progress, Request, no_buffer};
use crate::scsi::{Cdb, Lun, Sense, parse_lun};
use crate::wire::{ResponseIu, TaskFunction, TaskIu, TaskStatus};

impl Target {
    /// Handles a task management request.
    pub(super) fn task(&mut self, channel: ChannelKey, iu: &TaskIu) {
        let lun = parse_lun(iu.lun);
        let request = Request {
            tag: iu.tag,
            lun,
            cdb: Cdb([0; 16]),
            out: no_buffer(),
            into: no_buffer(),
            data_out: 0,
            data_in: 0,
            progress: Progress::Task,
            abort: None,
        };
        let Some(request) = self.begin_request(channel, request) else { return };
        let victims = match self.victims(channel, lun, iu) {
            Ok(victims) => victims,
            Err(status) => return self.finish(request, ResponseIu::Task(status), ResponseData::None),
        };
        let event = ChannelEvent::Aborting { function: iu.function.0, commands: victims.len() };
        self.actions.push_back(Action::Log(channel, event));
        let mut waits: BTreeSet<_> = victims.iter().map(|(key, _)| *key).collect();
        if iu.function != TaskFunction::ABORT_TASK {
            waits.extend(self.stale.keys());
        }
        self.tasks.push(PendingTask { request, waits });
        for (victim, abort) in victims {
            self.abort(victim, abort);
        }
        self.answer_tasks();
    }

    /// Returns the commands that a function aborts.
    fn victims(
        &mut self,
        channel: ChannelKey,
        lun: Option<Lun>,
        iu: &TaskIu,
    ) -> Result<Vec<(CommandKey, Abort)>, TaskStatus> {
        let own = self.channels.get(&channel).map(|channel| channel.initiator);
        let mut victims = Vec::new();
        for (key, other) in &self.channels {
            let abort = if Some(other.initiator) == own { Abort::Silent } else { Abort::Reported };
            let is_meant = |request: &Request| match iu.function {
                TaskFunction::ABORT_TASK => *key == channel && request.tag == iu.task,
                TaskFunction::ABORT_TASK_SET => abort == Abort::Silent,
                _ => true,
            };
            let meant = other.open.iter().filter(|(_, request)| request.is_command() && request.lun == lun);
            let meant = meant.filter(|(_, request)| request.abort.is_none() && is_meant(request));
            victims.extend(meant.map(|(sequence, _)| (CommandKey { channel: *key, sequence: *sequence }, abort)));
        }
        match iu.function {
            TaskFunction::ABORT_TASK | TaskFunction::ABORT_TASK_SET | TaskFunction::CLEAR_TASK_SET => Ok(victims),
            TaskFunction::UNIT_RESET => {
                let Some(lun) = lun.filter(|lun| self.device.reset(Some(*lun))) else {
                    return Err(TaskStatus::InvalidFields);
                };
                let nexuses = self.nexuses.values_mut();
                nexuses.for_each(|nexus| nexus.attentions.establish(lun, Sense::UNIT_RESET));
                Ok(victims)
            }
            _ => Err(TaskStatus::NotSupported),
        }
    }

    /// Aborts a command, which ends at once unless the owner works on it.
    fn abort(&mut self, key: CommandKey, abort: Abort) {
        let Some(request) = self.request(key) else { return };
        request.abort = Some(abort);
        if matches!(request.progress, Progress::Held(..)) {
            self.finish(key, ResponseIu::Aborted, ResponseData::None);
        }
    }

    /// Notes the end of a command: functions that waited for nothing else are answered.
    pub(super) fn settle(&mut self, key: CommandKey) {
        for task in &mut self.tasks {
            task.waits.remove(&key);
        }
        self.answer_tasks();
    }

    fn answer_tasks(&mut self) {
        while let Some(at) = self.tasks.iter().position(|task| task.waits.is_empty()) {
            let task = self.tasks.remove(at);
            self.finish(task.request, ResponseIu::Task(TaskStatus::Complete), ResponseData::None);
        }
    }
}
