//! State that hosts change: groups, services, subscriptions and GUIDs. It must survive a restart.

use weft_wire::mad::notice::{GidDetails, InformInfo, Notice, NoticeDetails, NoticeType, ProducerType, TrapNumber};
use weft_wire::mad::sa::{GuidInfoRecord, InformInfoRecord, JoinState, McMemberRecord, Selector, ServiceRecord};
use weft_wire::mad::{Method, Rate, Status};

use super::*;
use crate::multicast::{Forest, Group, Request, trees};
use crate::sa::Change;
use crate::sa::index::gid;

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const JOIN: ComponentMask = McMemberRecord::MGID.or(McMemberRecord::PORT_GID).or(McMemberRecord::JOIN_STATE);
const CREATE: ComponentMask = JOIN
    .or(McMemberRecord::QKEY)
    .or(McMemberRecord::TCLASS)
    .or(McMemberRecord::PKEY)
    .or(McMemberRecord::FLOW_LABEL)
    .or(McMemberRecord::SL);
/// PortGUIDs of hosts, with their LIDs.
const HOSTS: [(u16, u64); 4] =
    [(1, 0x0002_c903_0a00_0001), (6, 0x0002_c903_0a00_0011), (8, 0x0002_c903_0a00_0031), (10, 0x0002_c903_0a00_0051)];

