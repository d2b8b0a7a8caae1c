//! An initiator with this crate's target, with losses of the connection and targets that do not answer; and a target that
//! breaks the protocol.

mod world;

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::scsi::Sense;
use crate::wire::{CreditRequest, LogoutReason, PortId, Residual, ResponseIu, TargetLogout};
use crate::{
    Breach, CommandFailure, DiskOperation, InitiatorConfig, InitiatorEvent, LossTimes, LostReason, RequestFailure,
};
use world::{DISK_BYTES, World, config};

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..length).map(|_| random.next_u32() as u8).collect()
}

fn write(offset: u64, length: u32) -> DiskOperation {
    DiskOperation::Write { offset, length, durable: false }
}

#[test]
fn an_initiator_finds_disks_and_moves_data_in_pieces() {
    let mut world = World::ready();
    assert_eq!(world.events, [InitiatorEvent::Ready { disks: 1, attempts: 0 }]);
    let disk = world.initiator.disks().next().expect("a disk").clone();
    assert_eq!((disk.vendor.as_str(), disk.model.as_str(), disk.bytes()), ("Weft", "Disk", DISK_BYTES as u64));
    assert!(disk.has_discard() && disk.has_write_zeroes() && !disk.read_only && !disk.designators.is_empty());
    for length in [512, 4096, DISK_BYTES] {
        let bytes = pattern(length, 1);
        assert!(world.request(write(0, length as u32), bytes.clone()).is_ok());
        assert_eq!(world.disk[..length], bytes);
        let read = DiskOperation::Read { offset: 0, length: length as u32 };
        assert_eq!(world.request(read, vec![0; length]), Ok(bytes));
    }
    assert_eq!((world.memory.len(), world.lent.len()), (0, 0));
}

#[test]
fn all_operations_reach_the_disk() {
    let mut world = World::ready();
    world.disk.fill(7);
    world.request(DiskOperation::Flush, Vec::new()).expect("flushed");
    let zeroes = DiskOperation::WriteZeroes { offset: 4096, length: 512, may_free: true };
    world.request(zeroes, Vec::new()).expect("zeroed");
    world.request(DiskOperation::Discard { offset: 8192, length: 1024 }, Vec::new()).expect("freed");
    let is_zero = |at: usize| world.disk[at..at + 512].iter().all(|byte| *byte == 0);
    assert_eq!([4096, 4608, 8192, 8704, 9216].map(is_zero), [true, false, true, true, false]);
    let beyond = DiskOperation::Read { offset: DISK_BYTES as u64, length: 512 };
    assert_eq!(world.request(beyond, vec![]), Err(RequestFailure::OutOfRange));
    let read_beyond = world.sent.len();
    assert_eq!(world.request(write(1, 512), vec![0; 512]), Err(RequestFailure::Unaligned));
    assert_eq!(world.sent.len(), read_beyond);
}

#[test]
fn requests_survive_losses_of_the_connection() {
    for seed in 0..30 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut world = World::ready();
        let mut expected = vec![0; DISK_BYTES];
        for round in 0..4_u64 {
            // Requests of one round do not overlap.
            for part in 0..8_u64 {
                let (offset, length) = (part << 19, 512 << (random.next_u32() % 11));
                let bytes = pattern(length, seed * 100 + round * 10 + part);
                expected[offset as usize..][..length].copy_from_slice(&bytes);
                world.submit(round * 8 + part, write(offset, length as u32), bytes);
            }
            for _ in 0..random.next_u32() % 40 {
                world.step();
            }
            world.cut();
            world.run();
            assert!(!world.initiator.is_ready());
            world.wait(2);
            assert!(world.initiator.is_ready());
        }
        world.run();
        assert!(world.done.len() == 32 && world.done.values().all(Result::is_ok), "seed {seed}: {:?}", world.done);
        assert!(world.disk == expected, "seed {seed}");
    }
}

