//! Processes that connect to each other.

use weft_ipc::{PeerGrant, Publication};

use super::*;
use crate::limits::PAIRS_UNFETCHED_MAX;

impl World {
    /// Makes a process that publishes itself; returns its slot.
    fn process(&mut self, uid: u32, generation: u64) -> (ClientId, u32) {
        let client = self.session(uid);
        let slot = self.slot(client).unwrap().slot;
        self.publish(client, generation).unwrap();
        (client, slot)
    }

    fn publish(&mut self, client: ClientId, generation: u64) -> Result<Response, i32> {
        self.ask(client, Request::Publish(Publication { generation, shares: true, brings: false }))
    }

    fn meet(&mut self, client: ClientId, slot: u32) -> Result<Option<PeerGrant>, i32> {
        match self.ask(client, Request::MeetPeer { slot })? {
            Response::Peer(grant) => Ok(grant),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn both_get_the_same_pair_and_hear_of_each_other() {
    let mut world = World::new(false);
    let ((a, slot_a), (b, slot_b)) = (world.process(7, 70), world.process(7, 80));
    let (_, attach) = world.ask_with(a, Request::MeetPeer { slot: slot_b }, &[]).unwrap();
    assert_eq!(attach, Attach { meeting: Some((slot_a, slot_b)), ..Attach::default() });
    assert_eq!(world.events(b), [Event::PeerCame { slot: slot_a, generation: 70 }]);
    let grant = PeerGrant { generation: 70, has_bell: false, has_process: true, shares: true };
    assert_eq!(world.meet(b, slot_a), Ok(Some(grant)));
    assert!(world.events(a).is_empty(), "who asked first need not be told");
    // The host forgets the pair once the last answer was sent, and does not make it again.
    assert_eq!(world.host.pairs.len(), 1);
    assert_eq!(world.meet(b, 999), Ok(None));
    assert!(world.host.pairs.is_empty());
    assert_eq!(world.meet(a, slot_b), Err(refusal::EALREADY));
    world.broker.disconnect(world.now, a, &mut world.host);
    world.settle();
    assert_eq!(world.events(b), [Event::PeerGone { slot: slot_a, generation: 70 }]);
}

#[test]
fn the_next_process_of_a_slot_is_met_by_those_who_met_the_last() {
    let mut world = World::new(false);
    let ((a, slot_a), (b, slot_b)) = (world.process(7, 70), world.process(7, 80));
    assert!(world.meet(b, slot_a).unwrap().is_some());
    assert!(world.meet(a, slot_b).unwrap().is_some(), "the last to fetch");
    world.broker.disconnect(world.now, b, &mut world.host);
    world.settle();
    // Slots rest before they are used again.
    let (next, slot) = loop {
        let (client, slot) = world.process(7, 90);
        if slot == slot_b {
            break (client, slot);
        }
        world.now += std::time::Duration::from_secs(10);
        world.broker.disconnect(world.now, client, &mut world.host);
        world.settle();
    };
    assert!(world.meet(next, slot_a).unwrap().is_some());
    assert!(world.meet(a, slot).is_ok_and(|grant| grant.is_some()), "the new pair is still there");
}

#[test]
fn strangers_get_rings_and_nothing_else() {
    let mut world = World::new(false);
    let ((a, _), (_, other)) = (world.process(7, 1), world.process(8, 2));
    let grant = PeerGrant { generation: 2, has_bell: true, has_process: true, shares: false };
    assert_eq!(world.meet(a, other), Ok(Some(grant)));
    let (_, nobody) = world.process(65534, 3);
    let (b, _) = world.process(65534, 4);
    assert!(world.meet(b, nobody).unwrap().is_some_and(|grant| !grant.shares), "that number is everybody's");
}

#[test]
fn only_who_can_be_met_meets() {
    let mut world = World::new(false);
    let mute = world.session(7);
    assert_eq!(world.publish(mute, 1), Err(refusal::EINVAL), "without a slot");
    let silent = world.slot(mute).unwrap().slot;
    let (a, own) = world.process(7, 1);
    assert_eq!(world.publish(a, 2), Err(refusal::EALREADY));
    assert_eq!(world.meet(mute, own), Err(refusal::EINVAL), "it published nothing");
    assert_eq!(world.meet(a, silent), Ok(None));
    assert_eq!(world.meet(a, own), Err(refusal::EINVAL));
    assert_eq!(world.meet(a, 0), Ok(None));
    assert_eq!(world.meet(a, u32::MAX), Ok(None));
    assert!(world.host.pairs.is_empty());
}

#[test]
fn pairs_that_nobody_comes_for_are_bounded() {
    let mut world = World::new(false);
    let (a, _) = world.process(0, 1);
    let others: Vec<u32> = (0..=PAIRS_UNFETCHED_MAX as u64).map(|n| world.process(0, 2 + n).1).collect();
    for (n, &slot) in others.iter().enumerate() {
        let met = world.meet(a, slot);
        match n < PAIRS_UNFETCHED_MAX {
            true => assert!(met.unwrap().is_some()),
            false => assert_eq!(met, Err(refusal::EAGAIN)),
        }
    }
    world.broker.disconnect(world.now, a, &mut world.host);
    assert!(world.host.pairs.is_empty());
}

#[test]
fn survivors_are_waited_for_before_it_is_said_that_they_cannot_be_met() {
    let mut world = World::new(true);
    predecessor(&mut world);
    let (own, user) = (world.session(OWN), world.session(7));
    let back = |slot| Request::Reattach { slot, groups: Vec::new() };
    world.ask_with(own, back(3), &[some_fd(), some_fd()]).unwrap();
    let again = |shares| Request::Publish(Publication { generation: 5, shares, brings: true });
    world.ask_with(own, again(false), &[some_fd()]).unwrap();
    let meet = encode(&ClientFrame { id: 5, request: Request::MeetPeer { slot: 1 } }).unwrap();
    assert_eq!(world.say(own, &meet, &[]), Handled::Deferred, "it has not come back");
    world.ask_with(user, back(1), &[some_fd()]).unwrap();
    assert_eq!(world.say(own, &meet, &[]), Handled::Deferred, "it has not published itself");
    assert_eq!(world.ask_with(user, again(true), &[some_fd()]).unwrap_err().errno, refusal::EINVAL, "not all of it");
    world.ask_with(user, again(true), &[some_fd(), some_fd(), some_fd()]).unwrap();
    assert_eq!(world.say(own, &meet, &[some_fd()]), Handled::Done);
    assert_eq!(world.events(user), [Event::PeerCame { slot: 3, generation: 5 }]);
    // Slot 2's process does not come back at all.
    let meet = encode(&ClientFrame { id: 5, request: Request::MeetPeer { slot: 2 } }).unwrap();
    assert_eq!(world.say(own, &meet, &[]), Handled::Deferred);
    world.pass(limits::RECOVERY_GRACE);
    assert_eq!(world.say(own, &meet, &[]), Handled::Done);
}
