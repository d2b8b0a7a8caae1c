//! The way of a SCSI command: descriptors, the device's steps, the operation, the response.

use super::Target;
use super::action::{Action, ChannelEvent, ChannelKey, CommandKey, DataMove, Response, ResponseData};
use super::channel::{Abort, Progress, Request, no_buffer};
use crate::scsi::{Cdb, Fault, Operation, Sense, Step, parse_lun};
use crate::wire::{CommandIu, Descriptors, Residual, ResponseIu, TaskAttribute};

impl Target {
    /// Handles a command.
    pub(super) fn command(&mut self, channel: ChannelKey, iu: CommandIu) {
        let (out, into, readable) = match iu.buffers {
            Ok((out, into)) => (out, into, true),
            Err(_) => (no_buffer(), no_buffer(), false),
        };
        let request = Request {
            tag: iu.tag,
            lun: parse_lun(iu.lun),
            cdb: Cdb(iu.cdb),
            out,
            into,
            data_out: 0,
            data_in: 0,
            progress: Progress::New,
            abort: None,
        };
        let Some(key) = self.begin_request(channel, request) else { return };
        let is_twice = self.channels.get(&channel).is_some_and(|channel| channel.has_twice(iu.tag));
        if is_twice {
            self.fail(key, Sense::OVERLAPPED);
        } else if !readable || iu.attribute != TaskAttribute::SIMPLE {
            self.fail(key, Sense::INVALID_UNIT_FIELD);
        } else {
            self.resolve(key);
        }
    }

    /// Fetches a table of descriptors that is not known, or begins the command.
    fn resolve(&mut self, key: CommandKey) {
        let Some(request) = self.request(key) else { return };
        let missing = [&request.out, &request.into].into_iter().find_map(|buffer| match buffer {
            Descriptors::Indirect(indirect) => Some(indirect.table),
            Descriptors::Known(_) => None,
        });
        match missing {
            Some(table) => {
                request.progress = Progress::Table;
                self.actions.push_back(Action::Fetch { command: key, pieces: vec![table], length: table.length });
            }
            None => self.begin(key),
        }
    }

    /// Takes a table of descriptors.
    pub(super) fn table(&mut self, key: CommandKey, bytes: &[u8]) {
        let Some(request) = self.request(key) else { return };
        let buffer = match &mut request.out {
            Descriptors::Indirect(_) => &mut request.out,
            Descriptors::Known(_) => &mut request.into,
        };
        let Descriptors::Indirect(indirect) = buffer else { return };
        match indirect.with_table(bytes) {
            Ok(known) => {
                *buffer = Descriptors::Known(known);
                self.resolve(key);
            }
            Err(_) => self.fail(key, Sense::INVALID_UNIT_FIELD),
        }
    }

    /// Begins a command whose buffers are known.
    fn begin(&mut self, key: CommandKey) {
        let Some(channel) = self.channels.get(&key.channel) else { return };
        let Some(request) = channel.open.get(&key.sequence) else { return };
        let Some(nexus) = self.nexuses.get_mut(&channel.initiator) else { return };
        let step = self.device.begin(&mut nexus.attentions, request.lun, &request.cdb);
        self.step(key, step);
    }

    /// Takes parameters of a command.
    pub(super) fn parameters(&mut self, key: CommandKey, bytes: &[u8]) {
        let Some(request) = self.request(key) else { return };
        let (lun, cdb) = (request.lun, request.cdb);
        let step = self.device.with_data(lun, &cdb, bytes);
        self.step(key, step);
    }

    fn step(&mut self, key: CommandKey, step: Result<Step, Sense>) {
        match step {
            Err(sense) => self.fail(key, sense),
            Ok(Step::Done) => self.succeed(key, ResponseData::None),
            Ok(Step::Data(bytes)) => self.return_data(key, bytes),
            Ok(Step::Fetch(length)) => self.fetch(key, length),
            Ok(Step::Execute(operation)) => self.execute(key, operation),
        }
    }

    fn return_data(&mut self, key: CommandKey, mut bytes: Vec<u8>) {
        let Some(request) = self.request(key) else { return };
        let Descriptors::Known(buffer) = &request.into else { return };
        request.data_in = bytes.len() as u32;
        bytes.truncate(buffer.length as usize);
        let pieces = buffer.first(bytes.len() as u32);
        let data = if bytes.is_empty() { ResponseData::None } else { ResponseData::Bytes(bytes, pieces) };
        self.succeed(key, data);
    }

    /// Fetches parameters of a command, or takes them from its immediate data.
    fn fetch(&mut self, key: CommandKey, length: u32) {
        let Some(request) = self.request(key) else { return };
        let Descriptors::Known(buffer) = &request.out else { return };
        request.data_out = length;
        if buffer.length < length {
            return self.fail(key, Sense::INVALID_UNIT_FIELD);
        }
        match &buffer.immediate {
            Some(bytes) => {
                let bytes = bytes.get(..length as usize).unwrap_or_default().to_vec();
                self.parameters(key, &bytes);
            }
            None => {
                let pieces = buffer.first(length);
                request.progress = Progress::Parameters;
                self.actions.push_back(Action::Fetch { command: key, pieces, length });
            }
        }
    }

