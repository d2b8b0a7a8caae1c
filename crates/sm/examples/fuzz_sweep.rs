//! Fuzzing of sweeps without nightly: agents that lie to the manager, for `--seconds N`. The fabric answers correctly,
//! and the run changes some answers on the way: fields, whole attributes, status, method, transaction. Answers also
//! come twice, late, or not at all, and unsolicited traps arrive. A panic is a finding; runs with the same `--seed` are
//! the same.
//!
//! `cargo run --profile dist -p weft-sm --example fuzz_sweep -- --seconds 60 [--seed N]`

// A program for a person at a terminal, not part of the crate: it may read the clock.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant as Clock};

use weft_fabric::topology::NodeKind;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_sm::io::{Peer, SmpOut};
use weft_sm::manager::{Manager, Setup};
use weft_sm::routing::chain::Chain;
use weft_sm::{Parallel, Sequential};
use weft_verbs::Instant;
use weft_wire::mad::{Mad, Method};
use zerocopy::IntoBytes;

/// MADs of one manager, before a new one starts.
const DATAGRAMS: u64 = 20_000;
/// Answers that may be late.
const LATE_MAX: usize = 64;
/// Bytes of an SMP that hold the attribute.
const ATTRIBUTE: std::ops::Range<usize> = 64..128;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 32) as usize % limit.max(1)
    }

    /// Changes a few bytes, or all, or none.
    fn lie(&mut self, mad: &mut Mad) {
        let bytes = mad.as_mut_bytes();
        let kind = self.below(12);
        let mut put = |at: usize, byte: u8| {
            if let Some(there) = bytes.get_mut(at) {
                *there = byte;
            }
        };
        match kind {
            0 => ATTRIBUTE.for_each(|at| put(at, self.next() as u8)),
            1 => ATTRIBUTE.for_each(|at| put(at, 0xff)),
            2 => ATTRIBUTE.for_each(|at| put(at, 0)),
            3 => put(4 + self.below(2), self.next() as u8),
            4 => put(16 + self.below(8), self.next() as u8),
            5 => put(self.below(256), self.next() as u8),
            _ => {
                for _ in 0..=self.below(4) {
                    let any = self.next() as u8;
                    let value = [0, 1, 2, 0x7f, 0x80, 0xc0, 0xff, any][self.below(8)];
                    put(ATTRIBUTE.start + self.below(44), value);
                }
            }
        }
    }
}

struct Run {
    fabric: Fabric,
    manager: Manager,
    at: PortRef,
    now: Instant,
    random: Random,
    late: Vec<Mad>,
    /// One of this many answers is a lie.
    honesty: usize,
    datagrams: u64,
    lies: u64,
}

impl Run {
    fn ask(&mut self, out: &SmpOut) {
        self.datagrams += 1;
        let mad = MadOut { to: MadAddress::smi(out.dlid), mad: out.mad };
        let _ = self.fabric.send(self.now, self.at, &mad);
        let mut answered = false;
        while let Some(delivery) = self.fabric.poll_delivery() {
            let mut mad = delivery.mad;
            let peer = Peer { lid: delivery.slid, ..Peer::default() };
            match self.random.below(self.honesty) {
                0 => {
                    self.lies += 1;
                    self.random.lie(&mut mad);
                }
                1 if self.late.len() < LATE_MAX => {
                    self.late.push(mad);
                    continue;
                }
                2 => self.manager.handle_smp(self.now, &peer, &mad),
                3 => continue,
                _ => {}
            }
            answered |= mad.header.method() == Method::GET_RESP;
            self.manager.handle_smp(self.now, &peer, &mad);
        }
        if !answered && !out.timeout.is_zero() {
            self.manager.handle_smp_timeout(self.now, &out.mad);
        }
    }

    /// Delivers an unsolicited MAD.
    fn disturb(&mut self) {
        if !self.late.is_empty() {
            let mut mad = self.late.swap_remove(self.random.below(self.late.len()));
            if self.random.below(2) == 0 {
                let method = [Method::TRAP, Method::GET, Method::SET, Method::GET_RESP][self.random.below(4)];
                mad.header.set_method(method);
                self.random.lie(&mut mad);
            }
            self.manager.handle_smp(self.now, &Peer { lid: self.random.next() as u16, ..Peer::default() }, &mad);
        }
        match self.random.below(40) {
            0 => self.manager.sweep(self.random.below(2) == 0),
            1 => {
                let node = self.random.below(self.fabric.node_count() as usize) as u32;
                let port = 1 + self.random.below(usize::from(self.fabric.port_count(node))) as u8;
                let _ = self.fabric.cut(self.now, PortRef::new(node, port));
            }
            _ => {}
        }
    }

    fn play(&mut self, parallel: &dyn Parallel) {
        while self.datagrams < DATAGRAMS {
            let mut moved = false;
            while let Some(out) = self.manager.poll_smp().filter(|_| self.datagrams < DATAGRAMS) {
                moved = true;
                self.ask(&out);
                if self.random.below(64) == 0 {
                    self.disturb();
                }
            }
            while let Some(job) = self.manager.poll_job() {
                moved = true;
                self.manager.handle_job(self.now, job.run(parallel));
            }
            while self.manager.poll_event().is_some() {}
            while let Some(out) = self.manager.poll_gmp() {
                self.manager.handle_gmp_timeout(self.now, &out.to, &out.bytes);
            }
            if !moved {
                self.disturb();
                self.datagrams += 1;
                let due = self.manager.poll_timeout().unwrap_or(self.now);
                self.now = due.max(self.now + weft_verbs::Duration::from_millis(1));
                self.manager.handle_timeout(self.now);
            }
        }
    }
}

fn argument(name: &str) -> Option<u64> {
    std::env::args().skip_while(|word| word != name).nth(1).map(|word| word.parse().expect("a number"))
}

fn main() {
    let seed = argument("--seed").unwrap_or(std::process::id().into());
    let end = Clock::now() + Duration::from_secs(argument("--seconds").unwrap_or(10));
    println!("seed {seed}");
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let shape = Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None };
    let topology = Plan::new(shape).generate().expect("a topology");
    let (mut runs, mut datagrams, mut lies, mut up) = (0_u64, 0_u64, 0_u64, 0_u64);
    while Clock::now() < end {
        let fabric = Fabric::new(&topology, random.next());
        let host = (0..fabric.node_count()).find(|node| fabric.kind(*node) == Some(NodeKind::Ca)).expect("a host");
        let at = PortRef::new(host, 1);
        let guid = fabric.port_guid(at).expect("a port");
        let engines = ["minhop", "updn", "ftree", "dfsssp", "nue", "lash", "dor"];
        let mut setup = Setup { max_wire_smps: 1 + random.below(64) as u32, ..Setup::new(guid) };
        setup.engines = Chain::new(&[engines[random.below(engines.len())]], true);
        let manager = Manager::new(Instant(0), setup);
        let honesty = [5, 20, 100, 1000][random.below(4)];
        let own = Random(random.next() | 1);
        let (late, now) = (Vec::new(), Instant(0));
        let mut run = Run { fabric, manager, at, now, random: own, late, honesty, datagrams: 0, lies: 0 };
        run.play(&Sequential);
        (runs, datagrams, lies) = (runs + 1, datagrams + run.datagrams, lies + run.lies);
        up += u64::from(run.manager.subnet().nodes().count() > 1);
    }
    println!(
        "{runs} managers, {up} of them knew more than themselves at the end; {datagrams} datagrams, {lies} lies; no finding"
    );
}
