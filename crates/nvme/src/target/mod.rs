//! Target: all queues and controllers. Received capsules and ended work go in, [`Action`]s come out.

mod action;
mod admin;
mod config;
mod controller;
mod data;
mod fabrics;
mod features;
mod io;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use action::{Action, CloseReason, CommandKey, ControllerEvent, IoData, QueueKey, Response};
pub use config::{LocalAddress, Namespace, Port, Referral, Subsystem, TargetConfig};

use crate::limits::{ASYNC_EVENTS_MAX, CONNECTS_WITHIN, CONTROLLER_ID_MAX, CONTROLLERS_MAX, KEEP_ALIVE_GRANULARITY};
use crate::wire::{
    AcceptData, AdminOpcode, COMMAND_LEN, CONNECT_DATA_LEN, Command, ConnectData, ConnectFields, ConnectRequest,
    Descriptor, FabricsType, HostMemory, IoOpcode, OPCODE_FABRICS, PropertyOffset, RequestError,
};
use crate::{Operation, Status};
use admin::Context;
use controller::Controller;
use data::HostData;
use fabrics::Refusal;
use features::Feature;
use io::IoStep;
use queue::{Association, Progress, Queue};

/// Sizes of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Receives to post.
    pub receives: u16,
    /// Bytes of each.
    pub receive_bytes: u32,
    /// Private data of the acceptance.
    pub accept: AcceptData,
}

/// Target.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    queues: BTreeMap<QueueKey, Queue>,
    controllers: BTreeMap<u16, Controller>,
    last_controller: u16,
    actions: VecDeque<Action>,
}

/// End of a command's first step.
enum Step {
    /// It succeeded with this result.
    Done(u64),
    /// It returns data.
    Data(Vec<u8>),
    /// It goes on later.
    Later,
}

impl Target {
    /// Creates a target without queues.
    pub fn new(config: TargetConfig) -> Target {
        Target {
            config,
            queues: BTreeMap::new(),
            controllers: BTreeMap::new(),
            last_controller: 0,
            actions: VecDeque::new(),
        }
    }

    /// Takes a connection request on a port (an index of the configuration).
    ///
    /// # Errors
    /// The reason to refuse it.
    pub fn admit(
        &mut self,
        now: Duration,
        queue: QueueKey,
        port: usize,
        local: LocalAddress,
        private_data: &[u8],
    ) -> Result<Admitted, RequestError> {
        let announced = ConnectRequest::parse(private_data)?;
        let receives = announced.host_sends;
        self.queues.insert(queue, Queue::new(port, local, announced, now + CONNECTS_WITHIN));
        let receive_bytes = COMMAND_LEN as u32 + self.config.in_capsule_bytes;
        Ok(Admitted { receives, receive_bytes, accept: AcceptData { receives } })
    }