#[test]
fn requests_fail_after_a_while_and_the_initiator_ends_after_a_longer_one() {
    let mut world = World::ready();
    world.is_away = true;
    world.cut();
    world.submit(1, DiskOperation::Flush, Vec::new());
    world.wait(14);
    assert!(world.done.is_empty());
    world.wait(2);
    assert_eq!(world.done[&1], Err(RequestFailure::NoConnection));
    assert_eq!(world.request(DiskOperation::Flush, Vec::new()), Err(RequestFailure::NoConnection));
    // A connection in time repairs it.
    world.is_away = false;
    world.wait(5);
    assert_eq!(world.request(DiskOperation::Flush, Vec::new()), Ok(vec![]));
    world.is_away = true;
    world.cut();
    world.wait(61);
    let reason = LostReason::DeviceLoss(Duration::from_secs(60), "unreachable".into());
    assert_eq!(world.ended, Some(reason));
    assert_eq!(world.request(DiskOperation::Flush, Vec::new()), Err(RequestFailure::Ended));
    assert_eq!(world.initiator.deadline(), None);
}

#[test]
fn without_reconnects_the_initiator_waits_for_its_end() {
    let loss = LossTimes { reconnect_delay: None, fast_io_fail: None, dev_loss: Some(Duration::from_secs(9)) };
    let mut world = World::new(InitiatorConfig { loss, ..config() });
    world.run();
    world.cut();
    world.submit(1, DiskOperation::Flush, Vec::new());
    world.wait(8);
    assert!(world.done.is_empty() && world.ended.is_none());
    world.wait(2);
    assert!(world.ended.is_some() && world.done[&1] == Err(RequestFailure::Ended));
}

#[test]
fn another_disk_takes_no_writes() {
    let mut world = World::ready();
    world.cut();
    world.target = world::target(99);
    world.submit(1, write(0, 512), vec![1; 512]);
    world.wait(2);
    assert!(world.initiator.is_ready());
    assert_eq!(world.done[&1], Err(RequestFailure::NoDisk));
    assert!(world.disk.iter().all(|byte| *byte == 0));
    assert!(world.events.iter().any(|event| matches!(event, InitiatorEvent::Changed(_))));
    // The right one takes them again.
    world.cut();
    world.target = world::target(1);
    world.wait(2);
    assert!(world.request(write(0, 512), vec![1; 512]).is_ok());
}

#[test]
fn a_late_command_is_aborted_and_sent_again() {
    let mut world = World::ready();
    world.is_stuck = true;
    world.submit(1, write(0, 512), vec![3; 512]);
    world.run();
    world.wait(29);
    assert!(!world.events.iter().any(|event| matches!(event, InitiatorEvent::Aborting { .. })));
    world.wait(2);
    let aborting = InitiatorEvent::Aborting { lun: 0, opcode: 0x2a, is_reset: false };
    assert!(world.events.contains(&aborting), "{:?}", world.events);
    assert!(world.done.is_empty() && world.lent.len() == 1);
    world.unstick();
    world.run();
    assert_eq!(world.done[&1], Ok(vec![3; 512]));
    assert!(world.disk[..512].iter().all(|byte| *byte == 3) && world.lent.is_empty());
}

#[test]
fn a_target_that_answers_nothing_is_reset_and_left() {
    let mut world = World::ready();
    world.is_deaf = true;
    world.submit(1, write(0, 512), vec![3; 512]);
    world.run();
    world.wait(37);
    let reset = InitiatorEvent::Aborting { lun: 0, opcode: 0x2a, is_reset: true };
    assert!(world.events.contains(&reset), "{:?}", world.events);
    assert!(world.initiator.is_ready());
    let lost = InitiatorEvent::Lost(LostReason::Timeout("a command", Duration::from_secs(30)));
    (0..5).for_each(|_| {
        if !world.events.contains(&lost) {
            world.wait(1);
        }
    });
    assert!(world.events.contains(&lost), "{:?}", world.events);
    world.is_deaf = false;
    world.wait(2);
    assert_eq!(world.done[&1], Ok(vec![3; 512]));
}

