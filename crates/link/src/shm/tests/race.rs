//! Revoking keys while peers copy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weft_sys::{pidfd, shared};
use weft_transport::Peers;
use weft_transport::frame::Outgoing;
use weft_transport::peers::{PeerId, QpView};
use weft_verbs::Access;

use super::pair::{KEY, PD, PEER, QPN, config_of, direct, host, offer, pair, range_of, receive, send};
use crate::shm::{PAIR_BYTES, PeerConfig};

/// Tells another thread to end, however this one's work ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a host on another thread beside this one's work.
fn beside<R>(work: impl FnOnce() + Send, here: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let result = here();
        other.join().unwrap();
        result
    })
}

#[test]
fn no_byte_changes_once_a_key_is_revoked() {
    let (mut a, mut b) = pair();
    let mut memory = vec![0u8; 1 << 16];
    let range = range_of(&mut memory);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writer = || {
        let mut fill = 0u8;
        while !stop.load(Ordering::Relaxed) {
            fill = fill.wrapping_add(1);
            let data = vec![fill; 1 << 16];
            let done = a.write_direct(&direct(0, 1 << 16, Access::REMOTE_WRITE), Outgoing::Bytes(&data));
            written.fetch_add(u64::from(done), Ordering::Relaxed);
        }
    };
    let snapshot = || -> Vec<u8> {
        (0..range.len)
            .map(|n| {
                let at = std::ptr::with_exposed_provenance::<u8>((range.addr + n) as usize);
                // SAFETY: bytes of a vector that lives; others may write them, which is the point of the test.
                unsafe { at.read_volatile() }
            })
            .collect()
    };
    beside(writer, || {
        let _stop = Stop(&stop);
        for round in 0..300 {
            let before = written.load(Ordering::Relaxed);
            offer(&mut b, range, Access::REMOTE_WRITE);
            while written.load(Ordering::Relaxed) < before + 2 {
                std::thread::yield_now();
            }
            match round % 2 {
                0 => b.revoke_key(KEY),
                _ => b.revoke_qp(QPN[1]),
            }
            let first = snapshot();
            std::thread::sleep(Duration::from_micros(50));
            assert!(first == snapshot(), "round {round}");
        }
    });
}

#[test]
fn a_copier_that_died_is_not_waited_for() {
    let (mut a, mut b) = (host(1), host(2));
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let file = shared::create_file("pair", PAIR_BYTES).unwrap();
    a.attach(config_of(&b, &file)).unwrap();
    let process = Some(pidfd::open(child.id()).unwrap());
    b.attach(PeerConfig { process, ..config_of(&a, &file) }).unwrap();
    let mut memory = [0u8; 8];
    offer(&mut b, range_of(&mut memory), Access::REMOTE_WRITE);
    // Its key directory announces for ever that it copies from the first host.
    a.directory.announce(2);
    let revoked = AtomicBool::new(false);
    beside(
        || {
            b.revoke_key(KEY);
            revoked.store(true, Ordering::SeqCst);
        },
        || {
            std::thread::sleep(Duration::from_millis(20));
            assert!(!revoked.load(Ordering::SeqCst), "it lives, and says that it copies");
            child.kill().unwrap();
            child.wait().unwrap();
        },
    );
    b.handle_watch();
    assert!(!b.is_alive(PEER));
    assert!(b.peers[1].is_none());
}

#[test]
fn a_copy_from_somebody_else_is_not_waited_for() {
    let (mut a, mut b) = pair();
    let mut memory = [0u8; 8];
    offer(&mut b, range_of(&mut memory), Access::REMOTE_WRITE);
    a.directory.announce(3);
    b.revoke_key(KEY);
    b.publish_qp(&QpView { qpn: QPN[1], peer: PeerId(0), dest_qpn: 1, pd: PD, access: Access::empty() });
    b.revoke_qp(QPN[1]);
}

#[test]
fn two_threads_through_rings_lose_nothing() {
    const FRAMES: u32 = 200_000;
    let (mut a, mut b) = pair();
    let sender = || {
        let mut payload = [0u8; 200];
        for seq in 0..FRAMES {
            payload.fill(seq as u8);
            while !send(&mut a, seq, &payload[..seq as usize % 200]) {
                std::thread::yield_now();
            }
        }
    };
    beside(sender, || {
        for seq in 0..FRAMES {
            let (_, frame, bytes) = loop {
                match receive(&mut b) {
                    Some(got) => break got,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!((frame.seq, bytes.len()), (seq, seq as usize % 200));
            assert!(bytes.iter().all(|&byte| byte == seq as u8));
        }
    });
}