fn mgid(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

fn of_host(host: usize, group: &str) -> McMemberRecord {
    McMemberRecord {
        mgid: mgid(group),
        port_gid: gid(PREFIX, HOSTS[host].1),
        qkey: 0xb1b,
        pkey: 0xffff,
        join_state: JoinState::FULL_MEMBER,
        ..McMemberRecord::default()
    }
}

fn join(sa: &mut Administrator, fixture: &Fixture, host: usize, mask: ComponentMask, asked: &McMemberRecord) -> Said {
    ask(sa, fixture, (HOSTS[host].0, 0), Method::SET, mask, asked).expect("an answer")
}

fn leave(sa: &mut Administrator, fixture: &Fixture, host: usize, asked: &McMemberRecord) -> Said {
    ask(sa, fixture, (HOSTS[host].0, 0), Method::DELETE, JOIN, asked).expect("an answer")
}

const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";
const OTHER: &str = "ff12:401b:ffff::1";

/// The IPoIB groups of the partitions.
fn with_broadcast() -> (Administrator, Fixture) {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let exact = Selector::EXACTLY;
    let record = McMemberRecord {
        mgid: mgid(BROADCAST),
        qkey: 0xb1b,
        mtu_selector: exact,
        mtu: 4,
        rate_selector: exact,
        rate: Rate::GBPS_10,
        packet_life_time: 18,
        pkey: 0xffff,
        scope: 2,
        ..McMemberRecord::default()
    };
    sa.set_well_known(Instant(0), &fixture.world(), &[record]);
    (sa, fixture)
}

#[test]
fn a_group_lives_from_its_first_member_to_its_last() {
    let (mut sa, fixture) = with_broadcast();
    let asked = of_host(0, OTHER);
    assert_eq!(join(&mut sa, &fixture, 0, JOIN, &asked).status, Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    let created: McMemberRecord = join(&mut sa, &fixture, 0, CREATE, &asked).one();
    assert_eq!((created.mlid, created.mtu, created.rate), (0xc001, 4, Rate::GBPS_100));
    assert_eq!((created.join_state, created.port_gid), (JoinState::FULL_MEMBER, asked.port_gid));
    let other: McMemberRecord = join(&mut sa, &fixture, 1, JOIN, &of_host(1, OTHER)).one();
    assert_eq!(other.mlid, created.mlid);
    let wanted = sa.wanted_at(0xc001);
    assert_eq!(wanted.seats.len(), 2);
    let request = Request {
        graph: &fixture.graph,
        wanted: &sa.wanted(),
        without_mft: sa.without_mft(),
        previous: &Forest::default(),
    };
    assert_eq!(trees(&request).trees[&0xc001].masks.len(), 1, "both hang on one leaf");
    let changes: Vec<Change> = std::iter::from_fn(|| sa.poll_change()).collect();
    assert!(changes.contains(&Change::Multicast(0xc001)) && changes.contains(&Change::Cache));
    let left: McMemberRecord = leave(&mut sa, &fixture, 0, &asked).one();
    assert!(left.join_state.is_empty());
    assert_eq!(leave(&mut sa, &fixture, 0, &asked).status, Status::SA_REQ_INVALID, "it is in it no more");
    assert_eq!(leave(&mut sa, &fixture, 0, &of_host(1, OTHER)).status, Status::SA_REQ_INVALID, "another's membership");
    assert_eq!(leave(&mut sa, &fixture, 1, &of_host(1, OTHER)).status, Status::SUCCESS);
    assert_eq!(sa.groups().count(), 1, "the broadcast group stays");
    assert_eq!(sa.poll_change(), Some(Change::Multicast(0xc001)));
}

#[test]
fn groups_of_ipoib_are_like_their_broadcast_group() {
    let (mut sa, fixture) = with_broadcast();
    let mut say = |asked: McMemberRecord| join(&mut sa, &fixture, 0, CREATE, &asked).status;
    assert_eq!(say(McMemberRecord { qkey: 7, ..of_host(0, OTHER) }), Status::SA_REQ_INVALID);
    assert_eq!(
        say(McMemberRecord { pkey: 0x8002, ..of_host(0, "ff12:401b:8002::1") }),
        Status::SA_REQ_INVALID,
        "no broadcast group"
    );
    assert_eq!(say(McMemberRecord { pkey: 0x8002, ..of_host(0, "ff12:401b:8002::ffff:ffff") }), Status::SUCCESS);
    assert_eq!(say(McMemberRecord { pkey: 0x8002, ..of_host(0, "ff12:401b:8002::1") }), Status::SUCCESS);
    assert_eq!(say(of_host(0, "ff12:a01b::1")), Status::SA_REQ_INVALID, "an administrator's own");
    assert_eq!(say(of_host(0, "fe80::1")), Status::SA_REQ_INVALID, "no group's GID");
    assert_eq!(say(McMemberRecord { pkey: 0, ..of_host(0, "ff1e::5") }), Status::SA_REQ_INVALID);
    assert_eq!(
        say(McMemberRecord { pkey: 0x8077, ..of_host(0, "ff1e::5") }),
        Status::SA_REQ_INVALID,
        "not in its partition"
    );
    let send_only = McMemberRecord { join_state: JoinState::SEND_ONLY_NON_MEMBER, ..of_host(0, "ff1e::6") };
    assert_eq!(say(send_only), Status::SA_REQ_INVALID, "it cannot begin a group");
    assert_eq!(say(McMemberRecord { join_state: JoinState::SEND_ONLY_FULL_MEMBER, ..send_only }), Status::SUCCESS);
    assert_eq!(say(McMemberRecord { port_gid: gid(0xfec0 << 48, 5), ..of_host(0, OTHER) }), Status::SA_REQ_INVALID_GID);
    assert_eq!(say(McMemberRecord { port_gid: gid(PREFIX, 5), ..of_host(0, OTHER) }), Status::SA_REQ_INVALID);
}

#[test]
fn an_mgid_is_made_for_who_brings_none() {
    let (mut sa, fixture) = with_broadcast();
    let first: McMemberRecord = join(&mut sa, &fixture, 0, CREATE, &of_host(0, "::")).one();
    let second: McMemberRecord = join(&mut sa, &fixture, 0, CREATE, &of_host(0, "::")).one();
    assert_eq!((&first.mgid[..4], first.mgid != second.mgid), (&[0xff, 0x12, 0xa0, 0x1b][..], true));
    let mask = CREATE | McMemberRecord::MLID;
    let asked = McMemberRecord { mlid: 0xc100, ..of_host(0, "ff1e::7") };
    assert_eq!(join(&mut sa, &fixture, 0, mask, &asked).one::<McMemberRecord>().mlid, 0xc100);
}

#[test]
fn what_a_port_is_not_fit_for_it_does_not_join() {
    let (mut sa, mut fixture) = with_broadcast();
    let mask = JOIN | McMemberRecord::MTU | McMemberRecord::MTU_SELECTOR;
    let asked = |selector, mtu| McMemberRecord { mtu_selector: selector, mtu, ..of_host(0, BROADCAST) };
    let mut say = |mask, asked: &McMemberRecord| join(&mut sa, &fixture, 0, mask, asked).status;
    assert_eq!(say(mask, &asked(Selector::EXACTLY, 4)), Status::SUCCESS);
    assert_eq!(say(mask, &asked(Selector::GREATER_THAN, 4)), Status::SA_REQ_INVALID);
    assert_eq!(say(mask, &asked(Selector::EXACTLY, 6)), Status::SA_REQ_INVALID, "no MTU");
    assert_eq!(
        say(JOIN, &McMemberRecord { join_state: JoinState::empty(), ..asked(Selector::EXACTLY, 4) }),
        Status::SA_REQ_INVALID
    );
    let at = fixture.subnet.by_port_guid[&HOSTS[2].1];
    fixture.subnet.nodes[at.node.0 as usize].as_mut().expect("a node").ports[1].info.neighbor_mtu = 3;
    assert_eq!(join(&mut sa, &fixture, 2, JOIN, &of_host(2, BROADCAST)).status, Status::SA_REQ_INVALID);
}

#[test]
fn a_port_that_is_put_in_by_another_stays_its_partitions_business() {
    let (mut sa, fixture) = with_broadcast();
    let asked = of_host(1, BROADCAST);
    assert_eq!(join(&mut sa, &fixture, 0, JOIN, &asked).status, Status::SUCCESS);
    assert!(sa.groups().any(|group| group.members.values().any(|member| member.proxy)));
    assert_eq!(leave(&mut sa, &fixture, 2, &asked).status, Status::SUCCESS, "whoever is in the partition may");
}

#[test]
fn members_are_for_those_who_show_the_key() {
    let (mut sa, fixture) = with_broadcast();
    for host in 0..4 {
        join(&mut sa, &fixture, host, JOIN, &of_host(host, BROADCAST));
    }
    let none = McMemberRecord::default();
    let groups = table(&mut sa, &fixture, ComponentMask::NONE, &none);
    assert_eq!((groups.len(), groups[0].port_gid, groups[0].join_state), (1, [0; 16], JoinState::empty()));
    assert_eq!((groups[0].mlid, groups[0].packet_life_time, groups[0].scope), (0xc000, 18, 2));
    let said = ask(&mut sa, &fixture, (1, 1), Method::GET_TABLE, ComponentMask::NONE, &none).expect("an answer");
    let members: Vec<u64> =
        said.records::<McMemberRecord>().iter().map(|record| crate::multicast::guid_of(&record.port_gid)).collect();
    assert_eq!(members, HOSTS.map(|(_, guid)| guid));
    let one = McMemberRecord { mlid: 0xc000, ..none };
    assert_eq!(table(&mut sa, &fixture, McMemberRecord::MLID, &one).len(), 1);
    assert_eq!(table(&mut sa, &fixture, McMemberRecord::MLID, &McMemberRecord { mlid: 0xc001, ..none }).len(), 0);
    let asked = of_host(2, BROADCAST);
    let said = ask(&mut sa, &fixture, (1, 1), Method::GET, McMemberRecord::MGID | McMemberRecord::PORT_GID, &asked);
    assert_eq!(said.expect("an answer").one::<McMemberRecord>().port_gid, asked.port_gid);
}

#[test]
fn groups_share_lids_when_the_tables_are_full() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    for switch in fixture.subnet.nodes.iter_mut().flatten().filter_map(|node| node.switch.as_mut()) {
        switch.info.multicast_fdb_cap = 2;
    }
    let mut lid = |group: &str, pkey| {
        let asked = McMemberRecord { pkey, ..of_host(0, group) };
        let said = join(&mut sa, &fixture, 0, CREATE, &asked);
        if said.status == Status::SUCCESS { Ok(said.one::<McMemberRecord>().mlid) } else { Err(said.status) }
    };
    assert_eq!((lid("ff1e::1", 0xffff), lid("ff1e::2", 0x8002)), (Ok(0xc000), Ok(0xc001)));
    assert_eq!((lid("ff1e::3", 0x8002), lid("ff1e::4", 0xffff)), (Ok(0xc001), Ok(0xc000)));
    assert_eq!(lid("ff1e::5", 0x8003), Err(Status::SA_NO_RESOURCES), "nobody to share with");
    assert_eq!(sa.wanted().len(), 2);
}

#[test]
fn a_port_that_is_gone_is_in_no_group() {
    let (mut sa, mut fixture) = with_broadcast();
    join(&mut sa, &fixture, 1, CREATE, &of_host(1, "ff1e::1"));
    join(&mut sa, &fixture, 0, JOIN, &of_host(0, "ff1e::1"));
    for (gone, (_, guid)) in (1..).zip(&HOSTS[..2]) {
        fixture.subnet.by_port_guid.remove(guid);
        fixture.generation += 1;
        sa.refresh(Instant(0), &fixture.world());
        assert_eq!(sa.groups().count(), 3 - gone);
    }
}

#[test]
fn services_are_registered_found_and_removed() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let id = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let mut record =
        ServiceRecord { service_id: 7, service_gid: gid(PREFIX, HOSTS[0].1), service_lease: 10, ..Default::default() };
    record.service_name.0[..4].copy_from_slice(b"test");
    record.service_key = [3; 16];
    let mut say = |key, method, mask, record: &ServiceRecord| {
        ask(&mut sa, &fixture, (1, key), method, mask, record).expect("an answer")
    };
    assert_eq!(say(0, Method::SET, ServiceRecord::SERVICE_ID, &record).status, Status::SA_REQ_INVALID);
    let set: ServiceRecord = say(0, Method::SET, id | ServiceRecord::SERVICE_LEASE, &record).one();
    assert_eq!((set.service_pkey, set.service_key), (0xffff, [0; 16]));
    let found: ServiceRecord = say(1, Method::GET, ServiceRecord::SERVICE_NAME, &record).one();
    assert_eq!(found.service_key, [3; 16], "for who shows the key");
    let other = ServiceRecord { service_id: 8, ..record };
    assert_eq!(say(0, Method::GET, ServiceRecord::SERVICE_ID, &other).status, Status::SA_NO_RECORDS);
    assert_eq!(say(0, Method::SET, id, &other).status, Status::SUCCESS);
    assert_eq!(say(0, Method::GET, ServiceRecord::SERVICE_NAME, &record).status, Status::SA_TOO_MANY_RECORDS);
    assert_eq!(say(0, Method::DELETE, id, &other).status, Status::SUCCESS);
    assert_eq!(say(0, Method::DELETE, id, &other).status, Status::SA_NO_RECORDS);
    let in_partition = ServiceRecord { service_pkey: 0x8077, ..record };
    assert_eq!(say(0, Method::SET, id | ServiceRecord::SERVICE_PKEY, &in_partition).status, Status::SA_REQ_INVALID);
    assert_eq!(sa.poll_timeout(), Some(Instant(10_000_000_000)));
    sa.handle_timeout(Instant(10_000_000_000));
    assert_eq!((sa.service_count(), sa.poll_timeout()), (0, None));
}

