//! Paths: selection by request, and resulting properties.

use weft_wire::mad::sa::{MultiPathRecord, PathRecord, Selector};
use weft_wire::mad::{Method, Rate, Status};

use super::*;
use crate::graph::Peer as GraphPeer;
use crate::sa::index::gid;
use crate::sa::{PathLevel, PathPolicy, PathQuestion, World};
use crate::tables::ServiceLevels;

const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// The single path between two hosts, requested by both GIDs.
fn path(
    sa: &mut Administrator,
    fixture: &Fixture,
    mask: ComponentMask,
    asked: PathRecord,
) -> Result<PathRecord, Status> {
    let ends =
        PathRecord { sgid: gid(PREFIX, 0x0002_c903_0a00_0011), dgid: gid(PREFIX, 0x0002_c903_0a00_0051), ..asked };
    let mask = mask | PathRecord::SGID | PathRecord::DGID;
    let said = ask(sa, fixture, (6, 0), Method::GET, mask, &ends).expect("an answer");
    if said.status == Status::SUCCESS { Ok(said.one()) } else { Err(said.status) }
}

#[test]
fn a_path_is_found_by_gids_and_by_lids() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let found = path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).expect("a path");
    assert_eq!((found.slid, found.dlid, found.pkey, found.mtu), (6, 10, 0x8002, 4));
    assert_eq!((found.rate, found.packet_life_time, found.reversible), (Rate::GBPS_100, 18, true));
    let by_lids = PathRecord { slid: 6, dlid: 10, ..PathRecord::default() };
    assert_eq!(table(&mut sa, &fixture, PathRecord::SLID | PathRecord::DLID, &by_lids), [found]);
    let from_there = table(&mut sa, &fixture, PathRecord::SLID, &by_lids);
    assert_eq!((from_there.len(), from_there.contains(&found)), (10, true));
    let to_there =
        table(&mut sa, &fixture, PathRecord::DLID | PathRecord::SGID, &PathRecord { sgid: found.sgid, ..by_lids });
    assert_eq!(to_there, [found]);
}

#[test]
fn places_that_are_not_there_have_no_paths() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let mut say =
        |mask, asked: PathRecord| ask(&mut sa, &fixture, (6, 0), Method::GET, mask, &asked).expect("an answer").status;
    let unknown = PathRecord { dgid: gid(PREFIX, 77), dlid: 77, slid: 6, ..PathRecord::default() };
    assert_eq!(say(PathRecord::DGID, unknown), Status::SA_NO_RECORDS);
    assert_eq!(say(PathRecord::DLID, unknown), Status::SA_NO_RECORDS);
    let disagreeing = PathRecord { sgid: gid(PREFIX, 0x0002_c903_0a00_0001), slid: 6, ..PathRecord::default() };
    assert_eq!(say(PathRecord::SGID | PathRecord::SLID, disagreeing), Status::SA_REQ_INVALID);
    let half = PathRecord { service_id: 1, ..disagreeing };
    assert_eq!(say(PathRecord::SERVICE_ID_MSB | PathRecord::SGID, half), Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    let no_rate = PathRecord { rate: Rate(1), ..disagreeing };
    assert_eq!(say(PathRecord::RATE | PathRecord::RATE_SELECTOR, no_rate), Status::SA_REQ_INVALID);
    let elsewhere = PathRecord { dgid: gid(0xfec0 << 48, 5), ..PathRecord::default() };
    assert_eq!(say(PathRecord::DGID, elsewhere), Status::SA_NO_RECORDS);
}

#[test]
fn selectors_choose_among_what_there_is() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let mtu = PathRecord::MTU | PathRecord::MTU_SELECTOR;
    let rate = PathRecord::RATE | PathRecord::RATE_SELECTOR;
    let life = PathRecord::PACKET_LIFE_TIME | PathRecord::PACKET_LIFE_TIME_SELECTOR;
    let mut say =
        |mask, asked| path(&mut sa, &fixture, mask, asked).map(|path| (path.mtu, path.rate, path.packet_life_time));
    let asked = |selector, mtu, rate, life| PathRecord {
        mtu_selector: selector,
        mtu,
        rate_selector: selector,
        rate,
        packet_life_time_selector: selector,
        packet_life_time: life,
        ..PathRecord::default()
    };
    let none = Err(Status::SA_NO_RECORDS);
    let smaller = asked(Selector::EXACTLY, 3, Rate::GBPS_40, 18);
    assert_eq!(say(mtu, smaller), Ok((3, Rate::GBPS_100, 18)));
    assert_eq!(say(rate, smaller), none);
    assert_eq!(say(life, smaller), Ok((4, Rate::GBPS_100, 18)));
    assert_eq!(say(PathRecord::MTU, smaller), Ok((4, Rate::GBPS_100, 18)), "without a selector it says nothing");
    let less = asked(Selector::LESS_THAN, 4, Rate::GBPS_100, 10);
    assert_eq!(say(mtu | rate | life, less), Ok((3, Rate::GBPS_80, 9)));
    let more = asked(Selector::GREATER_THAN, 4, Rate::GBPS_100, 18);
    assert_eq!((say(mtu, more), say(rate, more), say(life, more)), (none, none, none));
    assert_eq!(say(mtu | rate | life, asked(Selector::BEST, 1, Rate::GBPS_10, 1)), Ok((4, Rate::GBPS_100, 18)));
}

