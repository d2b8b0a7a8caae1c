//! Counters and objects of processes, as the broker adds them up.

use weft_ipc::stat::{CountersPage, DeviceCounters, DeviceObjects, ObjectsPage, QpCursor, QpInfo, StatReport};

use super::paths::Pair;
use super::*;

fn counted(sent_pkts: u64) -> CountersPage {
    let counters = DeviceCounters { sent_pkts, ..DeviceCounters::default() };
    CountersPage { devices: vec![(0, counters), (77, counters)], ..CountersPage::default() }
}

fn stat(world: &mut World, client: ClientId) -> StatReport {
    let Ok(Response::Stat(report)) = world.ask(client, Request::Stat { offset: 0 }) else { panic!() };
    report
}

#[test]
fn the_living_and_the_dead_are_added_up() {
    let mut world = World::new(false);
    let (a, b, asker) = (world.session(7), world.session(0), world.session(7));
    assert_eq!(world.ask(a, Request::OpenLedger), Err(refusal::EINVAL), "before it has a slot");
    let mut slot = 0;
    for client in [a, b] {
        slot = world.slot(client).unwrap().slot;
        let (_, attach) = world.ask_with(client, Request::OpenLedger, &[]).unwrap();
        assert_eq!(attach, Attach { ledger_of: Some(client), ..Attach::default() });
    }
    assert_eq!(world.ask(a, Request::OpenLedger), Err(refusal::EALREADY));
    world.host.ledgers.get_mut(&a).unwrap().0 = counted(5);
    world.host.ledgers.get_mut(&b).unwrap().0 = counted(7);
    let report = stat(&mut world, asker);
    assert_eq!((report.devices[0].counters.sent_pkts, report.processes), (12, 2));
    world.broker.disconnect(world.now, a, &mut world.host);
    assert!(!world.host.ledgers.contains_key(&a));
    let report = stat(&mut world, asker);
    assert_eq!((report.devices[0].counters.sent_pkts, report.processes), (12, 1));
    // A successor continues from there; counters of unknown devices are not kept.
    let saved = world.broker.save();
    assert_eq!(format!("{:?}", saved.left).matches("sent_pkts: 5").count(), 1);
    let mut successor = World::new(true);
    successor.host.anchored = Some(Adopted { slots: 64, saved });
    let survivor = successor.session(0);
    let proof = || vec![File::open("/dev/null").unwrap().into(), File::open("/dev/null").unwrap().into()];
    let request = Request::Reattach { slot, groups: Vec::new() };
    successor.ask_with(survivor, request, &proof()).unwrap();
    assert_eq!(stat(&mut successor, survivor).devices[0].counters.sent_pkts, 5);
}

#[test]
fn queue_pairs_are_listed_page_by_page_and_what_is_cut_is_said() {
    let mut world = World::new(false);
    let (a, b, asker) = (world.session(0), world.session(7), world.session(7));
    for client in [a, b] {
        world.slot(client).unwrap();
        world.ask(client, Request::OpenLedger).unwrap();
    }
    // More than Weft's processes report: the rest is not shown.
    let qps = (0..300).map(|qpn| QpInfo { qpn, ..QpInfo::default() }).collect();
    let held = DeviceObjects { qp: 500, ..DeviceObjects::default() };
    world.host.ledgers.get_mut(&a).unwrap().1 = ObjectsPage { devices: vec![held], qps };
    let one = QpInfo { qpn: 9999, ..QpInfo::default() };
    world.host.ledgers.get_mut(&b).unwrap().0 = counted(5);
    world.host.ledgers.get_mut(&b).unwrap().1 = ObjectsPage { devices: Vec::new(), qps: vec![one] };
    let (mut seen, mut untold, mut cursor) = (Vec::new(), Vec::new(), Some(QpCursor::default()));
    while let Some(from) = cursor {
        let Ok(Response::Qps(page)) = world.ask(asker, Request::ListQps(from)) else { panic!() };
        seen.extend(page.qps.iter().map(|qp| qp.qpn));
        untold.push(page.untold);
        let totals = if page.client == b { 10 } else { 0 };
        assert_eq!((page.totals.sent_pkts, page.host.as_str()), (totals, ""), "of both devices");
        cursor = page.next;
    }
    assert_eq!(seen, (0..256).chain([9999]).collect::<Vec<_>>());
    assert_eq!(untold, [0, 0, 0, 500 - 256, 0]);
}

