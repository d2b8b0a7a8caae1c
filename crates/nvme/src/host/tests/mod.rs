//! A host with this crate's target, with losses of the connection; and a target that breaks the protocol.

mod world;

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::fuzzing::configuration;
use crate::limits::COMMAND_TIMEOUT;
use crate::wire::{COMPLETION_LEN, Completion};
use crate::{
    Breach, HostAction, HostConfig, HostEvent, HostName, LostReason, Operation, RequestFailure, SlotKey, Status, Target,
};
use world::{DISK_BYTES, World, config};

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..length).map(|_| random.next_u32() as u8).collect()
}

fn write(offset: u64, length: u32) -> Operation {
    Operation::Write { offset, length, durable: false }
}

#[test]
fn a_host_connects_and_moves_data_in_pieces() {
    let mut world = World::ready(3);
    let ready = HostEvent::Ready { controller: 1, io_queues: 3, attempts: 0 };
    assert_eq!((world.events.as_slice(), world.connections.len(), world.capsule_bytes), (&[ready][..], 4, 64 + 512));
    let info = world.host.info().expect("a controller").clone();
    assert_eq!((info.model.as_str(), info.serial.as_str(), info.in_capsule_bytes), ("Weft", "1", 512));
    let namespaces: Vec<_> = world.host.namespaces().map(|found| (found.id, found.bytes(), found.ids.uuid)).collect();
    assert_eq!(namespaces, [(1, DISK_BYTES as u64, [2; 16])]);
    // In the capsule, in one piece, and all at once: the target reads the rest of the host's memory.
    for length in [512, 4096, DISK_BYTES] {
        let bytes = pattern(length, 1);
        assert!(world.request(write(0, length as u32), bytes.clone()).is_ok());
        assert_eq!(world.disk[..length], bytes);
        assert_eq!(world.request(Operation::Read { offset: 0, length: length as u32 }, vec![0; length]), Ok(bytes));
    }
    assert_eq!((world.memory.len(), world.lent.len()), (0, 0));
}

#[test]
fn all_operations_reach_the_namespace() {
    let mut world = World::ready(1);
    let bytes = pattern(8192, 2);
    world.request(write(4096, 8192), bytes.clone()).expect("written");
    let compare = Operation::Compare { offset: 4096, length: 8192 };
    assert!(world.request(compare.clone(), bytes).is_ok());
    let differs = RequestFailure::Status(Status::COMPARE_FAILURE);
    assert_eq!(world.request(compare, vec![0; 8192]), Err(differs));
    world.request(Operation::Flush, Vec::new()).expect("flushed");
    let zeroes = Operation::WriteZeroes { offset: 4096, length: 512, deallocate: false, durable: true };
    world.request(zeroes, Vec::new()).expect("zeroed");
    world.request(Operation::Deallocate(vec![(8192, 512), (9216, 512)]), Vec::new()).expect("freed");
    let is_zero = |at: usize| world.disk[at..at + 512].iter().all(|byte| *byte == 0);
    assert_eq!([4096, 4608, 8192, 8704, 9216].map(is_zero), [true, false, true, false, true]);
    let beyond = RequestFailure::Status(Status::LBA_OUT_OF_RANGE);
    assert_eq!(world.request(Operation::Read { offset: DISK_BYTES as u64, length: 512 }, vec![]), Err(beyond));
    world.host.submit(world.now, 1, 9, Operation::Flush);
    world.run();
    assert_eq!(world.done[&1], Err(RequestFailure::Status(Status::INVALID_NAMESPACE)));
}

#[test]
fn requests_survive_losses_of_the_connection() {
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut world = World::ready(2);
        let mut expected = vec![0; DISK_BYTES];
        for round in 0..4_u64 {
            // Requests of one round do not overlap.
            for part in 0..8_u64 {
                let (offset, length) = (part << 17, 512 << (random.next_u32() % 9));
                let bytes = pattern(length, seed * 100 + round * 10 + part);
                expected[offset as usize..][..length].copy_from_slice(&bytes);
                world.submit(round * 8 + part, write(offset, length as u32), bytes);
            }
            world.breaks_after = Some(random.next_u32() % 24);
            world.is_up = !random.next_u32().is_multiple_of(4);
            world.run();
            let later = world.now + Duration::from_secs(3);
            world.pass(later);
            world.is_up = true;
            world.breaks_after = None;
            world.pass(later + Duration::from_secs(2));
            assert!(world.done.len() as u64 == (round + 1) * 8, "seed {seed}: {:?}", world.done);
        }
        assert!(world.done.values().all(|done| *done == Ok(())), "seed {seed}: {:?}", world.done);
        assert!(world.disk == expected, "seed {seed}");
    }
}

