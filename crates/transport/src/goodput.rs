//! How well the window keeps up under loss, in simulated time: the wire has a round trip of 20 µs and no bandwidth limit,
//! so what a message stream reaches is what recovery leaves of it. Deterministic, hence a test.

use weft_verbs::{Mtu, QpType, SendOp};

use crate::testing::{Fate, Pair, Rng, init, remote, sge};

/// Megabytes a second of twenty 1 MiB messages when `loss_permille` of all packets vanish.
fn goodput(mtu: Mtu, loss_permille: u64, read: bool) -> f64 {
    const MESSAGES: u64 = 20;
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| {
        a.path_mtu = mtu;
        a.retry_cnt = 7;
    });
    let mut wire = Rng(99);
    p.fate = Box::new(move |_, _| if wire.below(1000) < loss_permille { Fate::Lose } else { Fate::Deliver });
    let start = p.now;
    for n in 0..MESSAGES {
        let op = if read { SendOp::Read(remote(0)) } else { SendOp::Write(remote(0)) };
        p.send(0, n, op, &[sge(0, 1 << 20)]);
    }
    p.finish();
    assert_eq!(p.qps[0].stats().timeouts, 0, "{mtu:?}: losses are repaired before the retry timer");
    MESSAGES as f64 * 1.048_576 / p.now.since(start).as_secs_f64()
}

#[test]
fn one_percent_of_loss_leaves_most_of_the_throughput() {
    for read in [false, true] {
        assert!(goodput(Mtu::Mtu4096, 10, read) > 1000.0);
        assert!(goodput(Mtu::Mtu1024, 10, read) > 250.0);
    }
}

#[test]
fn ten_percent_of_loss_still_moves() {
    for read in [false, true] {
        assert!(goodput(Mtu::Mtu4096, 100, read) > 50.0);
        assert!(goodput(Mtu::Mtu1024, 100, read) > 10.0);
    }
}
