//! Situations that only processes of one machine meet: copies without the peer's work, keys that end during a copy,
//! stopped peers, full rings, lists that cannot be fetched.

use weft_sim::{Path, QpOptions, Ways, World, end, pair};
use weft_verbs::{Access, Duration, QpAttr, QpState, QpType, RemoteTarget, SendOp, Sge, WcStatus};

use super::{PATH, fill, look, memory, open, setup, statuses, target};

/// Returns whether direct copies are impossible: no common machine, or only rings between processes.
fn without_direct_copies() -> bool {
    PATH != Path::Direct
}

/// Creates a world whose machine differs from the usual one.
fn with(change: impl Fn(&mut Ways)) -> Option<World> {
    let mut ways = PATH.ways()?;
    change(&mut ways);
    Some(World::with(7, 2, false, weft_sim::Faults::NONE, Some(ways)))
}

#[test]
fn a_peer_that_stands_still_is_read_and_written_directly() {
    if without_direct_copies() {
        return;
    }
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 9000, Access::LOCAL_WRITE);
    let back = memory(&mut world, &a, 9000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 9000, open());
    fill(&mut world, &a, &from, 0x42);
    world.stop(1, true);
    a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
    a.send(&mut world, 2, SendOp::Read(target(&to)), back).unwrap();
    let add = SendOp::FetchAdd { target: target(&to), add: 1 };
    a.send(&mut world, 3, add, Sge { length: 8, ..from }).unwrap();
    a.send(&mut world, 4, SendOp::AtomicWrite(target(&to)), Sge { length: 8, ..back }).unwrap();
    world.settle();
    let all: Vec<_> = (1..=4).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(statuses(&a.poll(&mut world)), all);
    assert_eq!(look(&mut world, &b, &to), [0x42; 9000]);
    assert_eq!(look(&mut world, &a, &back), [0x42; 9000]);
}

#[test]
fn a_peer_that_stands_still_takes_its_messages_when_it_goes_on() {
    if PATH == Path::Wire {
        return;
    }
    let (mut world, [a, b]) = setup(&QpOptions { timeout: 9, ..QpOptions::default() });
    let from = memory(&mut world, &a, 30_000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 30_000, open());
    fill(&mut world, &a, &from, 0x42);
    b.recv(&mut world, 9, to).unwrap();
    world.stop(1, true);
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    world.run_for(Duration::from_secs(20));
    assert!(a.poll(&mut world).is_empty(), "nobody took it");
    world.stop(1, false);
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success)]);
    assert_eq!(statuses(&b.poll(&mut world)), [(9, WcStatus::Success)]);
    assert_eq!(look(&mut world, &b, &to), vec![0x42; 30_000]);
}

#[test]
fn a_region_that_is_taken_back_in_the_middle_of_a_long_copy_is_not_touched_again() {
    const LEN: u32 = 48 << 20;
    for op in 0..2 {
        let (mut world, [a, b]) = setup(&QpOptions::default());
        let from = memory(&mut world, &a, LEN, Access::LOCAL_WRITE);
        let addr = world.hosts[1].alloc(LEN as usize);
        let region = world.hosts[1].hca.reg_mr(b.pd, addr, LEN.into(), addr, open()).unwrap();
        let to = RemoteTarget { addr, rkey: region.rkey };
        let op = [SendOp::Write(to), SendOp::Read(to)][op];
        a.send(&mut world, 1, op, from).unwrap();
        world.step();
        assert!(a.poll(&mut world).is_empty(), "it was not long enough");
        world.hosts[1].hca.dereg_mr(region.id).unwrap();
        // The program unmaps the memory: an access would panic.
        world.hosts[1].hca.memory().unmap(addr);
        world.run(20_000_000);
        assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RemAccessErr)], "{op:?}");
        assert_eq!(b.state(&world), QpState::Err);
    }
}

#[test]
fn reads_that_are_asked_again_may_be_answered_meanwhile() {
    // The rings are so narrow that responses arrive while later requests find no receive and must be retried.
    for frames in 1..=4 {
        for reads in 1..=6 {
            let Some(mut world) = with(|ways| (ways.ring_frames, ways.reach) = (frames, Ways::RINGS.reach)) else {
                return;
            };
            let options = QpOptions { min_rnr_timer: 1, rd_atomic: 8, ..QpOptions::default() };
            let [a, b] = pair(&mut world, &options);
            let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
            let back = memory(&mut world, &a, 40_000, Access::LOCAL_WRITE);
            let to = memory(&mut world, &b, 40_000, open());
            fill(&mut world, &b, &to, 0x24);
            let mut want = Vec::new();
            for wr_id in 0..20 {
                let read = wr_id % 7 < reads;
                let op = if read { SendOp::Read(target(&to)) } else { SendOp::Send };
                a.send(&mut world, wr_id, op, if read { back } else { from }).unwrap();
                want.push((wr_id, WcStatus::Success));
            }
            for wr_id in 0..20 {
                let room = memory(&mut world, &b, 64, Access::LOCAL_WRITE);
                for _ in 0..wr_id % 5 * 3 {
                    world.step();
                }
                b.recv(&mut world, wr_id, room).unwrap();
            }
            world.settle();
            assert_eq!(statuses(&a.poll(&mut world)), want, "{reads} reads, rings of {frames} frames");
            assert_eq!(look(&mut world, &a, &back), vec![0x24; 40_000]);
        }
    }
}