#[test]
fn requests_wait_while_the_target_is_away() {
    let mut world = World::ready(1);
    world.is_up = false;
    world.host.connection_lost(world.now, "broken".into());
    world.submit(1, write(0, 512), pattern(512, 3));
    world.pass(Duration::from_secs(30));
    assert_eq!((world.done.len(), world.ended.is_none()), (0, true));
    world.is_up = true;
    world.pass(Duration::from_secs(32));
    assert_eq!(world.done[&1], Ok(()));
    assert!(matches!(world.events.last(), Some(HostEvent::Ready { attempts: 30.., .. })), "{:?}", world.events.last());
}

#[test]
fn a_target_that_stays_away_ends_the_controller() {
    let mut world = World::ready(1);
    world.is_up = false;
    world.host.connection_lost(world.now, "broken".into());
    world.submit(1, write(0, 512), pattern(512, 3));
    world.pass(Duration::from_secs(59));
    assert_eq!(world.ended, None);
    world.pass(Duration::from_secs(62));
    assert_eq!(world.ended, Some(LostReason::Connection("refused".into())));
    assert_eq!((world.done[&1], world.host.deadline()), (Err(RequestFailure::Ended), None));
    // A first attempt is not repeated.
    let mut world = World::new(config(1));
    world.is_up = false;
    world.run();
    assert_eq!(world.ended, Some(LostReason::Connection("refused".into())));
    let mut world = World::new(HostConfig { controller_loss: None, ..config(1) });
    world.run();
    world.is_up = false;
    world.host.connection_lost(world.now, "broken".into());
    world.pass(Duration::from_secs(100_000));
    assert_eq!(world.ended, None);
}

#[test]
fn a_request_is_sent_six_times_at_most() {
    let mut world = World::ready(1);
    world.submit(1, write(0, 512), pattern(512, 3));
    world.breaks_after = Some(0);
    world.run();
    for second in 1..=5 {
        assert_eq!(world.done.get(&1), None);
        // The setup's responses arrive, but not the one to the write.
        world.breaks_after = Some(10);
        world.pass(Duration::from_secs(second));
    }
    assert_eq!(world.done.get(&1), Some(&Err(RequestFailure::Lost)), "{:?}", world.events);
}

#[test]
fn wrong_names_are_refused_with_a_reason() {
    let ended = |config: HostConfig| {
        let mut world = World::new(config);
        world.run();
        world.ended.expect("ended").to_string()
    };
    let unknown = ended(HostConfig { subsystem: "nqn.2026-01.io.weft:other".into(), ..config(1) });
    assert!(unknown.contains("no such subsystem at this port"), "{unknown}");
    let discovery = ended(HostConfig { subsystem: crate::wire::DISCOVERY_NQN.into(), ..config(1) });
    assert!(discovery.contains("discovery controller"), "{discovery}");
    let host = HostName { nqn: "me".into(), id: [1; 16] };
    assert!(ended(HostConfig { host, ..config(1) }).contains("this host's name"));
}

#[test]
fn a_shutdown_waits_for_commands_and_tells_the_controller() {
    let mut world = World::ready(2);
    world.submit(1, write(0, 4096), pattern(4096, 4));
    world.host.shutdown(world.now);
    world.submit(2, write(0, 4096), pattern(4096, 5));
    world.pass(Duration::from_secs(1));
    assert_eq!((world.done[&1], world.done[&2]), (Ok(()), Err(RequestFailure::Ended)));
    assert_eq!((world.ended, world.target.controllers()), (Some(LostReason::Shutdown), 0));
    // A target that does not answer is given up.
    let mut world = World::ready(1);
    world.connections.clear();
    world.host.shutdown(world.now);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.ended, Some(LostReason::Shutdown));
}

