//! A hostile process among honest ones on the same machine: nothing panics, no memory without remote rights is touched,
//! and the adapter still works once it stops. `WEFT_SIM_HOSTILE` sets the number of rounds.

use weft_sim::hostile_frames::{invent, mutate};
use weft_sim::machine::Held;
use weft_sim::{End, Faults, Path, QpOptions, Rng, Ways, World, end, pair};
use weft_verbs::{Access, QpState, QpType, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge};

/// Rounds in a run.
const ROUNDS: u64 = 600;
/// Hostile frames in a round.
const FRAMES: u64 = 120;
/// Bytes of each region.
const REGION: usize = 40_000;
/// Maximum number of recorded frames to mutate.
const KEPT_MAX: usize = 400;

struct Bed {
    world: World,
    kind: QpType,
    ends: [End; 2],
    options: QpOptions,
    /// Memory that peers may access; the memory in between is private.
    open: [Sge; 2],
    secret: [Sge; 2],
    secret_bytes: Vec<u8>,
}

fn bed(seed: u64, path: Path) -> Bed {
    let mut rng = Rng::new(seed);
    let kind = rng.pick(&[QpType::Rc, QpType::Rc, QpType::Rc, QpType::Uc]);
    let ways = Ways::new(&mut rng, path == Path::Direct);
    let mut world = World::with(rng.bits(), 3, false, Faults::NONE, Some(ways));
    let options =
        QpOptions { kind, rd_atomic: rng.pick(&[1, 4, 16]), timeout: 10, retry_cnt: 2, ..QpOptions::default() };
    let ends = pair(&mut world, &options);
    let access = Access::all() - Access::ZERO_BASED - Access::ON_DEMAND;
    let region = |world: &mut World, end: &End, access| {
        let (addr, lkey) = world.hosts[end.host].region(end.pd, REGION, access);
        Sge { addr, length: REGION as u32, lkey }
    };
    let open = [region(&mut world, &ends[0], access), region(&mut world, &ends[1], access)];
    let secret = [region(&mut world, &ends[0], Access::empty()), region(&mut world, &ends[1], Access::empty())];
    let secret_bytes: Vec<u8> = (0..REGION).map(|_| rng.bits() as u8).collect();
    for (host, sge) in world.hosts.iter_mut().zip(&secret) {
        host.fill(sge.addr, &secret_bytes);
    }
    world.record();
    Bed { world, kind, ends, options, open, secret, secret_bytes }
}

impl Bed {
    fn honest_work(&mut self, rng: &mut Rng) {
        for side in 0..2 {
            let end = self.ends[side];
            let length = rng.range(0, REGION as u64) as u32;
            let local = Sge { length, ..self.open[side] };
            let wr = RecvWr { wr_id: 1, sges: &[self.open[side]] };
            let _ = self.world.hosts[side].hca.post_recv(end.qp, &wr);
            let place = RemoteTarget { addr: self.open[1 - side].addr, rkey: self.open[1 - side].lkey };
            let word = Sge { length: 8, ..local };
            let (op, sge) = match (self.kind, rng.below(6)) {
                (_, 0) => (SendOp::Send, local),
                (_, 1) => (SendOp::WriteImm(place, 7), local),
                (QpType::Rc, 2) => (SendOp::Read(place), local),
                (QpType::Rc, 3) => (SendOp::FetchAdd { target: place, add: 3 }, word),
                (QpType::Rc, 4) => (SendOp::AtomicWrite(place), word),
                _ => (SendOp::Write(place), local),
            };
            let wr = SendWr { wr_id: 2, flags: SendFlags::SIGNALED, op, sges: &[sge], ud: None, xrc_srqn: None };
            let now = self.world.now;
            let _ = self.world.hosts[side].hca.post_send(now, end.qp, &wr);
        }
    }

    /// Resets and reconnects after an error.
    fn revive(&mut self) {
        if self.ends.iter().all(|end| end.state(&self.world) == QpState::Rts) {
            return;
        }
        for end in &self.ends {
            end::go(&mut self.world, end, self.kind, QpState::Reset, &Default::default()).unwrap();
        }
        end::connect(&mut self.world, [&self.ends[0], &self.ends[1]], [self.kind; 2], &self.options);
    }

    /// Injects a hostile frame, from the real peer or from a third process.
    fn harm(&mut self, rng: &mut Rng) {
        let machine = self.world.machine.clone().expect("a machine");
        let mut machine = machine.borrow_mut();
        let (qpns, keys, addrs) = self.names();
        let recorded = machine.recorded.get_or_insert_default();
        if recorded.len() > KEPT_MAX {
            recorded.clear();
        }
        let (mut from, to, held): (usize, usize, Held) = if recorded.is_empty() || rng.chance(1, 4) {
            let to = rng.below(2) as usize;
            (1 - to, to, invent(rng, &qpns, &keys, &addrs))
        } else {
            let at = rng.below(recorded.len() as u64) as usize;
            let (from, to, held) = &recorded[at];
            (*from, *to, mutate(rng, held))
        };
        if rng.chance(1, 5) {
            from = 2;
        }
        machine.force(from, to, held);
    }

