//! A host's session: Connect, properties, admin commands, I/O, and everything that a host may get wrong.

use super::*;
use crate::fuzzing::configuration;
use crate::wire::{Completion, DISCOVERY_NQN, DYNAMIC_CONTROLLER};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const DISK: &str = "nqn.2026-01.io.weft:disk";
/// CC as Linux's host sets it.
const ENABLED: u32 = 0x0046_0001;

struct Session {
    target: Target,
    now: Duration,
    next_id: u16,
}

fn memory(length: u32) -> HostMemory {
    HostMemory { address: 0x1000, length, key: 9, invalidate: false }
}

fn with_data(mut command: Command, memory: HostMemory) -> Command {
    command.descriptor = Descriptor::Host(memory).to_bytes();
    command
}

fn fabrics(kind: FabricsType) -> Command {
    Command::new(OPCODE_FABRICS, 0, kind.0.into())
}

fn bytes_of(command: &Command) -> Vec<u8> {
    zerocopy::IntoBytes::as_bytes(command).to_vec()
}

fn connect_data(subsystem: &str, controller: u16) -> ConnectData {
    ConnectData { host_id: [3; 16], controller, subsystem: subsystem.into(), host: HOST.into() }
}

impl Session {
    fn new(config: TargetConfig) -> Session {
        Session { target: Target::new(config), now: Duration::ZERO, next_id: 0 }
    }

    fn admit(&mut self, key: QueueKey, queue_id: u16) {
        let local = LocalAddress { is_ipv6: false, address: "192.0.2.1".into(), service: "4420".into() };
        let request = ConnectRequest { queue_id, host_receives: 32, host_sends: 32, controller: 1 };
        let admitted = self.target.admit(self.now, key, 0, local, &request.to_bytes()).expect("admitted");
        assert_eq!((admitted.receives, admitted.receive_bytes), (32, 64 + 512));
    }

    /// Sends a command, and returns the actions but for the log.
    fn send(&mut self, key: QueueKey, command: &Command) -> Vec<Action> {
        self.next_id += 1;
        let mut bytes = bytes_of(command);
        bytes[2..4].copy_from_slice(&self.next_id.to_le_bytes());
        self.target.handle_capsule(self.now, key, &bytes);
        self.actions()
    }

    fn actions(&mut self) -> Vec<Action> {
        let actions = std::iter::from_fn(|| self.target.poll());
        actions.filter(|action| !matches!(action, Action::Log(..))).collect()
    }