#[test]
fn a_controller_is_kept_alive_and_a_silent_target_is_left() {
    let mut world = World::ready(1);
    // The target would end the controller after six silent seconds.
    world.pass(Duration::from_secs(60));
    assert!(world.host.is_ready() && world.events.len() == 1, "{:?}", world.events);
    world.connections.clear();
    world.pass(Duration::from_secs(72));
    let lost = HostEvent::Lost(LostReason::Timeout("Keep Alive", Duration::from_secs(5)));
    assert!(world.events.contains(&lost), "{:?}", world.events);
    assert!(world.host.is_ready(), "it connected again");
    // Without keep-alive, the timeout of commands finds out.
    let mut world = World::new(HostConfig { keep_alive: Duration::ZERO, ..config(1) });
    world.run();
    world.connections.clear();
    world.submit(1, write(0, 512), pattern(512, 6));
    world.pass(Duration::from_secs(40));
    assert_eq!(world.done.get(&1), Some(&Ok(())), "{:?}", world.events);
    assert!(world.events.contains(&HostEvent::Lost(LostReason::Timeout("a command", COMMAND_TIMEOUT))));
}

#[test]
fn forged_completions_and_invalidations_end_the_controller() {
    assert_eq!(World::ready(1).forge(1, 0x1234, None), Some(Breach::UnknownCommand(0x1234)));
    assert_eq!(World::ready(1).forge(0, 0, None), Some(Breach::UnknownCommand(0)));
    // A queue that does not exist is none of the connections.
    assert_eq!(World::ready(1).forge(7, 0, None), None);
    let mut world = World::ready(1);
    world.host.handle_capsule(world.now, 1, &[0; COMPLETION_LEN - 1], None);
    world.run();
    assert_eq!(world.ended, Some(LostReason::Breach(Breach::Short)));
    // A command in progress, whose memory is not lent yet; then with another key than its own. Connect had the first slot.
    let slot = SlotKey { queue: 1, command: 1 };
    for (is_lent, invalidated, breach) in [
        (false, None, Some(Breach::NotSent(1))),
        (true, Some(0x99), Some(Breach::WrongKey(0x99))),
        (true, Some(0x77), None),
    ] {
        let mut world = World::ready(1);
        world.submit(1, Operation::Read { offset: 0, length: 512 }, vec![0; 512]);
        let Some(HostAction::Send(outgoing)) = world.host.poll() else { panic!("no command") };
        assert_eq!(outgoing.slot, slot);
        if is_lent {
            world.host.lent(slot, 0x77);
            world.lent.insert(slot, 0x77);
            world.memory.insert(0x77, vec![5; 512]);
        }
        assert_eq!(world.forge(1, slot.command, invalidated), breach);
        let done = if breach.is_some() { Err(RequestFailure::Ended) } else { Ok(()) };
        let byte = if breach.is_some() { 0 } else { 5 };
        assert_eq!((world.done[&1], world.data[&1][0]), (done, byte));
    }
}

#[test]
fn errors_that_may_pass_are_tried_again() {
    let mut world = World::ready(1);
    let failed = |world: &mut World, status: Status| {
        while let Some(action) = world.host.poll() {
            if let HostAction::Send(outgoing) = action {
                let completion = Completion { result: 0, sq_head: 0, command_id: outgoing.slot.command, status };
                world.host.handle_capsule(world.now, outgoing.slot.queue, &completion.to_bytes(), None);
            } else {
                world.act(action);
            }
        }
    };
    world.host.submit(world.now, 1, 1, Operation::Flush);
    failed(&mut world, Status::INTERNAL);
    assert_eq!((world.done.len(), world.host.deadline()), (0, Some(crate::limits::RETRY_DELAY)));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.done[&1], Ok(()));
    world.host.submit(world.now, 2, 1, Operation::Flush);
    failed(&mut world, Status::INTERNAL.final_one());
    assert_eq!(world.done[&2], Err(RequestFailure::Status(Status::INTERNAL.final_one())));
    world.host.submit(
        world.now,
        3,
        1,
        Operation::WriteZeroes { offset: 0, length: DISK_BYTES as u64, deallocate: false, durable: false },
    );
    failed(&mut world, Status::WRITE_FAULT);
    assert_eq!(world.done[&3], Err(RequestFailure::Status(Status::WRITE_FAULT)));
}

#[test]
fn a_namespace_that_became_another_one_fails() {
    let mut world = World::ready(1);
    let mut other = configuration();
    other.subsystems[0].namespaces[0].uuid = [9; 16];
    world.host.connection_lost(world.now, "broken".into());
    world.run();
    world.target = Target::new(other);
    world.submit(1, write(0, 512), pattern(512, 7));
    world.pass(Duration::from_secs(2));
    assert!(world.events.iter().any(|event| matches!(event, HostEvent::Changed(_))), "{:?}", world.events);
    let gone = Err(RequestFailure::Status(Status::INVALID_NAMESPACE.final_one()));
    assert_eq!((world.done[&1], world.disk[0]), (gone, 0));
}
