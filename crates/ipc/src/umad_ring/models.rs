//! The rings of a port under loom: program and daemon in two threads, in every order that the memory model permits. A
//! wait without an end is a lost wake-up: loom reports it as too many branches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;

use super::*;
use crate::umad::{UMAD_HEAD_BYTES, UmadHead};

fn ends() -> (DaemonRing, RequestWriter, AnswerReader) {
    let (daemon, file) = DaemonRing::create().unwrap();
    let (writer, reader) = program_ends(&file).unwrap();
    (daemon, writer, reader)
}

/// The socket between the two, as far as the models need it: packets that wait.
#[derive(Clone, Default)]
struct Socket(Arc<AtomicU64>);

impl Socket {
    fn send(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn await_packet(&self) {
        while self.0.swap(0, Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}

fn mad(n: u8) -> [u8; UMAD_RING_MAD_BYTES] {
    [n; UMAD_RING_MAD_BYTES]
}

#[track_caller]
fn assert_is(slot: &Slot, n: u8) {
    assert_eq!(slot[UMAD_HEAD_BYTES..], mad(n));
}

#[test]
fn loom_a_sleeping_daemon_is_called_for_every_request() {
    loom::model(|| {
        let (mut daemon, mut writer, _reader) = ends();
        let socket = Socket::default();
        let calls = socket.clone();
        let program = thread::spawn(move || {
            for n in 1..=2 {
                match writer.push(&UmadHead::default(), &mad(n)) {
                    Pushed::Call => calls.send(),
                    pushed => assert_eq!(pushed, Pushed::Seen),
                }
            }
            writer
        });
        let (mut came, mut slot) = (0, [0; UMAD_SLOT_BYTES]);
        while came < 2 {
            if daemon.pop(&mut slot) {
                came += 1;
                assert_is(&slot, came);
            } else if daemon.sleep() {
                socket.await_packet();
                daemon.attend();
            } else {
                daemon.attend();
            }
        }
        program.join().unwrap();
    });
}

#[test]
fn loom_requests_are_whole_in_reused_slots() {
    loom::model(|| {
        let (mut daemon, mut writer, _reader) = ends();
        daemon.attend();
        let program = thread::spawn(move || {
            for n in 1..=3 {
                while writer.push(&UmadHead::default(), &mad(n)) == Pushed::NoRoom {
                    thread::yield_now();
                }
            }
            writer
        });
        let (mut came, mut slot) = (0, [0; UMAD_SLOT_BYTES]);
        while came < 3 {
            if daemon.pop(&mut slot) {
                came += 1;
                assert_is(&slot, came);
            } else {
                thread::yield_now();
            }
        }
        program.join().unwrap();
    });
}

/// Both ends reach for the same answers: each goes to one of them, whole.
#[test]
fn loom_an_answer_is_the_programs_or_the_daemons() {
    loom::model(|| {
        let (mut daemon, _writer, mut reader) = ends();
        let program = thread::spawn(move || {
            let (mut seen, mut slot) = (0, [0; UMAD_SLOT_BYTES]);
            for _ in 0..2 {
                if reader.pop(&mut slot) {
                    let n = slot[UMAD_HEAD_BYTES];
                    assert_is(&slot, n);
                    seen += 1 << (8 * n);
                }
            }
            seen
        });
        let mut back = 0u64;
        for n in 1..=2 {
            assert!(daemon.push(&UmadHead::default(), &mad(n)));
            daemon.take_back_all(&mut |slot| back += 1 << (8 * u32::from(slot[UMAD_HEAD_BYTES])));
            daemon.end_move();
        }
        let seen = program.join().unwrap();
        daemon.take_back_all(&mut |slot| back += 1 << (8 * u32::from(slot[UMAD_HEAD_BYTES])));
        assert_eq!(seen + back, 0x01_0100, "each once");
    });
}

/// A program that goes to sleep on the socket finds an answer in the ring first, or the daemon sends it.
#[test]
fn loom_no_answer_stays_in_the_ring_of_a_sleeper() {
    loom::model(|| {
        let (mut daemon, _writer, mut reader) = ends();
        daemon.attend();
        let socket = Socket::default();
        let answers = socket.clone();
        let daemon = thread::spawn(move || {
            assert!(daemon.push(&UmadHead::default(), &mad(1)));
            daemon.take_back_from_sleeper(&mut |_| answers.send());
            daemon.end_move();
            daemon
        });
        let mut slot = [0; UMAD_SLOT_BYTES];
        if reader.begin_sleep() {
            socket.await_packet();
            reader.end_wait();
        } else {
            reader.end_wait();
            while !reader.pop(&mut slot) {
                // The daemon took it back meanwhile.
                if socket.0.load(Ordering::SeqCst) > 0 {
                    break;
                }
                thread::yield_now();
            }
        }
        daemon.join().unwrap();
    });
}

/// The daemon falls asleep while the program polls: a program that stops polling and finds answers calls it.
#[test]
fn loom_a_daemon_that_fell_asleep_is_called_for_answers_left_in_the_ring() {
    loom::model(|| {
        let (mut daemon, _writer, mut reader) = ends();
        daemon.attend();
        reader.begin_look();
        let socket = Socket::default();
        let calls = socket.clone();
        let program = thread::spawn(move || {
            // Stops polling without a last look, as a program that has other work does.
            reader.end_wait();
            if reader.must_call() {
                calls.send();
            }
            reader
        });
        assert!(daemon.push(&UmadHead::default(), &mad(1)));
        assert!(daemon.sleep());
        let mut back = 0;
        if !daemon.take_back_unless_looked_at(&mut |_| back += 1) {
            // The program polls, and will call.
            socket.await_packet();
            daemon.attend();
            daemon.take_back_all(&mut |_| back += 1);
        }
        daemon.end_move();
        assert_eq!(back, 1);
        program.join().unwrap();
    });
}