#[test]
fn what_cannot_be_fetched_is_sent() {
    if PATH == Path::Wire {
        return;
    }
    for fails in [0, 10_000] {
        let Some(mut world) = with(|ways| ways.fetch_fails = fails) else { return };
        let [a, b] = pair(&mut world, &QpOptions::default());
        let from = memory(&mut world, &a, 100_000, Access::LOCAL_WRITE);
        let to = memory(&mut world, &b, 100_000, Access::LOCAL_WRITE);
        fill(&mut world, &a, &from, 0x18);
        for wr_id in 0..4 {
            b.recv(&mut world, wr_id, to).unwrap();
            a.send(&mut world, wr_id, SendOp::Send, from).unwrap();
        }
        world.settle();
        let all: Vec<_> = (0..4).map(|wr_id| (wr_id, WcStatus::Success)).collect();
        assert_eq!((statuses(&a.poll(&mut world)), statuses(&b.poll(&mut world))), (all.clone(), all));
        assert_eq!(look(&mut world, &b, &to), vec![0x18; 100_000]);
        let machine = world.machine.clone().unwrap();
        let fetched = machine.borrow().stats.fetched;
        assert_eq!(fetched > 0, fails == 0 && PATH == Path::Direct, "{fetched} fetches");
    }
}

#[test]
fn atomics_of_several_processes_add_up() {
    // Two processes use direct access or rings; the third owns the word, and adds too.
    let mut world = World::with(7, 3, false, weft_sim::Faults::NONE, PATH.ways());
    let options = QpOptions::default();
    let parts: Vec<_> = (0..3).map(|host| end::parts(&mut world, host)).collect();
    let word = {
        let (addr, lkey) = world.hosts[2].region(parts[2].pd, 8, open());
        Sge { addr, length: 8, lkey }
    };
    let mut ends = Vec::new();
    for host in 0..3 {
        let a = end::create(&mut world, host, &parts[host], QpType::Rc, &options);
        let b = end::create(&mut world, 2, &parts[2], QpType::Rc, &options);
        end::connect(&mut world, [&a, &b], [QpType::Rc; 2], &options);
        let sge = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
        ends.push((a, sge));
    }
    for round in 0..60 {
        for (end, sge) in &ends {
            let add = SendOp::FetchAdd { target: target(&word), add: 1 << (8 * end.host) };
            end.send(&mut world, round, add, *sge).unwrap();
        }
        if round % 3 == 0 {
            world.step();
        }
    }
    world.settle();
    let total = u64::from_ne_bytes(world.hosts[2].look(word.addr, 8).try_into().unwrap());
    assert_eq!(total, 60 + (60 << 8) + (60 << 16));
}

#[test]
fn a_queue_pair_that_turns_to_another_process_leaves_the_first_behind() {
    let mut world = World::with(7, 3, false, weft_sim::Faults::NONE, PATH.ways());
    let options = QpOptions::default();
    let parts: Vec<_> = (0..3).map(|host| end::parts(&mut world, host)).collect();
    let [a, b, c] = [0, 1, 2].map(|host| end::create(&mut world, host, &parts[host], QpType::Rc, &options));
    end::connect(&mut world, [&a, &b], [QpType::Rc; 2], &options);
    let to = memory(&mut world, &b, 64, open());
    let [from_a, from_c] = [a, c].map(|end| memory(&mut world, &end, 64, Access::LOCAL_WRITE));
    fill(&mut world, &a, &from_a, 1);
    fill(&mut world, &c, &from_c, 2);
    b.recv(&mut world, 1, to).unwrap();
    a.send(&mut world, 1, SendOp::Send, from_a).unwrap();
    end::go(&mut world, &b, QpType::Rc, QpState::Reset, &QpAttr::default()).unwrap();
    end::connect(&mut world, [&b, &c], [QpType::Rc; 2], &options);
    b.recv(&mut world, 2, to).unwrap();
    // The queue pair accepts nothing more from the old peer, neither messages under way nor new ones.
    a.send(&mut world, 2, SendOp::Write(target(&to)), from_a).unwrap();
    c.send(&mut world, 3, SendOp::Send, from_c).unwrap();
    world.settle();
    assert_eq!(statuses(&b.poll(&mut world)), [(2, WcStatus::Success)]);
    assert_eq!(statuses(&c.poll(&mut world)), [(3, WcStatus::Success)]);
    assert_eq!(look(&mut world, &b, &to), [2; 64]);
    let told = statuses(&a.poll(&mut world));
    assert_eq!(told, [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]);
}
