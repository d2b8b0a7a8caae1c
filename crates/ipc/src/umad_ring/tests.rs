use super::*;
use crate::umad::{UMAD_HEAD_BYTES, UmadHead};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use weft_sys::shared::Shared;
use weft_sys::sync::Ordering;

fn mad(n: u64) -> [u8; UMAD_RING_MAD_BYTES] {
    std::array::from_fn(|at| (n as usize + at) as u8)
}

fn ends() -> (DaemonRing, RequestWriter, AnswerReader) {
    let (daemon, file) = DaemonRing::create().unwrap();
    let (writer, reader) = program_ends(&file).unwrap();
    (daemon, writer, reader)
}

#[test]
fn datagrams_pass_in_order_lap_after_lap_and_a_full_ring_refuses() {
    let (mut daemon, mut writer, mut reader) = ends();
    daemon.attend();
    let mut slot = [0; UMAD_SLOT_BYTES];
    for lap in 0..5 {
        for n in 0..UMAD_RING_SLOTS {
            let head = UmadHead { agent: (lap * 1000 + n) as u32, ..UmadHead::default() };
            assert_eq!(writer.push(&head, &mad(n)), Pushed::Seen);
        }
        assert_eq!(writer.push(&UmadHead::default(), &mad(0)), Pushed::NoRoom);
        for n in 0..UMAD_RING_SLOTS {
            assert!(daemon.pop(&mut slot));
            assert_eq!(slot[..4], ((lap * 1000 + n) as u32).to_ne_bytes());
            assert_eq!(slot[UMAD_HEAD_BYTES..], mad(n));
            assert!(daemon.push(&UmadHead::default(), &mad(n)));
        }
        assert!(!daemon.pop(&mut slot) && !daemon.push(&UmadHead::default(), &mad(0)));
        for n in 0..UMAD_RING_SLOTS {
            assert!(reader.peek(&mut slot) && slot[UMAD_HEAD_BYTES..] == mad(n));
            assert!(reader.pop(&mut slot) && slot[UMAD_HEAD_BYTES..] == mad(n));
        }
        assert!(!daemon.has_answers() && !reader.peek(&mut slot) && !reader.pop(&mut slot));
    }
}

#[test]
fn a_daemon_that_sleeps_is_called_once() {
    let (mut daemon, mut writer, _) = ends();
    let head = UmadHead::default();
    assert_eq!(writer.push(&head, &mad(0)), Pushed::Call);
    assert_eq!(writer.push(&head, &mad(1)), Pushed::Seen);
    assert!(!daemon.sleep(), "there are requests");
    daemon.attend();
    let mut slot = [0; UMAD_SLOT_BYTES];
    while daemon.pop(&mut slot) {}
    assert!(daemon.sleep());
    assert_eq!(writer.push(&head, &mad(2)), Pushed::Call);
    assert!(daemon.processor().is_some(), "where the program runs");
    drop(daemon);
    assert_eq!(writer.push(&head, &mad(3)), Pushed::Call, "and finds the socket closed");
}

#[test]
fn an_answer_is_the_programs_or_the_daemons_and_never_lost_in_the_ring() {
    let (mut daemon, _writer, mut reader) = ends();
    let (head, mut slot) = (UmadHead::default(), [0; UMAD_SLOT_BYTES]);
    daemon.attend();
    let mut back = Vec::new();
    // A busy program loses its answers to the socket, a polling one keeps them, a sleeping one gets them sent.
    assert!(daemon.push(&head, &mad(0)) && daemon.push(&head, &mad(1)));
    assert!(!daemon.take_back_from_sleeper(&mut |slot| back.push(slot)) && reader.pop(&mut slot));
    assert!(daemon.take_back_unless_looked_at(&mut |slot| back.push(slot)));
    assert!(back.len() == 1 && back[0][UMAD_HEAD_BYTES..] == mad(1) && !reader.pop(&mut slot));
    assert!(reader.moves() == (true, 0), "it is on its way");
    daemon.on_sent(1);
    daemon.end_move();
    assert!(reader.moves() == (false, 1));
    reader.on_socket(true);
    reader.begin_look();
    assert!(daemon.push(&head, &mad(2)) && !daemon.take_back_unless_looked_at(&mut |slot| back.push(slot)));
    // The daemon falls asleep while the program polls; a program that then stops polling has to call.
    assert!(daemon.sleep() && !daemon.take_back_unless_looked_at(&mut |slot| back.push(slot)));
    assert!(!reader.begin_sleep(), "something is there");
    reader.end_wait();
    assert!(reader.must_call() && !reader.must_call());
    assert!(reader.pop(&mut slot) && slot[UMAD_HEAD_BYTES..] == mad(2) && !reader.must_call());
    assert!(reader.begin_sleep());
    assert!(daemon.push(&head, &mad(3)) && daemon.take_back_from_sleeper(&mut |slot| back.push(slot)));
    daemon.on_sent(1);
    assert!(reader.is_socket_due() && !reader.has_some());
    reader.on_socket(true);
    assert!(!reader.is_socket_due() && !daemon.has_answers() && back.len() == 2);
}