fn subscription(lids: u16, trap: TrapNumber) -> InformInfo {
    InformInfo {
        lid_range_begin: lids,
        is_generic: 1,
        subscribe: 1,
        inform_type: 0xffff,
        trap_number: trap,
        producer_type: ProducerType::EVERY,
        ..InformInfo::default()
    }
}

fn reports(sa: &mut Administrator) -> Vec<(u16, TrapNumber, Vec<u8>)> {
    let out = std::iter::from_fn(|| sa.poll_gmp()).filter(|out| !out.timeout.is_zero());
    let parse = |out: crate::io::GmpOut| {
        let notice = Notice::read(&out.bytes[SaMad::DATA_AT..]).expect("a notice");
        (out.to.lid, notice.trap_number, out.bytes)
    };
    out.map(parse).collect()
}

#[test]
fn subscribers_are_told_until_they_do_not_answer() {
    let (mut sa, fixture) = with_broadcast();
    let mut say = |lid, key, info: &InformInfo| {
        ask(&mut sa, &fixture, (lid, key), Method::SET, ComponentMask::NONE, info).expect("an answer").status
    };
    assert_eq!(say(6, 0, &subscription(0xffff, TrapNumber::EVERY)), Status::SUCCESS);
    assert_eq!(say(6, 0, &subscription(0xffff, TrapNumber::EVERY)), Status::SUCCESS, "again the same");
    assert_eq!(say(8, 0, &subscription(0xffff, TrapNumber::GID_IN_SERVICE)), Status::SUCCESS);
    assert_eq!(say(8, 0, &subscription(0xffff, TrapNumber::BAD_MKEY)), Status::SA_REQ_INVALID, "without the key");
    assert_eq!(say(8, 1, &subscription(0xffff, TrapNumber::BAD_MKEY)), Status::SUCCESS);
    assert_eq!(say(8, 0, &InformInfo { subscribe: 2, ..subscription(1, TrapNumber::EVERY) }), Status::SA_REQ_INVALID);
    assert_eq!(say(8, 0, &subscription(500, TrapNumber::EVERY)), Status::SA_REQ_INVALID, "no such LID");
    assert_eq!(sa.subscription_count(), 3);
    join(&mut sa, &fixture, 0, CREATE, &of_host(0, "ff1e::1"));
    let told = reports(&mut sa);
    assert_eq!(
        told.iter().map(|(lid, trap, _)| (*lid, *trap)).collect::<Vec<_>>(),
        [(6, TrapNumber::MULTICAST_GROUP_CREATED)]
    );
    let details = NoticeDetails::Gid(TrapNumber::GID_IN_SERVICE, GidDetails { gid: gid(PREFIX, HOSTS[3].1) });
    let notice = Notice::generic(NoticeType::SUBNET_MANAGEMENT, ProducerType::CLASS_MANAGER, 1, &details);
    sa.notice(Instant(0), &fixture.world(), &notice);
    let told = reports(&mut sa);
    assert_eq!(told.iter().map(|(lid, ..)| *lid).collect::<Vec<_>>(), [6, 8]);
    for (lid, _, bytes) in &told {
        let mut answer = SaMad::read_from_bytes(bytes).expect("a datagram");
        answer.header.set_method(Method::REPORT_RESP);
        sa.handle(Instant(0), &fixture.world(), &Peer { lid: *lid, ..Peer::default() }, answer.as_bytes());
    }
    for _ in 0..crate::sa::limits::REPORTS_LOST_MAX {
        sa.notice(Instant(0), &fixture.world(), &notice);
        for (lid, _, bytes) in reports(&mut sa) {
            if lid == 6 {
                sa.handle_gmp_timeout(Instant(0), &bytes);
            }
        }
    }
    assert_eq!(sa.subscription_count(), 2, "who never answers is not told any more");
    let off = InformInfo { subscribe: 0, qpn: 1, ..subscription(0xffff, TrapNumber::GID_IN_SERVICE) };
    let mut say = |info: &InformInfo| {
        ask(&mut sa, &fixture, (8, 0), Method::SET, ComponentMask::NONE, info).expect("an answer").status
    };
    assert_eq!((say(&off), say(&off)), (Status::SUCCESS, Status::SA_REQ_INVALID));
    let records = table(&mut sa, &fixture, ComponentMask::NONE, &InformInfoRecord::default());
    assert_eq!(
        (records.len(), records[0].inform_info.trap_number, records[0].inform_info.qpn),
        (1, TrapNumber::BAD_MKEY, 0)
    );
}

