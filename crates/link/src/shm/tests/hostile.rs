//! Peers that write arbitrary words.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use weft_sys::shared::{self, Shared};
use weft_transport::Peers;
use weft_transport::frame::Outgoing;
use weft_transport::peers::Reach;
use weft_transport::word::AtomicOp;
use weft_verbs::{Access, Sge};

use super::pair::{KEY, PEER, QPN, config_of, direct, host, offer, pair, range_of, receive, send};
use crate::shm::layout::{DIRECTORY_BYTES, LINE, PAIR_BYTES, RING_SLOTS, Side, TIERS_USED, header, key_at, qp_at};
use crate::shm::{Host, PeerConfig};

/// A host that met a peer whose key directory and pair the test can overwrite; `forge` changes the key directory before
/// they meet.
struct Victim {
    host: Host,
    pair: Shared,
    directory: Shared,
    _peer: Host,
}

fn victim_of(forge: impl FnOnce(&Shared)) -> Victim {
    let mut victim = host(1);
    let peer = host(2);
    let pair = shared::create_file("pair", PAIR_BYTES).unwrap();
    let file = shared::create_file("directory", DIRECTORY_BYTES).unwrap();
    let directory = Shared::map(&file, DIRECTORY_BYTES).unwrap();
    for at in (0..128).step_by(8) {
        directory.word(at).store(peer.directory.word(at), Ordering::Relaxed);
    }
    forge(&directory);
    let config = PeerConfig { directory: Some(file.into()), ..config_of(&peer, &pair) };
    assert_eq!(victim.attach(config).unwrap(), PEER);
    Victim { host: victim, pair: Shared::map(&pair, PAIR_BYTES).unwrap(), directory, _peer: peer }
}

fn victim() -> Victim {
    victim_of(|_| {})
}

/// Writes a stamped head at the victim's next position.
fn write_head(victim: &mut Victim, words: [u64; 6]) {
    let (at, stamp) = victim.host.peer(1).unwrap().inn.next();
    for (n, word) in words.into_iter().enumerate() {
        victim.pair.word(at + 8 + n * 8).store(word, Ordering::Relaxed);
    }
    victim.pair.word(at).store(stamp, Ordering::Release);
}

/// Makes every kind of access to a peer.
fn use_all(victim: &mut Host) {
    let mut memory = [0u8; 64];
    let range = range_of(&mut memory);
    for _ in 0..4 {
        if let Some((_, frame, _)) = receive(victim) {
            assert!(frame.bytes <= weft_transport::frame::FRAME_BYTES_MAX);
        }
        send(victim, 1, &[1; 100]);
        victim.ring_doorbells();
        let all = Access::REMOTE_READ;
        victim.read_direct(&direct(0, 64, all), &[range]);
        victim.atomic_direct(&direct(0, 8, all), AtomicOp::FetchAdd(1));
        victim.fetch(PEER, &Sge { addr: 0x1_0000, length: 64, lkey: KEY }, 0, range);
        victim.is_taken(PEER, 1);
        victim.fall_asleep();
        victim.wake_up();
        victim.handle_watch();
    }
}

proptest! {
    #[test]
    fn any_words_in_the_pair_are_survived(
        words in proptest::collection::vec((0usize..PAIR_BYTES / 8, any::<u64>()), 0..50),
        taken in 0u64..5000,
    ) {
        let mut victim = victim();
        for (at, word) in words {
            victim.pair.word(at * 8).store(word, Ordering::Relaxed);
            victim.pair.word(Side(1).taken()).store(taken, Ordering::Relaxed);
            use_all(&mut victim.host);
        }
    }

    #[test]
    fn frames_of_any_shape_are_survived(
        heads in proptest::collection::vec((any::<[u64; 6]>(), 0u64..20_000, 0u64..20), 1..40),
    ) {
        let mut victim = victim();
        for (mut words, bytes, kind) in heads {
            // The right stamp, so that the host checks everything else.
            words[0] = words[0] & !0xff | kind;
            words[4] = words[4] & 0xffff_ffff | bytes << 32;
            write_head(&mut victim, words);
            use_all(&mut victim.host);
        }
    }

    #[test]
    fn any_board_is_survived(words in proptest::collection::vec((any::<u8>(), any::<u64>()), 0..60), tiers: u64) {
        let mut victim = victim();
        victim.directory.word(TIERS_USED).store(tiers, Ordering::Relaxed);
        for (at, word) in words {
            let (entry, number) = match at & 64 {
                0 => (key_at(usize::from(at >> 7), KEY), KEY),
                _ => (qp_at(QPN[1]), QPN[1]),
            };
            // The host reads entries with matching numbers further.
            victim.directory.word(entry).store(u64::from(number) << 32 | word & 2, Ordering::Relaxed);
            let word = if at & 32 == 0 { word } else { word >> 40 };
            victim.directory.word(entry + usize::from(at & 7) * 8).store(word, Ordering::Relaxed);
            use_all(&mut victim.host);
        }
    }
}