#[test]
fn both_ends_reach_for_the_same_answers_and_each_goes_once() {
    const COUNT: u32 = 20_000;
    let (mut daemon, _writer, mut reader) = ends();
    let back = Arc::new(Mutex::new(Vec::new()));
    let kept = back.clone();
    let filler = std::thread::spawn(move || {
        let number = |slot: &Slot| u32::from_ne_bytes(*slot.first_chunk().unwrap());
        let mut back = Vec::new();
        for agent in 0..COUNT {
            while !daemon.push(&UmadHead { agent, ..UmadHead::default() }, &mad(agent.into())) {
                std::thread::yield_now();
            }
            if agent % 7 == 0 {
                daemon.take_back_all(&mut |slot| back.push((number(&slot), slot)));
            }
        }
        while daemon.has_answers() {
            daemon.take_back_all(&mut |slot| back.push((number(&slot), slot)));
        }
        kept.lock().unwrap().extend(back);
    });
    let (mut seen, mut slot) = (Vec::new(), [0; UMAD_SLOT_BYTES]);
    while !filler.is_finished() {
        while reader.pop(&mut slot) {
            seen.push((u32::from_ne_bytes(*slot.first_chunk().unwrap()), slot));
        }
    }
    filler.join().unwrap();
    while reader.pop(&mut slot) {
        seen.push((u32::from_ne_bytes(*slot.first_chunk().unwrap()), slot));
    }
    seen.extend(back.lock().unwrap().drain(..));
    seen.sort_unstable_by_key(|(number, _)| *number);
    assert!(seen.iter().map(|(number, _)| *number).eq(0..COUNT));
    assert!(seen.iter().all(|(number, slot)| slot[UMAD_HEAD_BYTES..] == mad((*number).into())), "none is torn");
}

proptest! {
    /// No words of the other end make an end panic or read more than the ring holds.
    #[test]
    fn any_words_are_survived(words: Vec<(u8, u64)>) {
        let (mut daemon, file) = DaemonRing::create().unwrap();
        let (mut writer, mut reader) = program_ends(&file).unwrap();
        let hostile = Shared::map(&file, UMAD_RING_BYTES).unwrap();
        let mut slot = [0; UMAD_SLOT_BYTES];
        for (place, value) in words {
            hostile.word(usize::from(place % 14) * LINE / 2).store(value, Ordering::SeqCst);
            hostile.word(PROGRAMS_PROCESSOR_AT).store(value, Ordering::SeqCst);
            writer.push(&UmadHead::default(), &mad(value));
            daemon.push(&UmadHead::default(), &mad(value));
            for _ in 0..3 {
                daemon.pop(&mut slot);
                reader.pop(&mut slot);
                reader.peek(&mut slot);
            }
            let mut count = 0;
            let _ = (daemon.sleep(), daemon.note_processor(), daemon.processor(), daemon.has_answers(), daemon.activity());
            daemon.take_back_from_sleeper(&mut |_| count += 1);
            daemon.take_back_unless_looked_at(&mut |_| count += 1);
            daemon.take_back_all(&mut |_| count += 1);
            prop_assert!(count <= 3 * UMAD_RING_SLOTS);
            reader.on_socket(value % 2 == 0);
            reader.begin_look();
            let _ = (reader.begin_sleep(), reader.moves(), reader.is_socket_due(), reader.must_call(), reader.is_worth_looking());
            reader.end_wait();
            daemon.end_move();
            daemon.attend();
        }
    }
}

/// A program that moves back before the answers taken back from it does not receive them again.
#[test]
fn what_was_taken_back_is_not_taken_again() {
    let (mut daemon, file) = DaemonRing::create().unwrap();
    let program = Shared::map(&file, UMAD_RING_BYTES).unwrap();
    for n in 0..10 {
        assert!(daemon.push(&UmadHead::default(), &mad(n)));
    }
    let mut back = 0;
    for taken in [4, 0, 4, 9] {
        program.word(ANSWERS.taken_at).store(taken << program_state::BITS | program_state::ASLEEP, Ordering::SeqCst);
        daemon.take_back_from_sleeper(&mut |_| back += 1);
        daemon.end_move();
        assert!(!daemon.has_answers());
    }
    assert_eq!(back, 6);
}