#[test]
fn guids_are_given_and_taken_away() {
    let (mut sa, fixture) = with_broadcast();
    let id = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let asked = GuidInfoRecord { lid: 6, block_num: 0, guids: [0, 0xabc, 0, HOSTS[0].1, 0, 0, 0, 0] };
    let say = |sa: &mut Administrator, method, mask, record: &GuidInfoRecord| {
        ask(sa, &fixture, (6, 0), method, mask, record).expect("an answer")
    };
    assert_eq!(say(&mut sa, Method::SET, GuidInfoRecord::LID, &asked).status, Status::SA_REQ_INSUFFICIENT_COMPONENTS);
    assert_eq!(say(&mut sa, Method::SET, id | GuidInfoRecord::GUID0, &asked).status, Status::SA_REQ_INVALID);
    assert_eq!(say(&mut sa, Method::SET, id, &GuidInfoRecord { block_num: 4, ..asked }).status, Status::SA_NO_RECORDS);
    let mask = id | GuidInfoRecord::GUID1 | GuidInfoRecord::GUID2 | GuidInfoRecord::GUID3;
    let set: GuidInfoRecord = say(&mut sa, Method::SET, mask, &asked).one();
    assert_eq!((set.guids[0], set.guids[1], set.guids[3]), (HOSTS[1].1, 0xabc, 0), "another port's is not given");
    assert_ne!(set.guids[2], 0, "one that the administrator made");
    assert_eq!(sa.guids_of(HOSTS[1].1).map(<[u64]>::len), Some(32));
    let changes: Vec<Change> = std::iter::from_fn(|| sa.poll_change()).collect();
    assert!(changes.contains(&Change::Guids { port_guid: HOSTS[1].1, block: 0 }));
    let alias = McMemberRecord { port_gid: gid(PREFIX, 0xabc), ..of_host(1, BROADCAST) };
    assert_eq!(join(&mut sa, &fixture, 1, JOIN, &alias).status, Status::SUCCESS);
    let mask = id | GuidInfoRecord::GUID1;
    assert_eq!(say(&mut sa, Method::DELETE, mask, &asked).status, Status::SA_REQ_DENIED, "it is in a group");
    assert_eq!(leave(&mut sa, &fixture, 1, &alias).status, Status::SUCCESS);
    let rest: GuidInfoRecord = say(&mut sa, Method::DELETE, mask, &asked).one();
    assert_eq!((rest.guids[1], rest.guids[2]), (0, set.guids[2]));
    assert_eq!(say(&mut sa, Method::GET, id, &asked).one::<GuidInfoRecord>(), rest);
}