    /// Hands an operation to the owner, unless an older one of the same initiator must end before.
    fn execute(&mut self, key: CommandKey, operation: Operation) {
        let (out_bytes, in_bytes) = (operation.data_out(), operation.data_in());
        let Some(request) = self.request(key) else { return };
        let (Descriptors::Known(out), Descriptors::Known(into)) = (&mut request.out, &request.into) else { return };
        // The parameters that were fetched before count, too.
        request.data_out += out_bytes;
        request.data_in = in_bytes;
        if out.length < request.data_out {
            return self.fail(key, Sense::INVALID_UNIT_FIELD);
        }
        let room = into.length.min(in_bytes);
        if in_bytes > 0 && room == 0 {
            return self.succeed(key, ResponseData::None);
        }
        let data = match out.immediate.take() {
            _ if in_bytes > 0 => DataMove::Scatter(into.first(room)),
            _ if out_bytes == 0 => DataMove::None,
            Some(mut bytes) => {
                bytes.truncate(out_bytes as usize);
                DataMove::Immediate(bytes)
            }
            None => DataMove::Gather(out.first(out_bytes)),
        };
        request.progress = Progress::Held(operation.cut(room), data);
        let initiator = self.channels.get(&key.channel).map(|channel| channel.initiator);
        if !self.stale.values().any(|stale| Some(*stale) == initiator) {
            self.release(key);
        }
    }

    /// Hands over an operation that was held.
    pub(super) fn release(&mut self, key: CommandKey) {
        let Some(request) = self.request(key) else { return };
        let Some(lun) = request.lun.filter(|_| matches!(request.progress, Progress::Held(..))) else { return };
        if let Progress::Held(operation, data) = std::mem::replace(&mut request.progress, Progress::Queued) {
            self.actions.push_back(Action::Execute { command: key, lun, operation, data });
        }
    }

    /// Ends a command whose operation has ended.
    pub(super) fn executed(&mut self, key: CommandKey, done: Result<(), Fault>) {
        let Some(request) = self.request(key) else { return };
        match done {
            Ok(()) if request.data_in > 0 => self.succeed(key, ResponseData::Executed),
            Ok(()) => self.succeed(key, ResponseData::None),
            Err(fault) => self.fail(key, fault.sense()),
        }
    }

    /// Ends a command with CHECK CONDITION. Its residuals say whether a buffer was too short.
    fn fail(&mut self, key: CommandKey, sense: Sense) {
        self.log_failure(key, sense);
        let Some(request) = self.request(key) else { return };
        let (out, into) = request.lengths();
        let out = if request.data_out > out { Residual::of(request.data_out, out) } else { Residual::of(0, out) };
        let iu = ResponseIu::Command { ended: Err(sense), out, into: Residual::of(0, into) };
        self.finish(key, iu, ResponseData::None);
    }

    fn succeed(&mut self, key: CommandKey, data: ResponseData) {
        let Some(request) = self.request(key) else { return };
        let (out, into) = request.lengths();
        let (out, into) = (Residual::of(request.data_out, out), Residual::of(request.data_in, into));
        self.finish(key, ResponseIu::Command { ended: Ok(()), out, into }, data);
    }

    fn log_failure(&mut self, key: CommandKey, sense: Sense) {
        let Some(request) = self.request(key) else { return };
        // Unit attention conditions are no failures.
        if request.abort.is_none() && sense.key != Sense::POWER_ON.key {
            let event = ChannelEvent::Failed { opcode: request.cdb.opcode(), sense };
            self.actions.push_back(Action::Log(key.channel, event));
        }
    }

    /// Ends a request: with its response, or as it was aborted.
    pub(super) fn finish(&mut self, key: CommandKey, iu: ResponseIu, data: ResponseData) {
        let Some(channel) = self.channels.get_mut(&key.channel) else { return };
        let Some(request) = channel.open.remove(&key.sequence) else { return };
        let (iu, data) = match request.abort {
            Some(Abort::Silent) => {
                channel.without_response();
                self.actions.push_back(Action::Forget(key));
                return self.settle_and_credit(key);
            }
            Some(Abort::Reported) => (ResponseIu::Aborted, ResponseData::None),
            None => (iu, data),
        };
        let iu = iu.to_bytes(request.tag, channel.take_credit());
        self.actions.push_back(Action::Respond(Response { command: key, data, iu }));
        self.settle_and_credit(key);
    }

    fn settle_and_credit(&mut self, key: CommandKey) {
        self.settle(key);
        self.request_credit(key.channel);
    }
}