#[test]
fn a_path_carries_what_its_weakest_hop_does() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    for switch in [0x0002_c903_0010_0002, 0x0002_c903_0010_0003] {
        let node = fixture.subnet.by_guid[&switch];
        for port in &mut fixture.subnet.nodes[node.0 as usize].as_mut().expect("a node").ports {
            port.info.mtu_cap = 2;
            port.info.link_width_active = weft_wire::mad::subn::LinkWidth::X1;
        }
    }
    let far = path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).expect("a path");
    assert_eq!((far.mtu, far.rate), (2, Rate::GBPS_25));
    let near = PathRecord { slid: 6, dlid: 7, ..PathRecord::default() };
    let near = table(&mut sa, &fixture, PathRecord::SLID | PathRecord::DLID, &near);
    assert_eq!((near[0].mtu, near[0].rate), (4, Rate::GBPS_100));
    fixture.settings.max_rate_enum = 10;
    fixture.generation += 1;
    let known = path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).expect("a path");
    assert_eq!(known.rate, Rate::GBPS_20, "25 has a number that old askers do not know");
}

#[test]
fn only_partitions_of_both_ends_have_paths() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let with = |pkey| PathRecord { pkey, slid: 1, dlid: 6, ..PathRecord::default() };
    let mask = PathRecord::PKEY | PathRecord::SLID | PathRecord::DLID;
    let mut say = |asked: PathRecord| ask(&mut sa, &fixture, (1, 0), Method::GET, mask, &asked).expect("an answer");
    assert_eq!(say(with(0x8003)).one::<PathRecord>().pkey, 0x8003);
    assert_eq!(say(with(0x0003)).one::<PathRecord>().pkey, 0x0003);
    assert_eq!(say(PathRecord { dlid: 7, ..with(0x8003) }).status, Status::SA_NO_RECORDS);
    assert_eq!(say(with(0x8004)).status, Status::SA_NO_RECORDS);
}

#[test]
fn a_fabric_in_pieces_has_no_paths_between_them() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    for row in &mut fixture.tables.lfts {
        row[10] = crate::tables::NO_PATH;
    }
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()), Err(Status::SA_NO_RECORDS));
    // A loop in the tables is no path either.
    let spine = |fixture: &Fixture, leaf: usize| {
        fixture.graph.switches[leaf].links().find(|(_, other, _)| *other == 2).expect("a link")
    };
    let (port, spine_place, back) = spine(&fixture, 0);
    fixture.tables.lfts[0][10] = port;
    fixture.tables.lfts[spine_place as usize][10] = back;
    assert!(matches!(fixture.graph.switches[0].ports[usize::from(port)].peer, GraphPeer::Switch { .. }));
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()), Err(Status::SA_NO_RECORDS));
}

#[test]
fn a_way_that_has_no_way_back_is_not_reversible() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    for row in &mut fixture.tables.lfts {
        row[6] = crate::tables::NO_PATH;
    }
    let there = path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).expect("a path");
    assert!(!there.reversible);
    let reversible = PathRecord { reversible: true, ..PathRecord::default() };
    assert_eq!(path(&mut sa, &fixture, PathRecord::REVERSIBLE, reversible), Err(Status::SA_NO_RECORDS));
}

#[test]
fn service_levels_are_the_partitions_and_the_engines() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    fixture.partitions.insert(2, 5);
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).map(|path| path.sl), Ok(5));
    let asked = PathRecord { sl: 3, ..PathRecord::default() };
    assert_eq!(path(&mut sa, &fixture, PathRecord::SL, asked).map(|path| path.sl), Ok(3));
    fixture.tables.service_levels = ServiceLevels::BySwitches(vec![1; 16]);
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).map(|path| path.sl), Ok(1));
    assert_eq!(path(&mut sa, &fixture, PathRecord::SL, asked), Err(Status::SA_NO_RECORDS), "the engine needs another");
    // The engine needs some bits and leaves one free: the partition, then the requester, selects the second QoS class.
    fixture.tables.free_levels = 8;
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).map(|path| path.sl), Ok(1));
    fixture.partitions.insert(2, 8);
    assert_eq!(path(&mut sa, &fixture, ComponentMask::NONE, PathRecord::default()).map(|path| path.sl), Ok(9));
    for (sl, said) in [(9, Ok(9)), (1, Ok(1)), (8, Err(Status::SA_NO_RECORDS)), (3, Err(Status::SA_NO_RECORDS))] {
        let asked = PathRecord { sl, ..PathRecord::default() };
        assert_eq!(path(&mut sa, &fixture, PathRecord::SL, asked).map(|path| path.sl), said, "{sl}");
    }
}

