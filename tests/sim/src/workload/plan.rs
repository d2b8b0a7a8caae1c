//! The plan of a seed.

use weft_verbs::{Duration, Mtu, QpCap, QpType};

use crate::end::QpOptions;
use crate::machine::Ways;
use crate::net::Faults;
use crate::rng::Rng;
use crate::world::{Path, address};

/// Settings of one pair of queue pairs.
#[derive(Clone, Copy, Debug)]
pub struct PairPlan {
    /// Hosts of the two ends.
    pub hosts: [usize; 2],
    /// Options of both queue pairs.
    pub options: QpOptions,
    /// Whether they receive from an SRQ shared with others of their host.
    pub srq: bool,
    /// Number of operations in each direction; with none, that direction sends nothing.
    pub ops: [usize; 2],
    /// Longest message.
    pub len_max: u32,
    /// Whether receives are posted late and few, so that senders meet empty queues.
    pub slow: bool,
    /// At least one send in this many is signalled.
    pub signal_every: u32,
    /// Whether both ends drop everything that arrives behind a gap (RC).
    pub strict: bool,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hosts.
    pub hosts: usize,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Settings of the machine if all processes are on one.
    pub ways: Option<Ways>,
    /// Faults of the network.
    pub faults: Faults,
    /// Queue pairs.
    pub pairs: Vec<PairPlan>,
    /// Number of disturbances in mid-run: see `disturb`.
    pub disturbances: u32,
}

fn faults(rng: &mut Rng) -> Faults {
    let mut faults = Faults::NONE;
    match rng.below(13) {
        0 | 1 => {}
        2 => faults.loss = 100,
        3 => faults.loss = rng.range(200, 1000) as u32,
        4 => faults.reorder = rng.range(100, 2000) as u32,
        5 => faults.duplicate = rng.range(100, 2000) as u32,
        6 => faults.corrupt = rng.range(10, 300) as u32,
        7 => faults.jitter = Duration::from_micros(rng.range(1, 200)),
        8 => {
            faults.spacing = Duration::from_nanos(rng.range(100, 2000));
            faults.queue = rng.range(8, 64) as u32;
        }
        9 => {
            // Some packets arrive after their sender gave them up.
            faults.jitter = Duration::from_micros(rng.range(500, 4000));
            faults.loss = rng.pick(&[0, 100]);
        }
        10 => {
            faults.outage = (Duration::from_micros(rng.range(50, 4000)), rng.range(4, 12));
        }
        _ => {
            faults = Faults {
                loss: rng.range(10, 400) as u32,
                reorder: rng.range(10, 400) as u32,
                duplicate: rng.range(10, 400) as u32,
                corrupt: rng.range(1, 100) as u32,
                jitter: Duration::from_micros(rng.range(0, 30)),
                ..Faults::NONE
            };
        }
    }
    faults
}

/// Returns a first PSN, often just before the numbers wrap around.
fn psn(rng: &mut Rng) -> u32 {
    match rng.below(3) {
        0 => 0x00ff_ffff - rng.below(40) as u32,
        1 => 0x007f_ffff - rng.below(40) as u32,
        _ => rng.bits() as u32 & 0x00ff_ffff,
    }
}

fn pair(rng: &mut Rng, hosts: usize, path: Path) -> PairPlan {
    let kind = match rng.below(10) {
        0..=5 => QpType::Rc,
        6 => QpType::XrcSend,
        7 | 8 => QpType::Uc,
        _ => QpType::Ud,
    };
    let mtu = rng.pick(&Mtu::ALL);
    let sge_max = if rng.chance(1, 8) { 30 } else { rng.range(1, 5) as u32 };
    let depth = if rng.chance(1, 4) { rng.range(1, 3) } else { rng.range(4, 40) } as u32;
    let options = QpOptions {
        kind,
        mtu,
        timeout: rng.range(9, 13) as u8,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: rng.pick(&[1, 4, 8, 12]),
        rd_atomic: rng.pick(&[1, 1, 2, 4, 16, 128]),
        psn: [psn(rng), psn(rng)],
        cap: QpCap {
            max_send_wr: depth,
            max_recv_wr: rng.range(1, 24) as u32,
            max_send_sge: sge_max,
            max_recv_sge: rng.range(1, 5) as u32,
            max_inline_data: rng.pick(&[0, 32, 256, 1024]),
        },
        sq_sig_all: rng.chance(1, 4),
        qkey: rng.bits() as u32 & 0x7fff_ffff,
        ..QpOptions::default()
    };
    let first = rng.below(hosts as u64) as usize;
    let second = (first + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
    let wire = path == Path::Wire;
    let second = if !wire && rng.chance(1, 6) { first } else { second };
    let len_max = match rng.below(12) {
        0..=3 => 300,
        4..=9 => mtu.bytes() as u32 * 4,
        10 => mtu.bytes() as u32 * 12,
        _ => mtu.bytes() as u32 * 40,
    };
    let count = match len_max {
        40_000.. => 10,
        8_000.. => 30,
        _ => rng.pick(&[10, 40, 40, 120]),
    };
    let one_way = kind == QpType::XrcSend || rng.chance(1, 2);
    let ops = [rng.range(1, count) as usize, if one_way { 0 } else { rng.range(1, count) as usize }];
    PairPlan {
        hosts: [first, second],
        options,
        srq: kind == QpType::XrcSend || (kind == QpType::Rc && rng.chance(1, 4)),
        ops,
        len_max,
        slow: rng.chance(1, 5),
        signal_every: rng.range(1, 8) as u32,
        strict: kind == QpType::Rc && rng.chance(1, 4) && wire,
    }
}

impl Plan {
    /// Derives the plan from a seed and a path.
    pub fn new(rng: &mut Rng, path: Path) -> Plan {
        let hosts = if rng.chance(1, 4) { 3 } else { 2 };
        let v6 = rng.chance(1, 3);
        let mut faults = faults(rng);
        if rng.chance(1, 5) {
            faults.only_from = Some(address(v6, rng.below(hosts as u64) as usize));
        }
        let pairs = (0..rng.range(1, 4)).map(|_| pair(rng, hosts, path)).collect();
        let disturbances = if rng.chance(1, 4) { rng.range(1, 20) as u32 } else { 0 };
        let ways = (path != Path::Wire).then(|| Ways::new(rng, path == Path::Direct));
        Plan { hosts, v6, ways, faults, pairs, disturbances }
    }
}
