//! The protocols of pairs and key directories under loom: two hosts in two threads, in every order that the memory
//! model permits. A wait without an end is a lost wake-up: loom reports it as too many branches.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use weft_sys::shared;
use weft_transport::Peers;
use weft_transport::frame::FrameKind;
use weft_transport::peers::KeyView;
use weft_verbs::Access;

use super::pair::{KEY, PD, PEER, config_of, host, pair, receive, send};
use crate::shm::{Host, PAIR_BYTES};

/// Sends a frame as soon as the ring has room.
fn send_soon(host: &mut Host, seq: u32, payload: &[u8]) {
    while !send(host, seq, payload) {
        thread::yield_now();
    }
}

/// Lengths of payload: frames of one and two slots, so that a ring of four slots is full, wraps, and has a pad.
fn model_frames(lengths: &'static [usize]) {
    loom::model(move || {
        let (mut a, mut b) = pair();
        let payload = |seq: u32, len: usize| vec![seq as u8 + 1; len];
        let sender = thread::spawn(move || {
            for (seq, &len) in (0..).zip(lengths) {
                send_soon(&mut a, seq, &payload(seq, len));
            }
        });
        for (seq, &len) in (0..).zip(lengths) {
            let (_, got, bytes) = loop {
                match receive(&mut b) {
                    Some(came) => break came,
                    None => thread::yield_now(),
                }
            };
            assert_eq!((got.kind, got.seq, bytes), (FrameKind::Send, seq, payload(seq, len)));
        }
        sender.join().unwrap();
        assert!(receive(&mut b).is_none());
    });
}

#[test]
fn loom_frames_of_one_slot_arrive_whole_and_in_order() {
    model_frames(&[8, 0, 8, 8, 8, 8]);
}

#[test]
fn loom_frames_arrive_whole_behind_a_pad_and_in_reused_slots() {
    model_frames(&[8, 72, 72, 8]);
}

/// How two processes see each other's sleep.
#[derive(Clone, Copy)]
enum Sleep {
    /// In their key directories.
    KeyDirectory,
    /// In the pair: they do not trust each other with key directories.
    Pair,
}

fn meet(sleep: Sleep) -> (Host, Host) {
    let (mut a, mut b) = (host(1), host(2));
    let file = shared::create_file("pair", PAIR_BYTES).unwrap();
    let configs = [config_of(&b, &file), config_of(&a, &file)];
    for (host, mut config) in [&mut a, &mut b].into_iter().zip(configs) {
        if matches!(sleep, Sleep::Pair) {
            config.directory = None;
        }
        host.attach(config).unwrap();
    }
    (a, b)
}

/// Sleeps until a frame comes; returns its number.
fn await_frame(host: &mut Host, announces: bool) -> u32 {
    loop {
        if let Some((_, got, _)) = receive(host) {
            return got.seq;
        }
        if host.fall_asleep() {
            while host.doorbell().take() == 0 {
                thread::yield_now();
            }
            if announces {
                host.wake_up();
            }
        }
    }
}

/// The receiver sleeps whenever it finds nothing. `announces`: it says that it is awake, as the background thread does;
/// a waiting thread beside that goes back to sleep without.
fn model_sleep(sleep: Sleep, announces: bool, frames: u32) {
    loom::model(move || {
        let (mut a, mut b) = meet(sleep);
        let sender = thread::spawn(move || {
            for seq in 0..frames {
                assert!(send(&mut a, seq, &[]));
                a.ring_doorbells();
            }
        });
        for seq in 0..frames {
            assert_eq!(await_frame(&mut b, announces), seq);
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_is_woken_for_every_frame() {
    model_sleep(Sleep::KeyDirectory, true, 2);
}

#[test]
fn loom_a_waiting_thread_is_woken_for_every_frame() {
    model_sleep(Sleep::KeyDirectory, false, 2);
}

#[test]
fn loom_a_sleeper_without_a_key_directory_is_woken_for_every_frame() {
    model_sleep(Sleep::Pair, true, 2);
}

/// Both ends send and both sleep: each frame answers the other's last.
#[test]
fn loom_two_sleepers_wake_each_other() {
    const TURNS: u32 = 2;
    fn say(host: &mut Host, seq: u32) {
        assert!(send(host, seq, &[]));
        host.ring_doorbells();
    }
    loom::model(|| {
        let (mut a, mut b) = pair();
        let other = thread::spawn(move || {
            for seq in 0..TURNS {
                say(&mut a, seq);
                assert_eq!(await_frame(&mut a, true), seq);
            }
            a
        });
        for seq in 0..TURNS {
            assert_eq!(await_frame(&mut b, true), seq);
            say(&mut b, seq);
        }
        other.join().unwrap();
    });
}

fn key(base: u64, len: u64) -> KeyView {
    KeyView { key: KEY, pd: PD, qpn: None, base, len, host: base * 2, access: Access::REMOTE_WRITE }
}

/// After a revocation no peer touches the memory.
#[test]
fn loom_a_revoked_key_is_not_copied_from() {
    loom::model(|| {
        let (mut a, mut b) = pair();
        b.publish_key(&key(4096, 64));
        let memory = Arc::new(UnsafeCell::new(0u64));
        let theirs = memory.clone();
        let copier = thread::spawn(move || {
            for _ in 0..2 {
                a.announced(PEER.0, |peer, _| {
                    peer.view.as_ref()?.find_key(KEY)?;
                    theirs.with(|_| ());
                    Some(())
                });
            }
        });
        b.revoke_key(KEY);
        memory.with_mut(|_| ());
        copier.join().unwrap();
    });
}

/// A peer finds an entry as it was at one moment, and none that goes by the number of another.
#[test]
fn loom_an_entry_is_read_whole_or_not_at_all() {
    loom::model(|| {
        let (mut a, mut b) = pair();
        b.directory.put_key(&key(1, 10), None);
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                let found = a.peer(PEER.0).unwrap().view.as_ref().unwrap().find_key(KEY);
                if let Some(entry) = found {
                    assert!([(1, 10, 2), (3, 30, 6)].contains(&(entry.base, entry.len, entry.host)), "{entry:?}");
                }
            }
        });
        b.directory.put_key(&key(3, 30), None);
        b.directory.take_key(KEY);
        reader.join().unwrap();
    });
}

/// A frame that came before its peer joined the pair is found by the check that follows the meeting.
#[test]
fn loom_a_frame_for_a_process_that_joins_is_not_lost() {
    loom::model(|| {
        let (mut a, mut b) = (host(1), host(2));
        let file = shared::create_file("pair", PAIR_BYTES).unwrap();
        a.attach(config_of(&b, &file)).unwrap();
        let to_a = config_of(&a, &file);
        let sender = thread::spawn(move || {
            assert!(send(&mut a, 1, &[]));
            a.ring_doorbells();
            a
        });
        assert!(b.fall_asleep());
        b.attach(to_a).unwrap();
        // The engine wakes the background thread, which goes back to sleep unless a frame waits.
        b.wake_up();
        assert_eq!(await_frame(&mut b, true), 1);
        sender.join().unwrap();
    });
}