#[test]
fn a_policy_bends_paths() {
    struct Slow;
    impl PathPolicy for Slow {
        fn level(&self, question: &PathQuestion<'_>) -> Option<PathLevel> {
            (question.source == 0x0002_c903_0a00_0011).then(|| PathLevel {
                sl: Some(4),
                mtu_limit: Some(2),
                rate_limit: Some(Rate::GBPS_40.0),
                packet_life: Some(12),
                pkeys: vec![(0xffff, 0xffff)],
            })
        }
    }
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    fixture.settings.qos = true;
    let world = World { policy: Some(&Slow), ..fixture.world() };
    let asked = PathRecord { slid: 6, dlid: 10, ..PathRecord::default() };
    let mad = SaMad::request(Method::GET, 1, PathRecord::SLID | PathRecord::DLID, &asked);
    sa.handle(Instant(0), &world, &Peer { lid: 6, ..Peer::default() }, mad.as_bytes());
    sa.serve(Instant(0), &world, 1);
    let out = sa.poll_gmp().expect("an answer");
    let found = PathRecord::read(&out.bytes[SaMad::DATA_AT..]).expect("a record");
    assert_eq!((found.sl, found.mtu, found.rate, found.packet_life_time), (4, 2, Rate::GBPS_40, 12));
    assert_eq!(found.pkey, 0xffff);
}

#[test]
fn ports_with_several_lids_have_several_paths() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    for (guid, lid) in [(0x0002_c903_0a00_0011_u64, 16), (0x0002_c903_0a00_0051, 20)] {
        let at = fixture.subnet.by_port_guid[&guid];
        let port = &mut fixture.subnet.nodes[at.node.0 as usize].as_mut().expect("a node").ports[usize::from(at.port)];
        (port.lid, port.lmc, port.info.lid, port.info.lmc) = (lid, 1, lid, 1);
        (lid..lid + 2).for_each(|lid| {
            fixture.subnet.by_lid.insert(lid, at);
        });
    }
    fixture.graph = super::fixture::graph_of(&fixture.subnet);
    fixture.tables = super::fixture::shortest(&fixture.graph);
    let ends = PathRecord {
        sgid: gid(PREFIX, 0x0002_c903_0a00_0011),
        dgid: gid(PREFIX, 0x0002_c903_0a00_0051),
        numb_path: 3,
        ..Default::default()
    };
    let mask = PathRecord::SGID | PathRecord::DGID;
    let lids =
        |paths: Vec<PathRecord>| paths.iter().map(|path| (path.slid, path.dlid, path.preference)).collect::<Vec<_>>();
    let all = table(&mut sa, &fixture, mask, &ends);
    assert_eq!(lids(all), [(16, 20, 0), (17, 21, 0), (16, 21, 2), (17, 20, 2)]);
    assert_eq!(lids(table(&mut sa, &fixture, mask | PathRecord::NUMB_PATH, &ends)).len(), 3);
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET, mask, &ends).expect("an answer");
    assert_eq!(lids(said.records::<PathRecord>())[0], (16, 20, 0));
    let one = table(&mut sa, &fixture, mask | PathRecord::SLID, &PathRecord { slid: 17, ..ends });
    assert_eq!(lids(one), [(17, 20, 0), (17, 21, 2)]);
}

#[test]
fn several_ports_are_asked_for_at_once() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let mut asked = MultiPathRecord { sgid_count: 2, dgid_count: 1, ..MultiPathRecord::default() };
    let guids = [0x0002_c903_0a00_0001, 0x0002_c903_0a00_0011, 0x0002_c903_0a00_0051, 0x0002_c903_0a00_0041];
    asked.gids.iter_mut().zip(guids).for_each(|(to, guid)| *to = gid(PREFIX, guid));
    let counts = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let mut say = |mask, asked: &MultiPathRecord| {
        ask(&mut sa, &fixture, (1, 0), Method::GET_MULTI, mask, asked).expect("an answer")
    };
    let said = say(counts, &asked);
    assert_eq!((said.status, said.mad.attr_id()), (Status::SUCCESS, weft_wire::mad::AttrId::SA_PATH_RECORD));
    let lids: Vec<(u16, u16)> = said.records::<PathRecord>().iter().map(|path| (path.slid, path.dlid)).collect();
    assert_eq!(lids, [(1, 10), (6, 10)]);
    (asked.dgid_count, asked.numb_path) = (2, 2);
    let said = say(counts | MultiPathRecord::NUMB_PATH, &asked);
    let lids: Vec<(u16, u16)> = said.records::<PathRecord>().iter().map(|path| (path.slid, path.dlid)).collect();
    assert_eq!(lids, [(1, 9), (6, 10)], "two paths that share no end");
    assert_eq!(say(MultiPathRecord::SGID_COUNT, &asked).status, Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    asked.gids[0] = [9; 16];
    assert_eq!(say(counts, &asked).status, Status::SA_REQ_INVALID_GID);
    (asked.sgid_count, asked.dgid_count) = (0, 0);
    assert_eq!(say(counts, &asked).status, Status::SA_REQ_INVALID);
}
