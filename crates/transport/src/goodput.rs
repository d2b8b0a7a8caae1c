//! Goodput of the window under loss, in simulated time: the wire has a round trip of 20 µs and no bandwidth limit, so
//! the throughput of a message stream depends on loss recovery alone. It is deterministic, hence a test.

use weft_verbs::{Mtu, QpType, SendFlags, SendOp, SendWr};

use crate::TxBatch;

use crate::peer_quota::{PeerQuota, Share};
use crate::testing::{Fate, Pair, Rng, init, remote, sge};

/// Returns the throughput in MB/s of twenty 1 MiB messages when `loss_permille` of all packets are lost.
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

#[test]
fn a_share_that_shrinks_in_the_middle_of_a_message_stops_nothing() {
    let peer_quota = PeerQuota::default();
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| a.path_mtu = Mtu::Mtu1024);
    p.qps[0].join(&peer_quota);
    let message = SendOp::Write(remote(0));
    let wr = SendWr {
        wr_id: 1,
        op: message,
        flags: SendFlags::SIGNALED,
        sges: &[sge(0, 1 << 20)],
        ud: None,
        xrc_srqn: None,
    };
    p.qps[0].post_send(p.now, &wr, &mut p.worlds[0]).unwrap();
    // A turn that ends because the batch is full, six packets after the last one that requested an acknowledgement.
    let mut batch = TxBatch::default();
    p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]);
    let others = batch.packets[0].clone();
    batch.packets.resize(TxBatch::PACKETS_MAX - 6, others);
    p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]);
    assert!(!batch.has_room());
    // Others become busy: one more packet is sent, which requests an acknowledgement, and then none until it arrives.
    let mut others: Vec<Share> = (0..2000).map(|_| Share::of(&peer_quota)).collect();
    others.iter_mut().for_each(|other| _ = other.enter(4096));
    let mut batch = TxBatch::default();
    assert!(!p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]));
    assert_eq!(batch.packets.len(), 1);
    const ACK_REQ_BYTE: usize = 8;
    assert_eq!(batch.arena[batch.packets[0].header.start as usize + ACK_REQ_BYTE] & 0x80, 0x80);
}