    /// Handles a received capsule.
    pub fn handle_capsule(&mut self, now: Duration, key: QueueKey, capsule: &[u8]) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        let Some((command, data)) = Command::parse(capsule) else { return self.close(key, CloseReason::Short) };
        let sequence = match queue.begin(&command, key_to_invalidate(&command)) {
            Ok(sequence) => sequence,
            Err(reason) => return self.close(key, reason),
        };
        let is_twice = queue.has_id_twice(command.id());
        let association = queue.association;
        if let Some(controller) = association.and_then(|found| self.controllers.get_mut(&found.controller)) {
            controller.on_traffic(now);
        }
        let key = CommandKey { queue: key, sequence };
        let step = match association {
            _ if is_twice => Err(Status::ID_CONFLICT.final_one()),
            None => self.before_connect(now, key, &command, data),
            Some(_) if command.opcode == OPCODE_FABRICS => self.fabrics(key, &command),
            Some(Association { controller, queue_id: 0 }) => self.admin(now, key, controller, &command),
            Some(Association { controller, .. }) => self.io(key, controller, &command, data),
        };
        self.finish(key, Some(&command), step);
    }

    /// Handles data that an [`Action::Fetch`] asked for.
    pub fn handle_data(&mut self, now: Duration, key: CommandKey, data: &[u8]) {
        let Some(queue) = self.queues.get_mut(&key.queue) else { return };
        let association = queue.association;
        let Some(open) = queue.open(key.sequence) else { return };
        let Progress::Fetching(command) = std::mem::replace(&mut open.progress, Progress::Executing) else { return };
        let step = match association {
            None => return self.connect(now, key, &command, data),
            // A second Connect, on a connection that the first one made a queue.
            Some(_) if command.opcode == OPCODE_FABRICS => Err(Status::SEQUENCE_ERROR.final_one()),
            Some(found) => self
                .namespace(found.controller, command.nsid())
                .and_then(|(_, namespace)| io::deallocation(&command, data, namespace)),
        };
        let step = step.and_then(|step| self.begin_io(key, association, &command, step));
        self.finish(key, Some(&command), step);
    }

    /// Handles the end of an [`Action::Execute`]: the response follows. The owner has posted a Read's data before.
    pub fn handle_executed(&mut self, key: CommandKey, done: Result<(), Status>) {
        self.finish(key, None, done.map(|()| Step::Done(0)));
    }

    /// Forgets a queue whose connection has ended. With an admin queue its controller ends, and all its queues.
    pub fn queue_closed(&mut self, key: QueueKey) {
        let Some(Association { controller, queue_id }) = self.queues.remove(&key).and_then(|queue| queue.association)
        else {
            return;
        };
        if queue_id != 0 {
            if let Some(controller) = self.controllers.get_mut(&controller) {
                controller.io_queues.remove(&queue_id);
            }
        } else if let Some(controller) = self.controllers.remove(&controller) {
            controller.io_queues.values().for_each(|queue| self.close(*queue, CloseReason::ControllerGone));
        }
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the time of the next [`Target::handle_timeout`].
    pub fn deadline(&self) -> Option<Duration> {
        let waiting = self.queues.values().filter(|queue| queue.association.is_none());
        let connects = waiting.map(|queue| queue.connects_by);
        connects.chain(self.controllers.values().filter_map(Controller::expires)).min()
    }

    /// Ends queues without Connect, and controllers whose keep-alive timer expired.
    pub fn handle_timeout(&mut self, now: Duration) {
        let silent = |queue: &Queue| queue.association.is_none() && queue.connects_by <= now;
        let silent: Vec<_> = self.queues.iter().filter(|(_, queue)| silent(queue)).map(|(key, _)| *key).collect();
        for (key, queue) in &mut self.queues {
            if silent.contains(key) {
                // Once is enough.
                queue.connects_by = now + CONNECTS_WITHIN;
                self.actions.push_back(Action::Close(*key, CloseReason::NoConnect));
            }
        }
        for controller in self.controllers.values_mut() {
            if controller.expires().is_some_and(|expires| expires <= now) {
                controller.on_traffic(now + KEEP_ALIVE_GRANULARITY);
                self.actions.push_back(Action::Close(controller.admin, CloseReason::KeepAlive));
            }
        }
    }

    /// Number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    fn close(&mut self, key: QueueKey, reason: CloseReason) {
        self.actions.push_back(Action::Close(key, reason));
    }

    /// Sends the response of a command whose step is the last one.
    fn finish(&mut self, key: CommandKey, command: Option<&Command>, step: Result<Step, Status>) {
        let (result, data, status) = match step {
            Ok(Step::Later) => return,
            Ok(Step::Done(result)) => (result, None, Status::SUCCESS),
            Ok(Step::Data(bytes)) => match command.map(|command| returned(command, bytes)) {
                Some(Ok(data)) => (0, Some(data), Status::SUCCESS),
                Some(Err(status)) => (0, None, status),
                None => return,
            },
            Err(status) => (0, None, status),
        };
        self.respond(key, result, data, status);
    }

    fn respond(&mut self, key: CommandKey, result: u64, data: Option<(Vec<u8>, HostMemory)>, status: Status) {
        let Some(queue) = self.queues.get_mut(&key.queue) else { return };
        let Some((open, completion)) = queue.complete(key.sequence, result, status) else { return };
        if !status.is_success() {
            let event = ControllerEvent::Failed { opcode: open.opcode, status };
            self.actions.push_back(Action::Log(key.queue, event));
        }
        self.actions.push_back(Action::Respond(Response {
            command: key,
            data,
            completion,
            invalidate: open.invalidate,
        }));
    }

    /// Handles a command on a connection that is no controller's queue yet.
    fn before_connect(
        &mut self,
        now: Duration,
        key: CommandKey,
        command: &Command,
        data: &[u8],
    ) -> Result<Step, Status> {
        if command.opcode != OPCODE_FABRICS || command.fabrics_type() != FabricsType::CONNECT {
            return Err(Status::SEQUENCE_ERROR.final_one());
        }
        match HostData::find(command, data)? {
            HostData::Capsule(bytes) => {
                self.connect(now, key, command, bytes);
                Ok(Step::Later)
            }
            HostData::Remote(memory) if memory.length as usize != CONNECT_DATA_LEN => {
                Err(Status::DATA_LENGTH_INVALID.final_one())
            }
            HostData::Remote(memory) => Ok(self.fetch(key, command, memory)),
        }
    }

    fn fetch(&mut self, key: CommandKey, command: &Command, memory: HostMemory) -> Step {
        if let Some(open) = self.queues.get_mut(&key.queue).and_then(|queue| queue.open(key.sequence)) {
            open.progress = Progress::Fetching(*command);
            self.actions.push_back(Action::Fetch(key, memory));
        }
        Step::Later
    }

    /// Handles Connect, whose data is here.
    fn connect(&mut self, now: Duration, key: CommandKey, command: &Command, bytes: &[u8]) {
        let fields = ConnectFields::of(command);
        let parsed = ConnectData::parse(bytes);
        let done = match &parsed {
            Ok(data) => self.associate(now, key.queue, &fields, data),
            Err(offset) => Err(Refusal::malformed(*offset)),
        };
        match done {
            Ok(controller) => self.respond(key, controller.into(), None, Status::SUCCESS),
            Err(refusal) => {
                let (subsystem, host) = parsed.map(|data| (data.subsystem, data.host)).unwrap_or_default();
                let event = ControllerEvent::Refused { subsystem, host, reason: refusal.reason };
                self.actions.push_back(Action::Log(key.queue, event));
                self.respond(key, refusal.result, None, refusal.status);
            }
        }
    }

    /// Makes a connection a controller's queue, and returns the controller.
    fn associate(
        &mut self,
        now: Duration,
        key: QueueKey,
        fields: &ConnectFields,
        data: &ConnectData,
    ) -> Result<u16, Refusal> {
        let unknown = Refusal::new(Status::INTERNAL, "the connection has ended");
        let queue = self.queues.get(&key).ok_or(unknown)?;
        fabrics::check_fields(fields, &queue.announced)?;
        let id = if fields.queue_id == 0 {
            let port = self.config.ports.get(queue.port).ok_or(unknown)?;
            let subsystem = fabrics::check_admin(&self.config, port, data)?;
            let id = self.free_id().ok_or(Refusal::new(Status::CONNECT_BUSY, "too many controllers"))?;
            let mut controller = Controller::new(id, subsystem, data, key, self.config.io_queues_max);
            controller.set_keep_alive(now, fields.keep_alive_ms);
            self.controllers.insert(id, controller);
            self.last_controller = id;
            let (subsystem, host) = (data.subsystem.clone(), data.host.clone());
            let event = ControllerEvent::Created { controller: id, subsystem, host };
            self.actions.push_back(Action::Log(key, event));
            id
        } else {
            let controller = self.controllers.get(&data.controller);
            let subsystem = controller.and_then(|controller| self.config.subsystems.get(controller.subsystem?));
            fabrics::check_io(controller, subsystem.map(|found| &found.nqn[..]), fields, data)?;
            if let Some(controller) = self.controllers.get_mut(&data.controller) {
                controller.io_queues.insert(fields.queue_id, key);
                controller.on_traffic(now);
            }
            data.controller
        };
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.associate(Association { controller: id, queue_id: fields.queue_id }, fields);
        }
        Ok(id)
    }

    /// Returns an identifier for a controller: not the last one, which its host may still know.
    fn free_id(&self) -> Option<u16> {
        if self.controllers.len() >= CONTROLLERS_MAX {
            return None;
        }
        let after = self.last_controller + 1..=CONTROLLER_ID_MAX;
        after.chain(1..=self.last_controller).find(|id| !self.controllers.contains_key(id))
    }

    /// Handles a Fabrics command on a controller's queue.
    fn fabrics(&mut self, key: CommandKey, command: &Command) -> Result<Step, Status> {
        let association = self.queues.get(&key.queue).and_then(|queue| queue.association);
        let controller = association.filter(|found| found.queue_id == 0).map(|found| found.controller);
        let offset = PropertyOffset(command.cdw(11));
        let is_long = match command.cdw(10) & 7 {
            0 => false,
            1 => true,
            _ => return Err(Status::INVALID_FIELD.final_one()),
        };
        match (command.fabrics_type(), controller.and_then(|id| self.controllers.get_mut(&id))) {
            (FabricsType::PROPERTY_GET, Some(controller)) => controller.property(offset, is_long).map(Step::Done),
            (FabricsType::PROPERTY_SET, Some(controller)) => {
                controller.set_property(offset, is_long, command.cdw_pair(12))?;
                if !controller.is_ready() {
                    // A reset ends the requests that wait, without completions.
                    let waiting = std::mem::take(&mut controller.async_events);
                    let queue = self.queues.get_mut(&key.queue);
                    queue.into_iter().for_each(|queue| waiting.iter().for_each(|key| queue.forget(key.sequence)));
                }
                Ok(Step::Done(0))
            }
            (FabricsType::CONNECT, _) => Err(Status::SEQUENCE_ERROR.final_one()),
            _ => Err(Status::INVALID_OPCODE.final_one()),
        }
    }

    /// Handles a command on the admin queue.
    fn admin(&mut self, now: Duration, key: CommandKey, id: u16, command: &Command) -> Result<Step, Status> {
        let internal = Status::INTERNAL;
        let queues_max = self.config.io_queues_max;
        let controller = self.controllers.get_mut(&id).ok_or(internal)?;
        if !controller.is_ready() {
            return Err(Status::SEQUENCE_ERROR.final_one());
        }
        match AdminOpcode(command.opcode) {
            AdminOpcode::SET_FEATURES => {
                features::set(controller, now, command, queues_max).map(|result| Step::Done(result.into()))
            }
            AdminOpcode::GET_FEATURES => features::get(controller, command).map(|feature| match feature {
                Feature::Value(value) => Step::Done(value.into()),
                Feature::Data(bytes) => Step::Data(bytes),
            }),
            AdminOpcode::KEEP_ALIVE => Ok(Step::Done(0)),
            // The command to abort goes on: bit 0 says so.
            AdminOpcode::ABORT => Ok(Step::Done(1)),
            AdminOpcode::ASYNC_EVENT if controller.async_events.len() >= ASYNC_EVENTS_MAX => {
                Err(Status::ASYNC_LIMIT.final_one())
            }
            AdminOpcode::ASYNC_EVENT => {
                controller.async_events.push(key);
                if let Some(open) = self.queues.get_mut(&key.queue).and_then(|queue| queue.open(key.sequence)) {
                    open.progress = Progress::Held;
                }
                Ok(Step::Later)
            }
            AdminOpcode::IDENTIFY => self.context(key.queue, id).ok_or(internal)?.identify(command).map(Step::Data),
            AdminOpcode::GET_LOG_PAGE => self.context(key.queue, id).ok_or(internal)?.log_page(command).map(Step::Data),
            _ => Err(Status::INVALID_OPCODE.final_one()),
        }
    }
}

