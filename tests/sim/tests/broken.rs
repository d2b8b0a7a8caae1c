//! Connections that break midway, for every possible reason, on every path. Each work request still completes once and
//! in order. Operations reported as successful have happened. No access touches a deregistered region, and everything
//! left can be destroyed. `WEFT_SIM_BROKEN` sets the number of seeds.

use weft_sim::world::DEVICE;
use weft_sim::{Faults, Path, QpOptions, Rng, Ways, World, end};
use weft_verbs::{
    Access, CqInit, Duration, Mtu, QpAttr, QpState, QpType, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge,
    SrqAttr, SrqInit, Wc, WcOpcode, WcStatus,
};

/// Seeds in a run.
const SEEDS: u64 = 4000;
/// Operations in a run.
const OPS: u64 = 40;
/// Bytes reserved for each operation.
const SLOT: u64 = 6000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn check_order(wcs: &[Wc], posted: u64, what: &str) -> usize {
    let ids: Vec<u64> = wcs.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, (0..posted).collect::<Vec<_>>(), "{what}: each once and in order");
    let good = wcs.iter().take_while(|wc| wc.status == WcStatus::Success).count();
    // Then one error and flushes. A READ whose response was lost when a later request was refused flushes before it.
    let mut errors = wcs[good..].iter().filter(|wc| wc.status != WcStatus::WrFlushErr);
    assert!(wcs[good..].iter().all(|wc| wc.status != WcStatus::Success), "{what}: a success after a failure");
    if let (Some(first), Some(second)) = (errors.next(), errors.next()) {
        panic!("{what}: two errors, {first:?} and {second:?}");
    }
    good
}

/// Reasons that exist on every path; paths on one machine have one more.
const REASONS: u64 = 12;
const STOPPED: u64 = 12;

