//! Faults of running programs: whom they reach, and who may see and remove them.

use weft_ipc::{FAULT_BYTES_MAX, FaultEntry, FaultLifetime, FaultReply, FaultRequest, FaultTarget};

use super::*;

impl World {
    fn fault(&mut self, client: ClientId, request: FaultRequest) -> Result<FaultReply, i32> {
        match self.ask(client, Request::Fault(request))? {
            Response::Fault(reply) => Ok(reply),
            other => panic!("{other:?}"),
        }
    }

    fn add(&mut self, client: ClientId, spec: &str, target: FaultTarget) -> Result<FaultEntry, i32> {
        match self
            .fault(client, FaultRequest::Add { spec: spec.to_owned(), target, lifetime: FaultLifetime::Daemon })?
        {
            FaultReply::Added(entry) => Ok(entry),
            other => panic!("{other:?}"),
        }
    }

    fn faults(&mut self, client: ClientId) -> Vec<FaultEntry> {
        match self.fault(client, FaultRequest::List { after: 0 }) {
            Ok(FaultReply::List { faults, more: false }) => faults,
            other => panic!("{other:?}"),
        }
    }

    /// A program with an open device.
    fn program(&mut self, uid: u32) -> ClientId {
        let client = self.session(uid);
        self.slot(client).unwrap();
        client
    }
}

fn added(number: u32, spec: &str) -> Event {
    Event::FaultAdded { number, spec: spec.to_owned() }
}

#[test]
fn a_fault_reaches_the_programs_of_its_user_now_and_later() {
    let mut world = World::new(false);
    let (own, others, idle) = (world.program(700), world.program(701), world.session(700));
    let entry = world.add(idle, "loss=1%", FaultTarget::All).unwrap();
    assert_eq!((entry.number, entry.processes, entry.struck), (101, 1, 0));
    assert_eq!((world.events(own), world.events(others)), (vec![added(101, "loss=1%")], vec![]));
    // Connection management datagrams of the program suffer, too.
    assert_eq!(world.broker.faults_of(own).map(<[_]>::len), Some(1));
    assert!(world.broker.faults_of(others).is_none());
    world.slot(idle).unwrap();
    assert_eq!(world.faults(own)[0].processes, 2);
    // Root reaches everyone.
    let root = world.session(0);
    assert_eq!(world.add(root, "event=PORT_ERR", FaultTarget::Command("x".into())).unwrap().processes, 3);
    assert_eq!(world.events(others), [added(102, "event=PORT_ERR")]);
    assert_eq!(world.add(root, "event=PORT_ERR", FaultTarget::Command("y".into())).unwrap().processes, 0);
}

#[test]
fn an_ordinary_user_sees_and_removes_his_own_alone() {
    let mut world = World::new(false);
    let (first, second) = (world.program(700), world.program(701));
    world.add(first, "status=RETRY_EXC_ERR", FaultTarget::All).unwrap();
    world.add(second, "loss=1%", FaultTarget::All).unwrap();
    assert_eq!(world.faults(first).iter().map(|fault| fault.number).collect::<Vec<_>>(), [101]);
    assert_eq!(world.fault(first, FaultRequest::Remove { number: 102 }), Err(refusal::EPERM));
    assert_eq!(world.fault(first, FaultRequest::Remove { number: 7 }), Err(refusal::ENOENT));
    world.events(second);
    let root = world.session(0);
    assert_eq!(world.faults(root).len(), 2);
    assert_eq!(world.fault(root, FaultRequest::RemoveAll), Ok(FaultReply::Removed(2)));
    assert_eq!(world.events(second), [Event::FaultRemoved { number: 102 }]);
    assert!(world.faults(root).is_empty() && !world.broker.any_faults());
}

#[test]
fn one_process_is_named_by_its_number() {
    let mut world = World::new(false);
    let (own, root) = (world.session(700), world.session(0));
    let pid = || FaultTarget::Pid(9);
    assert_eq!(world.add(own, "loss=1%", FaultTarget::Pid(10)), Err(refusal::ESRCH));
    assert_eq!(world.add(root, "loss=1%", pid()), Err(refusal::ESRCH), "it has no device open");
    world.slot(own).unwrap();
    assert_eq!(world.add(own, "loss=1%", pid()).unwrap().processes, 1);
    let foreign = world.session(701);
    assert_eq!(world.add(foreign, "loss=1%", pid()), Err(refusal::EPERM));
}

#[test]
fn strikes_are_added_up_and_survive_their_process() {
    let mut world = World::new(false);
    let (first, second) = (world.program(700), world.program(700));
    world.add(first, "loss=1%", FaultTarget::All).unwrap();
    let foreign = world.program(701);
    for (client, count) in [(first, 5), (second, 3), (first, 7), (foreign, 100)] {
        let request = Request::Fault(FaultRequest::Struck(vec![(101, count), (5, 1)]));
        world.say(client, &encode(&ClientFrame { id: 0, request }).unwrap(), &[]);
    }
    assert_eq!(world.faults(first)[0].struck, 10);
    world.broker.disconnect(world.now, first, &mut world.host);
    let left = &world.faults(second)[0];
    assert_eq!((left.struck, left.processes), (10, 1));
}

#[test]
fn bad_and_too_many_faults_are_refused() {
    let mut world = World::new(false);
    let client = world.program(700);
    let long = format!("loss=1%,seed={}", "1".repeat(FAULT_BYTES_MAX));
    for spec in ["", "seed=3", "loss=1", "status=OOPS", "loss=1%;dup=1%", &long] {
        assert_eq!(world.add(client, spec, FaultTarget::All), Err(refusal::EINVAL), "{spec}");
    }
    assert_eq!(world.add(client, "loss=1%", FaultTarget::Command(String::new())), Err(refusal::EINVAL));
    for _ in 0..16 {
        world.add(client, "loss=1%", FaultTarget::All).unwrap();
    }
    assert_eq!(world.add(client, "loss=1%", FaultTarget::All), Err(refusal::ENOSPC));
    let other = world.session(701);
    assert!(world.add(other, "loss=1%", FaultTarget::All).is_ok());
}

#[test]
fn a_fault_ends_with_the_connection_of_its_scenario() {
    let mut world = World::new(false);
    let (program, scenario) = (world.program(700), world.session(700));
    let kept = world.add(scenario, "event=PORT_ERR", FaultTarget::All).unwrap();
    let spec = "loss=1%".to_owned();
    let request = FaultRequest::Add { spec, target: FaultTarget::All, lifetime: FaultLifetime::Connection };
    assert!(matches!(world.fault(scenario, request), Ok(FaultReply::Added(FaultEntry { number: 102, .. }))));
    world.events(program);
    world.broker.disconnect(world.now, scenario, &mut world.host);
    let other = world.session(700);
    let left: Vec<u32> = world.faults(other).iter().map(|fault| fault.number).collect();
    assert_eq!(world.events(program), [Event::FaultRemoved { number: 102 }]);
    assert_eq!((left, world.broker.any_faults()), (vec![kept.number], false));
}
