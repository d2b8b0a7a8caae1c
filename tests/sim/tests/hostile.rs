//! Hostile packets amid honest traffic: nothing panics, no memory without remote rights is touched, no state grows
//! without bound, and the adapter still works once they stop. `WEFT_SIM_HOSTILE` sets the number of rounds.

use weft_sim::hostile::{inject, invent, mutate};
use weft_sim::net::Datagram;
use weft_sim::world::DEVICE;
use weft_sim::{End, Faults, QpOptions, Rng, World, end, pair};
use weft_verbs::{Access, QpState, QpType, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge, UdTarget};

/// Rounds in a run.
const ROUNDS: u64 = 600;
/// Hostile packets in a round.
const PACKETS: u64 = 120;
/// Bytes of each region.
const REGION: usize = 16_384;

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

fn bed(seed: u64) -> Bed {
    let mut rng = Rng::new(seed);
    let kind = rng.pick(&[QpType::Rc, QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud]);
    let mut world = World::new(rng.bits(), 2, rng.chance(1, 3), Faults::NONE);
    let options =
        QpOptions { kind, rd_atomic: rng.pick(&[1, 4, 16]), timeout: 10, retry_cnt: 2, ..QpOptions::default() };
    let ends = pair(&mut world, &options);
    let access = Access::all() - Access::ZERO_BASED;
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
                (QpType::Ud, _) => (SendOp::Send, Sge { length: length.min(1024), ..local }),
                (_, 0) => (SendOp::Send, local),
                (_, 1) => (SendOp::WriteImm(place, 7), local),
                (QpType::Rc, 2) => (SendOp::Read(place), local),
                (QpType::Rc, 3) => (SendOp::FetchAdd { target: place, add: 3 }, word),
                (QpType::Rc, 4) => (SendOp::AtomicWrite(place), word),
                _ => (SendOp::Write(place), local),
            };
            let ud = (self.kind == QpType::Ud).then(|| UdTarget {
                av: self.world.hosts[side].path_to(self.world.hosts[1 - side].gid()),
                remote_qpn: self.ends[1 - side].qpn,
                remote_qkey: self.options.qkey,
            });
            let wr = SendWr { wr_id: 2, flags: SendFlags::SIGNALED, op, sges: &[sge], ud, xrc_srqn: None };
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

    fn check(&mut self) {
        for side in 0..2 {
            let held = self.world.hosts[side].look(self.secret[side].addr, REGION);
            assert_eq!(held, self.secret_bytes, "memory that nobody may write was written");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn round(seed: u64) {
    let mut bed = bed(seed);
    let mut rng = Rng::new(!seed);
    let qpns = [bed.ends[0].qpn, bed.ends[1].qpn, 0xff_ffff, bed.ends[0].qpn ^ 1];
    bed.honest_work(&mut rng);
    for _ in 0..20 {
        bed.world.step();
    }
    for _ in 0..PACKETS {
        let seen = bed.world.recorded.take().unwrap_or_default();
        let template = match seen.len() as u64 {
            0 => Datagram {
                src: bed.world.hosts[0].ip,
                dst: bed.world.hosts[1].ip,
                traffic_class: 0,
                hop_limit: 64,
                bytes: vec![0; 32],
            },
            n => seen[rng.below(n.min(200)) as usize].clone(),
        };
        bed.world.recorded = Some(if seen.len() > 400 { Vec::new() } else { seen });
        let packet = if rng.chance(1, 4) { invent(&mut rng, &template, &qpns) } else { mutate(&mut rng, &template) };
        inject(&mut bed.world, packet);
        for _ in 0..rng.below(4) {
            bed.world.step();
        }
        if rng.chance(1, 6) {
            bed.honest_work(&mut rng);
        }
        for side in 0..2 {
            let end = bed.ends[side];
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
    if bed.kind != QpType::Ud {
        let [a, b] = bed.ends;
        let place = RemoteTarget { addr: bed.open[1].addr, rkey: bed.open[1].lkey };
        bed.world.hosts[0].fill(bed.open[0].addr, &[0x3c; 5000]);
        a.send(&mut bed.world, 77, SendOp::Write(place), Sge { length: 5000, ..bed.open[0] }).unwrap();
        bed.world.settle();
        assert_eq!(a.poll(&mut bed.world).iter().map(|wc| (wc.wr_id, wc.status as u32)).collect::<Vec<_>>(), [(77, 0)]);
        assert_eq!(bed.world.hosts[1].look(bed.open[1].addr, 5000), [0x3c; 5000]);
        let _ = b;
    }
    for side in 0..2 {
        let hca = &mut bed.world.hosts[side].hca;
        hca.destroy_qp(bed.ends[side].qp).unwrap();
        hca.destroy_cq(bed.ends[side].cq).unwrap();
    }
}

#[test]
fn hostile_packets_do_no_harm() {
    if let Some(seed) = number("WEFT_SIM_SEED") {
        return round(seed);
    }
    for seed in 0..number("WEFT_SIM_HOSTILE").unwrap_or(ROUNDS) {
        if std::panic::catch_unwind(|| round(seed)).is_err() {
            panic!("WEFT_SIM_SEED={seed} cargo test -p weft-sim --test hostile");
        }
    }
}

/// Packets from an address other than the peer's change nothing and are counted.
#[test]
fn packets_from_a_stranger_are_dropped() {
    let mut world = World::new(1, 3, false, Faults::NONE);
    let [a, b] = pair(&mut world, &QpOptions::default());
    let (addr, lkey) = world.hosts[0].region(a.pd, 64, Access::LOCAL_WRITE);
    let (to, rkey) = world.hosts[1].region(b.pd, 64, Access::all() - Access::ZERO_BASED);
    world.record();
    world.hosts[0].fill(addr, &[9; 64]);
    world.kill(1, true);
    let sge = Sge { addr, length: 64, lkey };
    a.send(&mut world, 1, SendOp::Write(RemoteTarget { addr: to, rkey }), sge).unwrap();
    world.step();
    world.kill(1, false);
    let mut forged = world.recorded.clone().unwrap_or_default().remove(0);
    forged.src = world.hosts[2].ip;
    inject(&mut world, forged);
    assert_eq!(world.hosts[1].look(to, 64), [0; 64]);
    assert_eq!(world.hosts[1].hca.counters(DEVICE).bad_address, 1);
    world.settle();
    assert_eq!(world.hosts[1].look(to, 64), [9; 64]);
}

/// Another partition's packets are dropped and counted.
#[test]
fn packets_of_another_partition_are_dropped() {
    let mut world = World::new(1, 2, false, Faults::NONE);
    let [a, b] = pair(&mut world, &QpOptions::default());
    let (addr, lkey) = world.hosts[0].region(a.pd, 64, Access::LOCAL_WRITE);
    let (to, rkey) = world.hosts[1].region(b.pd, 64, Access::all() - Access::ZERO_BASED);
    world.record();
    world.net.faults = Faults { loss: 10_000, ..Faults::NONE };
    let sge = Sge { addr, length: 64, lkey };
    a.send(&mut world, 1, SendOp::Write(RemoteTarget { addr: to, rkey }), sge).unwrap();
    world.step();
    let mut foreign = world.recorded.clone().unwrap_or_default().remove(0);
    foreign.bytes[2..4].copy_from_slice(&0x8001_u16.to_be_bytes());
    inject(&mut world, foreign);
    assert_eq!(world.hosts[1].hca.counters(DEVICE).bad_pkey, 1);
}
