//! Frames through rings.

use weft_transport::Peers;
use weft_transport::frame::{FRAME_BYTES_MAX, Frame, HostRange, Outgoing};
use weft_transport::peers::PeerId;
use weft_verbs::Sge;

use super::pair::{PEER, frame, pair, range_of, receive, send};

#[test]
fn frames_arrive_in_order_with_their_payload() {
    let (mut a, mut b) = pair();
    assert!(receive(&mut b).is_none());
    for seq in 0..100_000u32 {
        let payload: Vec<u8> = (0..seq % 1000).map(|n| (n + seq) as u8).collect();
        assert!(send(&mut a, seq, &payload));
        let (peer, got, bytes) = receive(&mut b).unwrap();
        assert_eq!((peer, got, bytes), (PEER, Frame { bytes: payload.len() as u32, ..frame(seq) }, payload));
        assert!(a.is_taken(PEER, a.ring_mark(PEER)));
    }
    assert!(receive(&mut b).is_none());
}

#[test]
fn a_full_ring_takes_nothing_until_room_is_given_back() {
    let (mut a, mut b) = pair();
    let payload = vec![7; FRAME_BYTES_MAX as usize];
    let mut sent = 0;
    while send(&mut a, sent, &payload) {
        sent += 1;
    }
    assert_eq!(sent, 15);
    let mark = a.ring_mark(PEER);
    assert!(!a.is_taken(PEER, mark));
    for seq in 0..sent {
        assert_eq!(receive(&mut b).unwrap().1.seq, seq);
        assert!(send(&mut a, sent + seq, &payload));
        assert!(!send(&mut a, 0, &payload));
    }
    assert!(a.is_taken(PEER, mark));
    while receive(&mut b).is_some() {}
    for seq in 0..4096 {
        assert!(send(&mut a, seq, &[1; 8]), "{seq}");
    }
    assert!(!send(&mut a, 0, &[]));
}

#[test]
fn gather_lists_go_as_bytes_and_as_themselves() {
    let (mut a, mut b) = pair();
    let (mut first, mut second) = ([1u8; 5], [2u8; 11]);
    let ranges = [range_of(&mut first), HostRange { addr: crate::NULL_MEMORY.start, len: 3 }, range_of(&mut second)];
    assert!(a.push(PEER, &frame(1), Outgoing::Memory(&ranges)));
    let (_, _, bytes) = receive(&mut b).unwrap();
    assert_eq!(bytes, [[1; 5].as_slice(), &[0; 3], &[2; 11]].concat());
    let list = [Sge { addr: 1, length: 2, lkey: 3 }, Sge { addr: u64::MAX, length: 5, lkey: 6 }];
    assert!(a.push(PEER, &frame(2), Outgoing::List(&list)));
    let (_, got, bytes) = receive(&mut b).unwrap();
    assert_eq!((got.bytes, &bytes[..16]), (32, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0].as_slice()));
}

#[test]
fn payload_is_placed_where_it_is_wanted_and_no_further() {
    let (mut a, mut b) = pair();
    assert!(send(&mut a, 1, b"0123456789"));
    let peer = b.arrival().unwrap();
    b.next_frame(peer).unwrap();
    let mut room = [b'.'; 16];
    let whole = range_of(&mut room);
    b.place(4, HostRange { len: 4, ..whole });
    b.place(8, HostRange { addr: whole.addr + 8, len: 8 });
    b.place(10, whole);
    b.place(u32::MAX, whole);
    b.place(0, HostRange { addr: crate::NULL_MEMORY.start, len: 10 });
    assert_eq!(&room, b"4567....89......");
    b.end_frame();
    assert!(b.arrival().is_none());
}

#[test]
fn we_are_our_own_peer() {
    let (mut a, _b) = pair();
    let own = PeerId(0);
    for seq in 0..10_000 {
        assert!(a.push(own, &frame(seq), Outgoing::Bytes(&[seq as u8; 100])));
        assert!(a.has_own_frame());
        assert_eq!(receive(&mut a).unwrap().1.seq, seq);
    }
    assert!(!a.has_own_frame() && a.is_alive(own));
}

#[test]
fn the_sleeper_is_woken_once_for_each_sleep() {
    let (mut a, mut b) = pair();
    assert!(send(&mut a, 1, &[]));
    a.ring_doorbells();
    assert_eq!(b.doorbell().take(), 0, "awake");
    assert!(!b.fall_asleep(), "a frame waits");
    receive(&mut b).unwrap();
    for _ in 0..3 {
        assert!(b.fall_asleep());
        for seq in 0..5 {
            assert!(send(&mut a, seq, &[]));
            a.ring_doorbells();
        }
        assert_eq!(b.doorbell().take(), 1);
        b.wake_up();
        while receive(&mut b).is_some() {}
    }
    assert!(send(&mut a, 1, &[]));
    a.ring_doorbells();
    assert_eq!(b.doorbell().take(), 0);
}

#[test]
fn peers_take_turns() {
    let (mut a, mut b) = pair();
    for seq in 0..10 {
        assert!(send(&mut a, seq, &[]));
        assert!(b.push(PeerId(0), &frame(seq), Outgoing::NONE));
    }
    let order: Vec<u32> = std::iter::from_fn(|| receive(&mut b)).map(|(peer, ..)| peer.0).collect();
    assert_eq!(order.len(), 20);
    assert!(order.windows(2).all(|two| two[0] != two[1]), "{order:?}");
}

#[test]
fn what_the_dead_left_is_read_and_then_they_are_gone() {
    let (mut a, mut b) = pair();
    assert!(send(&mut a, 1, b"last words"));
    let (slot, generation) = (a.us.slot, a.us.generation);
    b.peer(1).unwrap().process = None;
    b.on_gone(slot, generation);
    assert!(!b.is_alive(PEER));
    assert!(!b.push(PEER, &frame(0), Outgoing::NONE));
    assert_eq!(receive(&mut b).unwrap().2, b"last words");
    assert!(b.next_frame(PEER).is_none());
    assert!(b.peers[1].is_none(), "its memory is given back");
    assert!(b.number(slot, generation).is_none());
}