    fn response(&mut self, key: QueueKey, command: &Command) -> Response {
        match self.send(key, command).as_slice() {
            [Action::Respond(response)] => response.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn status(&mut self, key: QueueKey, command: &Command) -> u16 {
        self.response(key, command).completion.status.code()
    }

    fn connect(&mut self, key: QueueKey, queue_id: u16, data: &ConnectData) -> Completion {
        let fields = ConnectFields { format: 0, queue_id, sq_size: 31, disable_sq_flow: false, keep_alive_ms: 5000 };
        let command = fields.command(0, memory(1024));
        let fetched = match self.send(key, &command).as_slice() {
            [Action::Fetch(fetched, from)] if *from == memory(1024) => *fetched,
            other => panic!("{other:?}"),
        };
        self.target.handle_data(self.now, fetched, &data.to_bytes());
        match self.actions().as_slice() {
            [Action::Respond(response)] => response.completion,
            other => panic!("{other:?}"),
        }
    }

    /// Makes an enabled controller: queue 0 is its admin queue, queue 1 its I/O queue.
    fn connected() -> Session {
        let mut session = Session::new(configuration());
        session.admit(0, 0);
        let completion = session.connect(0, 0, &connect_data(DISK, DYNAMIC_CONTROLLER));
        assert_eq!((completion.result, completion.status, completion.sq_head), (1, Status::SUCCESS, 1));
        let enable = fabrics(FabricsType::PROPERTY_SET).with_cdw(11, 0x14).with_cdw(12, ENABLED);
        assert_eq!(session.status(0, &enable), 0);
        session.admit(1, 1);
        assert_eq!(session.connect(1, 1, &connect_data(DISK, 1)).result, 1);
        session
    }
}

fn identify(cns: u32, nsid: u32) -> Command {
    with_data(Command::new(AdminOpcode::IDENTIFY.0, 0, nsid).with_cdw(10, cns), memory(4096))
}

#[test]
fn a_host_connects_identifies_and_reads() {
    let mut session = Session::connected();
    let status = fabrics(FabricsType::PROPERTY_GET).with_cdw(11, 0x1c);
    assert_eq!(session.response(0, &status).completion.result, 1);
    let page = session.response(0, &identify(1, 0)).data.expect("data").0;
    assert_eq!((page[78], &page[768..768 + DISK.len()]), (1, DISK.as_bytes()));
    let list = session.response(0, &identify(2, 0)).data.expect("data").0;
    assert_eq!(list[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let mut read = Command::new(IoOpcode::READ.0, 0, 1).with_cdw(10, 8).with_cdw(12, 7);
    read = with_data(read, HostMemory { invalidate: true, ..memory(4096) });
    let actions = session.send(1, &read);
    let [Action::Execute { command, subsystem: 0, namespace: 1, operation, data: IoData::Host(_) }] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(*operation, Operation::Read { offset: 4096, length: 4096 });
    session.target.handle_executed(*command, Ok(()));
    let actions = session.actions();
    let [Action::Respond(response)] = &actions[..] else { panic!("{actions:?}") };
    // The host asked for the invalidation of its key.
    assert_eq!((response.invalidate, response.completion.status), (Some(9), Status::SUCCESS));
}

#[test]
fn only_connect_is_taken_before_connect_and_only_once() {
    let mut session = Session::new(configuration());
    session.admit(0, 0);
    assert_eq!(session.status(0, &identify(1, 0)), Status::SEQUENCE_ERROR.code());
    assert_eq!(session.status(0, &fabrics(FabricsType::PROPERTY_GET)), Status::SEQUENCE_ERROR.code());
    let short = with_data(fabrics(FabricsType::CONNECT), memory(1023));
    assert_eq!(session.status(0, &short), Status::DATA_LENGTH_INVALID.code());
    let mut session = Session::connected();
    let again = with_data(fabrics(FabricsType::CONNECT), memory(1024));
    assert_eq!(session.status(0, &again), Status::SEQUENCE_ERROR.code());
}

#[test]
fn a_second_connect_under_way_is_refused_when_its_data_arrives() {
    let mut session = Session::new(configuration());
    session.admit(0, 0);
    let fields = ConnectFields { format: 0, queue_id: 0, sq_size: 31, disable_sq_flow: true, keep_alive_ms: 0 };
    let command = fields.command(0, memory(1024));
    let fetched: Vec<_> = (0..2).flat_map(|_| session.send(0, &command)).collect();
    let mut results = Vec::new();
    for action in fetched {
        let Action::Fetch(key, _) = action else { panic!("{action:?}") };
        session.target.handle_data(session.now, key, &connect_data(DISK, DYNAMIC_CONTROLLER).to_bytes());
        results.extend(session.actions());
    }
    let completions: Vec<_> = results
        .iter()
        .map(|action| match action {
            Action::Respond(response) => (response.completion.status.code(), response.completion.sq_head),
            other => panic!("{other:?}"),
        })
        .collect();
    // Without SQ flow the head is all ones, from the response to Connect on.
    assert_eq!(completions, [(0, 0xffff), (Status::SEQUENCE_ERROR.code(), 0xffff)]);
    assert_eq!(session.target.controllers(), 1);
}

#[test]
fn connect_is_refused_with_the_place_of_the_wrong_field() {
    let mut config = configuration();
    let allowed = std::collections::BTreeSet::from(["nqn.2014-08.org.nvmexpress:uuid:2".to_owned()]);
    let refused = |config: &TargetConfig, data: ConnectData| {
        let mut session = Session::new(config.clone());
        session.admit(0, 0);
        let completion = session.connect(0, 0, &data);
        (completion.status.code(), completion.result)
    };
    let invalid = Status::CONNECT_INVALID.code();
    assert_eq!(refused(&config, connect_data("nqn.2026-01.io.weft:none", 0xffff)), (invalid, 0x1_0100));
    assert_eq!(refused(&config, connect_data(DISK, 1)), (invalid, 0x1_0010));
    let nameless = ConnectData { host: "me".into(), ..connect_data(DISK, 0xffff) };
    assert_eq!(refused(&config, nameless), (invalid, 0x1_0200));
    config.subsystems[0].allowed_hosts = Some(allowed);
    assert_eq!(refused(&config, connect_data(DISK, 0xffff)), (Status::CONNECT_HOST.code(), 0));
}

#[test]
fn an_io_queue_belongs_to_its_controller_and_host() {
    let mut session = Session::connected();
    let mut refused = |queue_id: u16, data: ConnectData| {
        session.admit(7, queue_id);
        let completion = session.connect(7, queue_id, &data);
        session.target.queue_closed(7);
        (completion.status.code(), completion.result)
    };
    let invalid = Status::CONNECT_INVALID.code();
    assert_eq!(refused(1, connect_data(DISK, 1)).0, Status::CONNECT_BUSY.code());
    assert_eq!(refused(2, connect_data(DISK, 5)), (invalid, 0x1_0010));
    assert_eq!(refused(5, connect_data(DISK, 1)), (invalid, 42));
    let other = ConnectData { host_id: [4; 16], ..connect_data(DISK, 1) };
    assert_eq!(refused(2, other), (invalid, 0x1_0200));
    assert_eq!(refused(2, connect_data(DISCOVERY_NQN, 1)), (invalid, 0x1_0100));
    assert_eq!(refused(2, connect_data(DISK, 1)).0, 0);
}

#[test]
fn the_discovery_log_names_the_address_that_the_host_used() {
    let mut session = Session::new(configuration());
    session.admit(0, 0);
    session.connect(0, 0, &connect_data(DISCOVERY_NQN, DYNAMIC_CONTROLLER));
    let enable = fabrics(FabricsType::PROPERTY_SET).with_cdw(11, 0x14).with_cdw(12, ENABLED);
    session.status(0, &enable);
    let log = |dwords: u32, offset: u32| {
        let command = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
        let command = command.with_cdw(10, 0x70 | (dwords - 1) << 16).with_cdw(12, offset);
        with_data(command, memory(dwords * 4))
    };
    let page = session.response(0, &log(512, 0)).data.expect("data").0;
    assert_eq!((page[8], &page[1536..1545]), (1, &b"192.0.2.1"[..]));
    let part = session.response(0, &log(4, 1536)).data.expect("data").0;
    assert_eq!(part, page[1536..1552]);
    assert_eq!(session.status(0, &log(4, 4096)), Status::INVALID_FIELD.code());
    // It has neither namespaces nor other logs.
    assert_eq!(session.status(0, &identify(2, 0)), Status::INVALID_FIELD.code());
    let health = with_data(Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0).with_cdw(10, 2), memory(4));
    assert_eq!(session.status(0, &health), Status::INVALID_LOG_PAGE.code());
}

#[test]
fn data_has_the_length_of_its_memory() {
    let mut session = Session::connected();
    let short = with_data(identify(1, 0), memory(4095));
    assert_eq!(session.status(0, &short), Status::DATA_LENGTH_INVALID.code());
    let mut in_capsule = identify(1, 0);
    in_capsule.descriptor = Descriptor::InCapsule { offset: 0, length: 4096 }.to_bytes();
    assert_eq!(session.status(0, &in_capsule), Status::INVALID_FIELD.code());
    assert_eq!(session.status(0, &identify(3, 2)), Status::INVALID_NAMESPACE.code());
    assert_eq!(session.status(0, &identify(0x7f, 1)), Status::INVALID_FIELD.code());
}

#[test]
fn a_disabled_controller_takes_fabrics_commands_alone() {
    let mut session = Session::connected();
    let event = Command::new(AdminOpcode::ASYNC_EVENT.0, 0, 0);
    for _ in 0..ASYNC_EVENTS_MAX {
        assert_eq!(session.send(0, &event), []);
    }
    assert_eq!(session.status(0, &event), Status::ASYNC_LIMIT.code());
    let set = |value: u32| fabrics(FabricsType::PROPERTY_SET).with_cdw(11, 0x14).with_cdw(12, value);
    assert_eq!(session.status(0, &set(ENABLED & !1)), 0);
    assert_eq!(session.status(0, &identify(1, 0)), Status::SEQUENCE_ERROR.code());
    let flush = Command::new(IoOpcode::FLUSH.0, 0, 1);
    assert_eq!(session.status(1, &flush), Status::SEQUENCE_ERROR.code());
    // The reset ended the requests that waited for events.
    assert_eq!(session.status(0, &set(ENABLED)), 0);
    assert_eq!(session.send(0, &event), []);
}

#[test]
fn a_silent_host_loses_its_controller_and_all_queues() {
    let mut session = Session::connected();
    assert_eq!(session.target.deadline(), Some(Duration::from_secs(6)));
    session.now = Duration::from_secs(3);
    assert_eq!(session.status(0, &Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0)), 0);
    session.target.handle_timeout(Duration::from_secs(8));
    assert_eq!(session.actions(), []);
    session.target.handle_timeout(Duration::from_secs(9));
    assert_eq!(session.actions(), [Action::Close(0, CloseReason::KeepAlive)]);
    session.target.queue_closed(0);
    assert_eq!(session.actions(), [Action::Close(1, CloseReason::ControllerGone)]);
    session.target.queue_closed(1);
    assert_eq!((session.target.controllers(), session.target.deadline()), (0, None));
}

#[test]
fn a_connection_without_connect_ends() {
    let mut session = Session::new(configuration());
    session.admit(0, 0);
    session.target.handle_timeout(CONNECTS_WITHIN);
    assert_eq!(session.actions(), [Action::Close(0, CloseReason::NoConnect)]);
    session.target.handle_timeout(CONNECTS_WITHIN);
    assert_eq!(session.actions(), []);
}

#[test]
fn a_host_that_exceeds_its_queue_is_disconnected() {
    let mut session = Session::connected();
    let flush = Command::new(IoOpcode::FLUSH.0, 0, 1);
    for _ in 0..32 {
        assert!(matches!(session.send(1, &flush)[..], [Action::Execute { .. }]));
    }
    assert_eq!(session.send(1, &flush), [Action::Close(1, CloseReason::Overrun)]);
    session.target.handle_capsule(session.now, 0, &[0; 63]);
    assert_eq!(session.actions(), [Action::Close(0, CloseReason::Short)]);
}

#[test]
fn an_identifier_in_use_is_a_conflict() {
    let mut session = Session::connected();
    let flush = Command::new(IoOpcode::FLUSH.0, 0, 1);
    session.next_id = 70;
    assert!(matches!(session.send(1, &flush)[..], [Action::Execute { .. }]));
    session.next_id = 70;
    assert_eq!(session.status(1, &flush), Status::ID_CONFLICT.code());
}

#[test]
fn identifiers_of_controllers_are_not_used_again_at_once() {
    let mut session = Session::connected();
    session.target.queue_closed(0);
    session.target.queue_closed(1);
    session.actions();
    session.admit(2, 0);
    assert_eq!(session.connect(2, 0, &connect_data(DISK, DYNAMIC_CONTROLLER)).result, 2);
}

#[test]
fn ranges_to_deallocate_are_fetched() {
    let mut session = Session::connected();
    let command = Command::new(IoOpcode::DATASET_MANAGEMENT.0, 0, 1).with_cdw(10, 0).with_cdw(11, 4);
    let actions = session.send(1, &with_data(command, memory(4096)));
    let [Action::Fetch(key, HostMemory { length: 16, .. })] = actions[..] else { panic!("{actions:?}") };
    let range = [&[0; 4], &2_u32.to_le_bytes()[..], &3_u64.to_le_bytes()].concat();
    session.target.handle_data(session.now, key, &range);
    let actions = session.actions();
    let [Action::Execute { operation, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(*operation, Operation::Deallocate(vec![(1536, 1024)]));
}