#[test]
fn what_is_kept_outlives_a_restart() {
    let (mut sa, fixture) = with_broadcast();
    let now = Instant(5_000_000_000);
    for host in 0..3 {
        join(&mut sa, &fixture, host, JOIN, &of_host(host, BROADCAST));
    }
    let group = McMemberRecord { tclass: 3, sl: 2, flow_label: 0x12345, ..of_host(0, "ff1e::1") };
    join(&mut sa, &fixture, 0, CREATE, &group);
    let sender = McMemberRecord { join_state: JoinState::SEND_ONLY_NON_MEMBER, ..of_host(3, "ff1e::1") };
    join(&mut sa, &fixture, 2, JOIN, &sender);
    let info = InformInfo { resp_time_value: 5, ..subscription(0xffff, TrapNumber::EVERY) };
    ask(&mut sa, &fixture, (6, 0), Method::SET, ComponentMask::NONE, &info).expect("an answer");
    let mut service =
        ServiceRecord { service_id: 7, service_gid: gid(PREFIX, HOSTS[0].1), service_lease: 60, ..Default::default() };
    service.service_name.0[..4].copy_from_slice(b"test");
    service.service_data16 = [1, 2, 3, 4, 5, 6, 7, 8];
    service.service_data32 = [1, 2, 3, 4];
    service.service_data64 = [9, 10];
    service.service_data8 = [7; 16];
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID | ServiceRecord::SERVICE_LEASE;
    ask(&mut sa, &fixture, (1, 0), Method::SET, mask, &service).expect("an answer");
    let guids = GuidInfoRecord { lid: 6, block_num: 1, guids: [5, 0, 0, 0, 0, 0, 0, 0] };
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM | GuidInfoRecord::GUID0;
    ask(&mut sa, &fixture, (6, 0), Method::SET, mask, &guids).expect("an answer");

    let text = sa.dump(now, &fixture.world());
    assert!(text.contains("MC Group 0xc001 : mgid=0xff1e000000000000:0x0000000000000001"), "{text}");
    assert!(text.contains("MC Group 0xc000  (well known):"));
    let (mut other, _) = with_broadcast();
    assert_eq!(other.restore(now, &fixture.world(), &text), []);
    // The dump does not record who requested a membership.
    let groups = |sa: &Administrator| -> Vec<Group> {
        let mut groups: Vec<Group> = sa.groups().cloned().collect();
        groups.iter_mut().flat_map(|group| group.members.values_mut()).for_each(|member| member.by = 0);
        groups
    };
    assert_eq!(groups(&other), groups(&sa));
    assert_eq!(other.subscription_count(), 1);
    assert_eq!(other.dump(now, &fixture.world()).replace("lease=0x37", "lease=0x3c"), text);
    let told = ask(&mut other, &fixture, (1, 0), Method::GET, ServiceRecord::SERVICE_ID, &service).expect("an answer");
    assert_eq!(told.one::<ServiceRecord>(), ServiceRecord { service_lease: 55, ..service });
    let errors =
        other.restore(now, &fixture.world(), "# a comment\nMC Group 0xc000 : mgid=0x\nfoo\nmcm_port: port_gid=0x1:0x2");
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(errors[0].to_string(), "line 2: no number behind \"mgid=0x\"");
}

#[test]
fn groups_of_ip_come_back_before_their_broadcast_group() {
    let (mut sa, fixture) = with_broadcast();
    // In the dump, this group comes before the broadcast group.
    let group = of_host(1, "ff12:401b:ffff::101");
    assert_eq!(join(&mut sa, &fixture, 1, CREATE, &group).status, Status::SUCCESS);
    let text = sa.dump(Instant(0), &fixture.world());
    // A new master does not yet know the partitions' groups.
    let mut other = Administrator::default();
    assert_eq!(other.restore(Instant(0), &fixture.world(), &text), []);
    let back = other.groups().find(|known| known.record.mgid == group.mgid).expect("the group");
    assert_eq!(back.members.len(), 1);
    assert!(other.restore(Instant(0), &fixture.world(), &text.replace("0xff12401b", "0xfe80401b"))[0].line > 0);
}