#[test]
fn a_ring_that_breaks_the_rules_is_closed() {
    let head = |kind: u64, bytes: u64| [kind, 0, 0, 0, bytes << 32, 0];
    for (before, words, what) in [
        (0, head(0, 0), "a pad at the beginning"),
        (3, head(15, 0), "no such kind"),
        (3, head(1, 16 * 1024 + 1), "too long"),
        (RING_SLOTS - 1, head(1, 9), "beyond the end of the ring"),
    ] {
        let mut victim = victim();
        for _ in 0..before {
            write_head(&mut victim, head(1, 0));
            assert!(receive(&mut victim.host).is_some());
        }
        write_head(&mut victim, words);
        assert!(receive(&mut victim.host).is_none(), "{what}");
        assert!(!victim.host.is_alive(PEER), "{what}");
        assert_eq!(victim.host.take_broken(), [2], "{what}");
        assert!(!send(&mut victim.host, 1, &[]));
        assert!(victim.host.arrival().is_none());
    }
}

#[test]
fn a_reader_that_lies_about_its_progress_is_given_up() {
    let mut victim = victim();
    victim.pair.word(Side(1).taken()).store(u64::MAX, Ordering::Relaxed);
    while send(&mut victim.host, 1, &[0; LINE]) {}
    assert!(!victim.host.is_alive(PEER));
}

#[test]
fn boards_and_pairs_of_the_wrong_kind_are_refused() {
    let mut a = host(1);
    let b = host(2);
    let pair = || shared::create_file("pair", PAIR_BYTES).unwrap();
    let short = shared::create_file("short", 4096).unwrap();
    assert!(a.attach(config_of(&b, &short)).is_err());
    let wrong = PeerConfig { directory: Some(short.try_clone().unwrap().into()), ..config_of(&b, &pair()) };
    assert!(a.attach(wrong).is_err());
    let other = PeerConfig { generation: 77, ..config_of(&b, &pair()) };
    assert!(a.attach(other).is_err(), "somebody else's key directory");
    let itself = PeerConfig { slot: 1, ..config_of(&b, &pair()) };
    assert!(a.attach(itself).is_err());
    let loose = weft_sys::memory::anonymous_file("loose").unwrap();
    loose.set_len(PAIR_BYTES as u64).unwrap();
    assert!(a.attach(config_of(&b, &loose)).is_err(), "it could become shorter");
    // An invalid doorbell wakes no one and does no harm.
    let dumb = PeerConfig { doorbell: short.into(), ..config_of(&b, &pair()) };
    a.attach(dumb).unwrap();
    assert!(send(&mut a, 1, &[]));
    a.ring_doorbells();
}

#[test]
fn the_kernel_copies_only_into_the_process_whose_board_it_is() {
    let mut memory = [0u8; 64];
    for (forged, copies) in [(false, true), (true, false)] {
        let mut victim = victim_of(|directory| {
            if forged {
                // The pid may belong to another process by now: its memory has another secret, or none.
                directory.word(header::SECRET).fetch_xor(1, Ordering::Relaxed);
            }
        });
        let range = range_of(&mut memory);
        let mut entries = host(2);
        let other = shared::create_file("pair", PAIR_BYTES).unwrap();
        entries.attach(config_of(&victim.host, &other)).unwrap();
        offer(&mut entries, range, Access::REMOTE_WRITE);
        for at in [key_at(0, KEY), qp_at(QPN[1])].into_iter().flat_map(|entry| (entry..entry + LINE).step_by(8)) {
            victim.directory.word(at).store(entries.directory.word(at), Ordering::Relaxed);
        }
        victim.directory.word(TIERS_USED).store(1, Ordering::Relaxed);
        let done = victim.host.write_direct(&direct(0, 4, Access::REMOTE_WRITE), Outgoing::Bytes(b"data"));
        assert_eq!((done, victim.host.reach(PEER)), (copies, if copies { Reach::Kernel } else { Reach::Ring }));
        assert_eq!(&memory[..4], if copies { b"data" } else { &[0; 4][..] });
        memory = [0; 64];
    }
}

#[test]
fn those_of_another_pair_do_not_meet() {
    let (a, b) = pair();
    assert_eq!(a.number(2, b.us.generation), Some(PEER));
    assert_eq!(a.number(2, b.us.generation + 1), None);
    assert_eq!(a.number_of_slot(2), Some(PEER));
    assert_eq!(a.number_of_slot(3), None);
}