#[test]
fn a_setup_that_takes_too_long_ends_the_first_login() {
    let mut world = World::new(config());
    world.is_deaf = true;
    world.run();
    world.wait(31);
    assert_eq!(world.ended, Some(LostReason::Timeout("REPORT LUNS", Duration::from_secs(30))));
}

#[test]
fn refused_logins_have_a_reason() {
    let mut world = World::new(InitiatorConfig { target: PortId([8; 16]), ..config() });
    world.run();
    let reason = world.ended.expect("an end").to_string();
    assert!(reason.contains("it is not the target") && reason.contains("0x00010003"), "{reason}");
}

#[test]
fn credit_requests_and_logouts_are_handled() {
    let mut world = World::ready();
    world.forge(&CreditRequest { limit_delta: 1 }.to_bytes());
    assert_eq!(world.sent.last().map(|unit| unit[0]), Some(0x41));
    let mut event = CreditRequest { limit_delta: 1 }.to_bytes();
    event[0] = 0x82;
    let mut world = World::ready();
    world.submit(1, DiskOperation::Flush, Vec::new());
    world.forge(&event);
    assert!(world.sent.iter().any(|unit| unit[0] == 0x42));
    let mut world = World::ready();
    world.forge(&TargetLogout { reason: LogoutReason::MultiChannel }.to_bytes());
    assert!(world.events.contains(&InitiatorEvent::Lost(LostReason::Logout(4))));
    world.wait(2);
    assert_eq!(world.events.last(), Some(&InitiatorEvent::Ready { disks: 1, attempts: 1 }));
}

#[test]
fn breaches_end_the_initiator() {
    let ended = |unit: &[u8]| {
        let mut world = World::ready();
        world.forge(unit);
        world.ended
    };
    let good = ResponseIu::Command { ended: Ok(()), out: Residual::None, into: Residual::None };
    let unknown = good.to_bytes(77_u64.to_be_bytes(), 1);
    assert_eq!(ended(&unknown), Some(LostReason::Breach(Breach::UnknownCommand(77))));
    assert_eq!(ended(&unknown[..20]), Some(LostReason::Breach(Breach::Length)));
    assert_eq!(ended(&[0x55; 64]), Some(LostReason::Breach(Breach::Type)));
    let mut world = World::new(config());
    while world.initiator.poll().is_some() {}
    world.initiator.logged_in(world.now, &[0; 52]);
    world.run();
    assert_eq!(world.ended, Some(LostReason::Breach(Breach::Login)));
}

#[test]
fn failures_of_commands_reach_the_request() {
    let mut world = World::ready();
    world.is_stuck = true;
    world.submit(1, write(0, 512), vec![3; 512]);
    world.run();
    // The tag of the last command.
    let tag: [u8; 8] = world.sent.last().expect("a command")[8..16].try_into().expect("a tag");
    let failed = ResponseIu::Command { ended: Err(Sense::NO_SPACE), out: Residual::None, into: Residual::None };
    world.forge(&failed.to_bytes(tag, 1));
    let failure = CommandFailure::Sense(Sense::NO_SPACE);
    assert_eq!(world.done[&1], Err(failure.into()));
    assert!(world.events.contains(&InitiatorEvent::Failed { lun: 0, opcode: 0x2a, failure }));
}

#[test]
fn a_shutdown_waits_for_commands() {
    let mut world = World::ready();
    world.submit(1, write(0, 512), vec![3; 512]);
    world.initiator.shutdown(world.now);
    world.run();
    assert_eq!((world.done[&1].is_ok(), world.ended), (true, Some(LostReason::Shutdown)));
    let mut world = World::ready();
    world.is_stuck = true;
    world.submit(1, write(0, 512), vec![3; 512]);
    world.initiator.shutdown(world.now);
    world.run();
    assert!(world.ended.is_none());
    world.wait(6);
    assert_eq!((world.done[&1].clone(), world.ended), (Err(RequestFailure::Ended), Some(LostReason::Shutdown)));
}