    fn names(&self) -> (Vec<u32>, Vec<u32>, Vec<u64>) {
        let [a, b] = &self.ends;
        let sges = self.open.iter().chain(&self.secret);
        let keys = sges.clone().map(|sge| sge.lkey).collect();
        let addrs = sges.flat_map(|sge| [sge.addr, sge.addr + REGION as u64 - 8, sge.addr - 1]).collect();
        (vec![a.qpn, b.qpn, 0xff_ffff, a.qpn ^ 1], keys, addrs)
    }

    fn check(&mut self) {
        for side in 0..2 {
            let held = self.world.hosts[side].look(self.secret[side].addr, REGION);
            assert!(held == self.secret_bytes, "memory that nobody may write was written");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn round(seed: u64, path: Path) {
    let mut bed = bed(seed, path);
    let mut rng = Rng::new(!seed);
    bed.honest_work(&mut rng);
    for _ in 0..rng.below(20) {
        bed.world.step();
    }
    for _ in 0..FRAMES {
        bed.harm(&mut rng);
        for _ in 0..rng.below(6) {
            bed.world.step();
        }
        if rng.chance(1, 6) {
            bed.honest_work(&mut rng);
        }
        for end in bed.ends {
            end.poll(&mut bed.world);
        }
        bed.revive();
    }
    bed.check();

    // Quiet again: a fresh connection works as on a new adapter.
    bed.world.settle();
    for end in bed.ends {
        end::go(&mut bed.world, &end, bed.kind, QpState::Reset, &Default::default()).unwrap();
        end.poll(&mut bed.world);
    }
    end::connect(&mut bed.world, [&bed.ends[0], &bed.ends[1]], [bed.kind; 2], &bed.options);
    let [a, b] = bed.ends;
    let place = RemoteTarget { addr: bed.open[1].addr, rkey: bed.open[1].lkey };
    bed.world.hosts[0].fill(bed.open[0].addr, &[0x3c; 5000]);
    a.send(&mut bed.world, 77, SendOp::Write(place), Sge { length: 5000, ..bed.open[0] }).unwrap();
    bed.world.settle();
    assert_eq!(a.poll(&mut bed.world).iter().map(|wc| (wc.wr_id, wc.status as u32)).collect::<Vec<_>>(), [(77, 0)]);
    assert_eq!(bed.world.hosts[1].look(bed.open[1].addr, 5000), [0x3c; 5000]);
    for end in [a, b] {
        let hca = &mut bed.world.hosts[end.host].hca;
        hca.destroy_qp(end.qp).unwrap();
        hca.destroy_cq(end.cq).unwrap();
    }
}

fn rounds(path: Path) {
    if let Some(seed) = number("WEFT_SIM_SEED") {
        return round(seed, path);
    }
    for seed in 0..number("WEFT_SIM_HOSTILE").unwrap_or(ROUNDS) {
        if std::panic::catch_unwind(|| round(seed, path)).is_err() {
            panic!("{path:?}: WEFT_SIM_SEED={seed} cargo test -p weft-sim --test hostile_frames");
        }
    }
}

#[test]
fn hostile_frames_do_no_harm_where_memory_is_copied_directly() {
    rounds(Path::Direct);
}

#[test]
fn hostile_frames_do_no_harm_where_only_rings_lead() {
    rounds(Path::Rings);
}

/// Frames that a third process sends for another process's connection change nothing.
#[test]
fn frames_from_a_stranger_are_dropped() {
    for path in [Path::Direct, Path::Rings] {
        let mut world = World::on(path, 1, 3);
        let [a, b] = pair(&mut world, &QpOptions::default());
        let (addr, lkey) = world.hosts[0].region(a.pd, 64, Access::LOCAL_WRITE);
        let (to, _) = world.hosts[1].region(b.pd, 64, Access::all() - Access::ZERO_BASED);
        world.hosts[0].fill(addr, &[9; 64]);
        world.record();
        let machine = world.machine.clone().unwrap();
        world.stop(1, true);
        let wr = RecvWr { wr_id: 5, sges: &[] };
        world.hosts[1].hca.post_recv(b.qp, &wr).unwrap();
        a.send(&mut world, 1, SendOp::Send, Sge { addr, length: 0, lkey }).unwrap();
        world.step();
        // The honest frame never arrives; the third process sends an identical one.
        let (_, _, held) = machine.borrow().recorded.clone().unwrap().remove(0);
        machine.borrow_mut().empty_ring(0, 1);
        world.kill(0, true);
        world.stop(1, false);
        machine.borrow_mut().force(2, 1, held);
        for _ in 0..20 {
            world.step();
        }
        assert!(b.poll(&mut world).is_empty(), "{path:?}: a stranger's message was received");
        assert_eq!(world.hosts[1].look(to, 64), [0; 64]);
    }
}