// Lookups and I/O commands.
impl Target {
    fn context(&self, queue: QueueKey, id: u16) -> Option<Context<'_>> {
        let controller = self.controllers.get(&id)?;
        let queue = self.queues.get(&queue)?;
        let port = self.config.ports.get(queue.port)?;
        let siblings = self.controllers.values().filter(|other| other.subsystem == controller.subsystem);
        let siblings = siblings.map(|other| other.id).collect();
        Some(Context { config: &self.config, controller, port, local: &queue.local, siblings })
    }

    /// Returns an active namespace of a controller's subsystem, with the subsystem's index.
    fn namespace(&self, controller: u16, nsid: u32) -> Result<(usize, &Namespace), Status> {
        let index = self.controllers.get(&controller).and_then(|controller| controller.subsystem);
        let index = index.ok_or(Status::INVALID_OPCODE.final_one())?;
        let namespace = self.config.subsystems.get(index).and_then(|subsystem| subsystem.namespace(nsid));
        namespace.map(|found| (index, found)).ok_or(Status::INVALID_NAMESPACE.final_one())
    }

    /// Handles a command on an I/O queue.
    fn io(&mut self, key: CommandKey, id: u16, command: &Command, data: &[u8]) -> Result<Step, Status> {
        let controller = self.controllers.get_mut(&id).ok_or(Status::INTERNAL)?;
        if !controller.is_ready() {
            return Err(Status::SEQUENCE_ERROR.final_one());
        }
        match IoOpcode(command.opcode) {
            IoOpcode::READ => controller.reads += 1,
            IoOpcode::WRITE => controller.writes += 1,
            _ => {}
        }
        let (_, namespace) = self.namespace(id, command.nsid())?;
        let step = io::begin(command, data, namespace)?;
        self.begin_io(key, Some(Association { controller: id, queue_id: 1 }), command, step)
    }

    fn begin_io(
        &mut self,
        key: CommandKey,
        association: Option<Association>,
        command: &Command,
        step: IoStep,
    ) -> Result<Step, Status> {
        let controller = association.map_or(0, |found| found.controller);
        match step {
            IoStep::Fetch(memory) => Ok(self.fetch(key, command, memory)),
            IoStep::Execute(Operation::Deallocate(ranges), _) if ranges.is_empty() => Ok(Step::Done(0)),
            IoStep::Execute(operation, data) => {
                let (subsystem, _) = self.namespace(controller, command.nsid())?;
                let namespace = command.nsid();
                self.actions.push_back(Action::Execute { command: key, subsystem, namespace, operation, data });
                Ok(Step::Later)
            }
        }
    }
}

/// Returns the key that the host wants invalidated by the response.
fn key_to_invalidate(command: &Command) -> Option<u32> {
    match Descriptor::parse(&command.descriptor) {
        Ok(Descriptor::Host(memory)) if memory.invalidate && memory.length > 0 => Some(memory.key),
        _ => None,
    }
}

/// Returns data with the memory for it, which has exactly its length.
fn returned(command: &Command, bytes: Vec<u8>) -> Result<(Vec<u8>, HostMemory), Status> {
    match Descriptor::parse(&command.descriptor).map_err(Status::final_one)? {
        Descriptor::Host(memory) if memory.length as usize == bytes.len() => Ok((bytes, memory)),
        Descriptor::Host(_) => Err(Status::DATA_LENGTH_INVALID.final_one()),
        // Responses carry no data.
        Descriptor::InCapsule { .. } => Err(Status::INVALID_FIELD.final_one()),
    }
}
