//! Measures SA queries per second on one processor: paths between the hosts of a fat tree, then joins of as many hosts
//! to their groups, and the trees of all those groups.
//!
//! `cargo run --profile dist -p weft-sm --example sa_rate -- [RADIX [LEVELS]]` (36 and 3: 11,664 hosts)
#![allow(clippy::disallowed_methods)]

#[path = "../src/sa/tests/fixture.rs"]
mod fixture;

use std::time::Instant as Clock;

use fixture::Fixture;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_sm as sm;
use weft_sm::io::Peer;
use weft_sm::multicast::{Forest, Request, trees};
use weft_sm::sa::Administrator;
use weft_verbs::Instant;
use weft_wire::mad::sa::{ComponentMask, JoinState, McMemberRecord, PathRecord, SaMad};
use weft_wire::mad::{Attribute, Method};
use zerocopy::IntoBytes;

/// Queries that arrive before the SA serves them, as from a socket that is read until it is empty.
const BATCH: usize = 64;
/// Path queries.
const PATHS: u32 = 1_000_000;
/// Members of a group.
const MEMBERS: usize = 128;

/// Random numbers, the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Sends all queries from their LIDs; returns queries per second, and how many failed.
fn ask(sa: &mut Administrator, fixture: &Fixture, questions: &[(u16, SaMad)]) -> (f64, usize) {
    let world = fixture.world();
    let began = Clock::now();
    let mut refused = 0;
    for batch in questions.chunks(BATCH) {
        for (lid, mad) in batch {
            sa.handle(Instant(0), &world, &Peer { lid: *lid, qpn: 1, ..Peer::default() }, mad.as_bytes());
        }
        sa.serve(Instant(0), &world, BATCH);
        let mut answers = 0;
        while let Some(out) = sa.poll_gmp() {
            answers += 1;
            refused += usize::from(out.bytes[4..6] != [0, 0]);
        }
        assert_eq!(answers, batch.len(), "each is answered");
    }
    (questions.len() as f64 / began.elapsed().as_secs_f64(), refused)
}

fn question<A: Attribute>(method: Method, mask: ComponentMask, record: &A) -> SaMad {
    SaMad::request(method, 1, mask, record)
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let (radix, levels) = (words.next().unwrap_or(36), words.next().unwrap_or(3));
    let shape = Shape::FatTree { radix, levels, hosts: None, hosts_per_leaf: None };
    let fixture = Fixture::numbered(&Plan::new(shape).generate().expect("a topology"));
    let hosts: Vec<(u16, [u8; 16])> = fixture.graph.ends.iter().map(|end| (end.lid, gid(end.guid))).collect();
    println!("{} hosts, {} switches", hosts.len(), fixture.graph.switch_count());
    let mut sa = Administrator::default();
    let began = Clock::now();
    sa.refresh(Instant(0), &fixture.world());
    println!("index: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);

    let mut rng = Rng(1);
    let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH | PathRecord::REVERSIBLE;
    let path = |_| {
        let (from, to) = (hosts[rng.below(hosts.len())], hosts[rng.below(hosts.len())]);
        let asked = PathRecord { sgid: from.1, dgid: to.1, numb_path: 1, reversible: true, ..PathRecord::default() };
        (from.0, question(Method::GET, mask, &asked))
    };
    let paths: Vec<(u16, SaMad)> = (0..PATHS).map(path).collect();
    let (rate, refused) = ask(&mut sa, &fixture, &paths);
    println!("paths: {rate:.0} a second, {refused} refused");

    let joins: Vec<(u16, SaMad)> = hosts.iter().enumerate().map(|(place, host)| join(place, host)).collect();
    let (rate, refused) = ask(&mut sa, &fixture, &joins);
    println!("joins: {rate:.0} a second, {refused} refused, {} groups", sa.groups().count());
    grow(&sa, &fixture);
}

/// Joins a host to the group of its number; the first member creates the group.
fn join(place: usize, host: &(u16, [u8; 16])) -> (u16, SaMad) {
    let mut mgid = [0; 16];
    (mgid[0], mgid[1]) = (0xff, 0x1e);
    mgid[12..].copy_from_slice(&((place / MEMBERS) as u32).to_be_bytes());
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::JOIN_STATE
        | McMemberRecord::QKEY
        | McMemberRecord::TCLASS
        | McMemberRecord::PKEY
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::SL;
    let join_state = JoinState::FULL_MEMBER;
    let asked =
        McMemberRecord { mgid, port_gid: host.1, qkey: 1, pkey: 0xffff, join_state, ..McMemberRecord::default() };
    (host.0, question(Method::SET, mask, &asked))
}

/// Computes all trees, and then one of them again for an additional member.
fn grow(sa: &Administrator, fixture: &Fixture) {
    let mut wanted = sa.wanted();
    let began = Clock::now();
    let request =
        Request { graph: &fixture.graph, wanted: &wanted, without_mft: sa.without_mft(), previous: &Forest::default() };
    let forest = trees(&request);
    println!("trees: {} in {:.0} ms", forest.trees.len(), began.elapsed().as_secs_f64() * 1e3);
    let seat = wanted.last().and_then(|wanted| wanted.seats.last()).copied();
    wanted[0].seats.extend(seat);
    let began = Clock::now();
    let request = Request { graph: &fixture.graph, wanted: &wanted, without_mft: sa.without_mft(), previous: &forest };
    trees(&request);
    println!("trees after another join: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
}

fn gid(guid: u64) -> [u8; 16] {
    (0xfe80_u128 << 112 | u128::from(guid)).to_be_bytes()
}