#[test]
fn processes_are_not_woken_more_often_than_needed() {
    let mut world = World::new(false);
    let (a, asker) = (world.session(0), world.session(7));
    world.slot(a).unwrap();
    world.ask(a, Request::OpenLedger).unwrap();
    let told = |world: &mut World| world.sent.remove(&a).unwrap_or_default().len();
    told(&mut world);
    for _ in 0..5 {
        world.ask(asker, Request::RefreshLedgers).unwrap();
    }
    assert_eq!(told(&mut world), 1);
    world.pass(Duration::from_millis(10));
    world.ask(asker, Request::RefreshLedgers).unwrap();
    assert_eq!(told(&mut world), 1);
    assert!(!world.sent.contains_key(&asker), "who has no ledger is not told");
}

/// Writes the ledger of a program on a host, with objects and counters on this device.
fn on_adapter(world: &mut World, client: ClientId, device: u32, sent_pkts: u64) {
    world.ask(client, Request::OpenLedger).unwrap();
    let counters = DeviceCounters { sent_pkts, ..DeviceCounters::default() };
    let objects = DeviceObjects { device, qp: 1, ..DeviceObjects::default() };
    let ledger = world.host.ledgers.get_mut(&client).unwrap();
    ledger.0 = CountersPage { devices: vec![(device, counters)], ..CountersPage::default() };
    ledger.1 = ObjectsPage { devices: vec![objects], qps: Vec::new() };
}

#[test]
fn adapters_of_a_fabric_are_counted_for_their_host_and_for_the_machine() {
    let Pair { mut world, programs: [(a, _), (b, _)], device: [first, second] } = Pair::of(false);
    on_adapter(&mut world, a, first, 5);
    on_adapter(&mut world, b, second, 7);
    let machine = world.session(OWN);
    let sent = |report: &StatReport| -> Vec<_> {
        report.devices.iter().map(|stat| (stat.device, stat.counters.sent_pkts, stat.objects.qp)).collect()
    };
    let report = stat(&mut world, a);
    assert_eq!((sent(&report), report.processes), (vec![(first, 5, 1)], 1), "a host sees its own");
    let report = stat(&mut world, machine);
    assert_eq!((sent(&report), report.processes), (vec![(0, 0, 0), (first, 5, 1), (second, 7, 1)], 2));
    world.broker.disconnect(world.now, a, &mut world.host);
    assert_eq!(sent(&stat(&mut world, machine)), [(0, 0, 0), (first, 5, 0), (second, 7, 1)]);
    let adapters = |world: &mut World, client| {
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let Ok(Response::Adapters { adapters, more }) = world.ask(client, Request::ListAdapters { offset }) else {
                panic!()
            };
            all.extend(adapters.into_iter().map(|adapter| (adapter.host, adapter.number, adapter.device.index)));
            offset += 1;
            if !more {
                return all;
            }
        }
    };
    assert_eq!(adapters(&mut world, machine), [("node1".to_owned(), 0, first), ("node2".to_owned(), 0, second)]);
    assert_eq!(adapters(&mut world, b), [], "a host sees no others");
    assert!(!format!("{:?}", world.broker.save().left).contains("sent_pkts: 5"), "the fabric ends with the daemon");
    // The next fabric's adapters begin at zero, and a program of the previous one adds nothing to them.
    world.ask(machine, Request::Fabric(weft_ipc::fabric::FabricRequest::Down)).unwrap();
    let World { broker, host, now, .. } = &mut world;
    broker.carry_datagrams(*now, host);
    world.broker.disconnect(world.now, b, &mut world.host);
    assert_eq!(sent(&stat(&mut world, machine)), [(0, 0, 0)]);
    assert!(world.broker.ledgers.left_on_hosts.is_empty());
}

#[test]
fn an_adapter_of_another_host_is_nobodys_to_claim() {
    let Pair { mut world, programs: [(a, _), _], device: [_, second] } = Pair::of(false);
    on_adapter(&mut world, a, second, 5);
    let machine = world.session(OWN);
    assert_eq!(stat(&mut world, machine).devices.len(), 1);
    world.broker.disconnect(world.now, a, &mut world.host);
    assert_eq!(stat(&mut world, machine).devices.len(), 1);
}