fn run(seed: u64, path: Path) {
    let mut rng = Rng::new(seed);
    let faults = Faults {
        loss: rng.pick(&[0, 0, 100, 500]),
        reorder: rng.pick(&[0, 0, 300]),
        duplicate: rng.pick(&[0, 0, 300]),
        ..Faults::NONE
    };
    let on_machine = path != Path::Wire;
    let ways = on_machine.then(|| Ways::new(&mut rng, path == Path::Direct));
    let mut world = World::with(rng.bits(), 2, false, faults, ways);
    let mut parts = [end::parts(&mut world, 0), end::parts(&mut world, 1)];
    let reason = rng.below(REASONS + u64::from(on_machine));
    let shared = rng.chance(1, 3);
    if shared {
        let attr = SrqAttr { max_wr: 100, max_sge: 1, srq_limit: 0 };
        let init = SrqInit { pd: parts[1].pd, attr, xrc: None, cookie: 0 };
        parts[1].srq = Some(world.hosts[1].hca.create_srq(DEVICE, &init).unwrap());
    }
    if reason == 8 {
        let init = CqInit { cqe: rng.range(1, 10) as u32, cookie: 0, ignore_overrun: false };
        parts[1].cq = world.hosts[1].hca.create_cq(DEVICE, &init).unwrap();
    }
    let mut options = QpOptions {
        mtu: rng.pick(&Mtu::ALL),
        timeout: 9,
        retry_cnt: 7,
        rnr_retry: 7,
        rd_atomic: rng.pick(&[1, 4, 16]),
        sq_sig_all: true,
        psn: [0xff_ffff - rng.below(100) as u32, rng.below(1000) as u32],
        ..QpOptions::default()
    };
    options.cap.max_recv_wr = 100;
    let [a, b] = end::pair_of(&mut world, &parts, &options);
    let (from, lkey) = world.hosts[0].region(a.pd, (SLOT * OPS) as usize, Access::LOCAL_WRITE);
    let source: Vec<u8> = (0..SLOT * OPS).map(|_| rng.bits() as u8 | 1).collect();
    world.hosts[0].fill(from, &source);
    let to = world.hosts[1].alloc((SLOT * OPS) as usize);
    let target = world.hosts[1]
        .hca
        .reg_mr(b.pd, to, SLOT * OPS, to, Access::all() - Access::ZERO_BASED - Access::ON_DEMAND)
        .unwrap();
    let (buffers, buffer_key) = world.hosts[1].region(b.pd, (SLOT * OPS) as usize, Access::LOCAL_WRITE);
    let bad_at = rng.range(0, OPS - 1);

    for wr_id in 0..OPS {
        let short = reason == 4 && wr_id == bad_at;
        let length = if short { 10 } else { SLOT as u32 };
        let lkey = if reason == 5 && wr_id == bad_at { 7 } else { buffer_key };
        let sge = Sge { addr: buffers + wr_id * SLOT, length, lkey };
        let wr = RecvWr { wr_id, sges: &[sge] };
        match b.srq {
            Some(srq) => world.hosts[1].hca.post_srq_recv(srq, &wr).unwrap(),
            None => world.hosts[1].hca.post_recv(b.qp, &wr).unwrap(),
        }
    }
    let mut ops = Vec::new();
    for wr_id in 0..OPS {
        let bad = wr_id == bad_at;
        let rkey = if reason == 0 && bad { target.rkey ^ 1 } else { target.rkey };
        let place = RemoteTarget { addr: to + wr_id * SLOT, rkey };
        let length = rng.range(1, SLOT) as u32;
        let lkey = if reason == 1 && bad { lkey ^ 0x55 } else { lkey };
        let sge = Sge { addr: from + wr_id * SLOT, length, lkey };
        let word = Sge { length: 8, ..sge };
        let (op, sge) = match if reason == 0 && bad { 0 } else { rng.below(6) } {
            0 | 1 => (SendOp::Write(place), sge),
            2 => (SendOp::Read(place), sge),
            3 => (SendOp::FetchAdd { target: place, add: 5 }, word),
            _ => (SendOp::Send, sge),
        };
        let wr = SendWr { wr_id, flags: SendFlags::SIGNALED, op, sges: &[sge], ud: None, xrc_srqn: None };
        world.hosts[0].hca.post_send(world.now, a.qp, &wr).unwrap();
        ops.push((op, sge));
    }

    let steps = rng.below(if on_machine { 80 } else { 500 });
    for _ in 0..steps {
        world.step();
    }
    match reason {
        2 => world.kill(1, true),
        3 => end::go(&mut world, &b, QpType::Rc, QpState::Err, &QpAttr::default()).unwrap(),
        6 => end::go(&mut world, &a, QpType::Rc, QpState::Err, &QpAttr::default()).unwrap(),
        7 => world.hosts[1].hca.dereg_mr(target.id).unwrap(),
        9 => world.hosts[1].hca.remove_device(DEVICE),
        10 => world.hosts[0].hca.remove_device(DEVICE),
        11 => {
            // The peer starts over: it does not know the packets that still arrive.
            end::go(&mut world, &b, QpType::Rc, QpState::Reset, &QpAttr::default()).unwrap();
        }
        STOPPED => {
            world.stop(1, true);
            world.run_for(Duration::from_micros(rng.range(1, 300_000)));
            world.stop(1, false);
        }
        _ => {}
    }
    let taken_back = (reason == 7).then(|| world.hosts[1].look(to, (SLOT * OPS) as usize));
    world.settle();
    if let Some(before) = taken_back {
        assert!(world.hosts[1].look(to, before.len()) == before, "memory was changed after its region was taken back");
    }

    let sent = a.poll(&mut world);
    let good = check_order(&sent, OPS, "sends");
    let received: Vec<Wc> = b.poll(&mut world);
    let kept = reason == 8 || reason == 11;
    let taken = if kept {
        received.iter().take_while(|wc| wc.status == WcStatus::Success).count()
    } else {
        let failed = received.iter().any(|wc| wc.status != WcStatus::Success);
        let all = failed && !shared;
        check_order(&received, if all { OPS } else { received.len() as u64 }, "receives")
    };
    // Operations reported to the sender as successful have happened.
    let mut message = 0;
    for (wr_id, (op, sge)) in ops.iter().enumerate().take(good) {
        let (at, len) = (wr_id * SLOT as usize, sge.length as usize);
        match op {
            SendOp::Write(_) => {
                let held = world.hosts[1].look(to + at as u64, len);
                assert_eq!(held, source[at..at + len], "write {wr_id} succeeded but its bytes are not there");
            }
            SendOp::Send => {
                let held = world.hosts[1].look(buffers + message * SLOT, len);
                assert_eq!(held, source[at..at + len], "send {wr_id} succeeded but its bytes are not there");
                message += 1;
            }
            _ => {}
        }
    }
    if !kept {
        assert!(taken as u64 >= message, "{message} sends succeeded, {taken} were received");
        assert!(received[..taken].iter().all(|wc| wc.opcode == WcOpcode::Recv));
    }
    let unharmed = matches!(reason, 4 | 5 | 7 | 8 | STOPPED) && good as u64 == OPS;
    let broken = [a.state(&world), b.state(&world)];
    if good as u64 == OPS {
        assert!(unharmed || reason > 1, "reason {reason} should have broken the connection");
    } else {
        assert_eq!(broken[0], QpState::Err, "the sender failed but is in {:?}", broken[0]);
    }
    assert!(reason != STOPPED || good as u64 == OPS, "a process that stood still lost its connection");
    for (host, end) in [(0, a), (1, b)] {
        let hca = &mut world.hosts[host].hca;
        hca.destroy_qp(end.qp).unwrap();
        hca.destroy_cq(end.cq).unwrap();
        if let Some(srq) = end.srq {
            hca.destroy_srq(srq).unwrap();
        }
    }
}

#[test]
fn a_connection_breaks_cleanly() {
    breaks_cleanly(Path::Wire);
}

#[test]
fn a_connection_breaks_cleanly_by_direct_copies() {
    breaks_cleanly(Path::Direct);
}

#[test]
fn a_connection_breaks_cleanly_by_rings() {
    breaks_cleanly(Path::Rings);
}

fn breaks_cleanly(path: Path) {
    if let Some(seed) = number("WEFT_SIM_SEED") {
        return run(seed, path);
    }
    let mut failed = 0;
    for seed in 0..number("WEFT_SIM_BROKEN").unwrap_or(SEEDS) {
        if std::panic::catch_unwind(|| run(seed, path)).is_err() {
            eprintln!("{path:?}: WEFT_SIM_SEED={seed} cargo test -p weft-sim --test broken");
            failed += 1;
            assert!(failed < 10, "ten seeds failed");
        }
    }
    assert_eq!(failed, 0, "seeds failed: see above");
}
