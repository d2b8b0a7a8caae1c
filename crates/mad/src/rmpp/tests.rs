use super::*;
use crate::limits::RMPP_WINDOW;
use weft_wire::mad::rmpp::{RmppStatus, RmppType};

/// Offset of the data in subnet administration.
const AT: usize = 56;

fn bytes(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    bytes[24..36].fill(0);
    bytes
}

/// Carries a transfer without the datagrams that `lose` selects, counted from 0. Returns the received bytes and the
/// number of datagrams sent.
fn carry(whole: &[u8], lose: impl Fn(usize) -> bool) -> (Vec<u8>, usize) {
    let mut sender = Sender::new(whole.to_vec(), Some(AT)).expect("a transfer");
    let mut receiver = Receiver::new(AT);
    let mut got = None;
    let mut count = 0;
    for _ in 0..10_000 {
        let mut acks = Vec::new();
        while let Some(mad) = sender.next_segment() {
            count += 1;
            if lose(count) {
                continue;
            }
            match receiver.on_data(&mad) {
                Received::Quiet => {}
                Received::Ack => acks.push(receiver.ack()),
                Received::Complete => {
                    acks.push(receiver.ack());
                    got = Some(receiver.take());
                }
                Received::Abort(status) => panic!("{status}"),
            }
        }
        let mut moved = false;
        for ack in acks {
            count += 1;
            if !lose(count) {
                match sender.on_ack(ack.segment(), ack.payload_len()) {
                    AckOutcome::Abort(status) => panic!("{status}"),
                    AckOutcome::Done => return (got.expect("complete before it is acknowledged"), count),
                    outcome => moved |= outcome != AckOutcome::Old,
                }
            }
        }
        if !moved {
            sender.go_back();
        }
    }
    panic!("no end");
}

#[test]
fn every_length_arrives_as_it_was() {
    for len in [AT, AT + 1, AT + 199, AT + 200, AT + 201, AT + 400, AT + 12_345, AT + 200 * 65, AT + 200 * 200 + 7] {
        let whole = bytes(len);
        let (mut got, _) = carry(&whole, |_| false);
        // The RMPP header is the first segment's.
        got[24..36].fill(0);
        assert_eq!(got, whole, "{len} bytes");
    }
}

#[test]
fn what_is_lost_comes_again() {
    for seed in 0..40_usize {
        let whole = bytes(AT + 200 * 150 + 3);
        let percent = 5 + seed;
        let (mut got, count) = carry(&whole, |n| scatter(n + seed * 1000) % 100 < percent);
        got[24..36].fill(0);
        assert_eq!(got, whole, "{percent} of a hundred lost");
        assert!(count > 151);
    }
}

/// Pseudo-random number.
fn scatter(n: usize) -> usize {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as usize
}

#[test]
fn segments_say_how_long_they_are() {
    let mut sender = Sender::new(bytes(AT + 450), Some(AT)).expect("a transfer");
    let first = sender.next_segment().expect("the first");
    assert_eq!(sender.next_segment(), None, "the window is one until it is acknowledged");
    assert_eq!((header(&first).flags(), header(&first).payload_len()), (3, 450 + 3 * 20));
    assert_eq!(sender.on_ack(1, 65), AckOutcome::Progress);
    let second = sender.next_segment().expect("the second");
    assert_eq!((header(&second).flags(), header(&second).payload_len(), header(&second).segment()), (1, 0, 2));
    let last = sender.next_segment().expect("the third");
    assert_eq!((header(&last).flags(), header(&last).payload_len()), (5, 50 + 20));
    assert_eq!(sender.next_segment(), None);
    assert_eq!(header(&last).kind(), RmppType::DATA);
    let mut single = Sender::new(bytes(AT + 200), Some(AT)).expect("a transfer");
    let only = single.next_segment().expect("one");
    assert_eq!((header(&only).flags(), header(&only).payload_len()), (7, 220));
}

#[test]
fn acknowledgements_that_cannot_be_end_the_transfer() {
    let sender = || Sender::new(bytes(AT + 2000), Some(AT)).expect("a transfer");
    assert_eq!(sender().on_ack(5, 4), AckOutcome::Abort(RmppStatus::NEW_WINDOW_TOO_SMALL));
    assert_eq!(sender().on_ack(2, 64), AckOutcome::Abort(RmppStatus::SEGMENT_TOO_BIG));
    assert_eq!(sender().on_ack(u32::MAX, u32::MAX), AckOutcome::Abort(RmppStatus::SEGMENT_TOO_BIG));
    let mut sender = sender();
    assert_eq!(sender.on_ack(0, 1), AckOutcome::Window);
    assert_eq!(sender.on_ack(1, 10), AckOutcome::Progress);
    assert_eq!(sender.on_ack(1, 5), AckOutcome::Old, "a window does not shrink");
    assert_eq!(Sender::new(vec![0; 20], Some(AT)).err(), Some(TransferError::TooShort));
    assert_eq!(Sender::new(vec![0; 300], None).err(), Some(TransferError::Class));
}

#[test]
fn a_receiver_takes_no_more_than_its_window() {
    let mut sender = Sender::new(bytes(AT + 200 * 300), Some(AT)).expect("a transfer");
    let mut receiver = Receiver::new(AT);
    sender.on_ack(0, 300);
    let mads: Vec<_> = std::iter::from_fn(|| sender.next_segment()).collect();
    assert_eq!(receiver.on_data(&mads[1]), Received::Quiet, "nothing is open before the first");
    assert_eq!(receiver.held(), 0);
    assert_eq!(receiver.on_data(&mads[0]), Received::Ack);
    for mad in mads[2..].iter().rev() {
        assert_eq!(receiver.on_data(mad), Received::Quiet);
    }
    assert!(receiver.held() <= (RMPP_WINDOW as usize + 1) * 256);
    assert_eq!(receiver.on_data(&mads[1]), Received::Ack, "a whole window is in order");
    assert_eq!(receiver.ack().segment(), RMPP_WINDOW + 1);
    let mut wrong = mads[70];
    set_header(&mut wrong, weft_wire::mad::rmpp::RmppHeader::data(2, 71, 0));
    assert_eq!(receiver.on_data(&wrong), Received::Abort(RmppStatus::INCONSISTENT_FIRST));
}
