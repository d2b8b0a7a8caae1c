//! How long the state machines take for a packet, memory copies excepted: a look by hand, not a test.

#![allow(clippy::disallowed_methods)] // It measures.

use std::time::Duration;

use weft_verbs::{Mtu, QpType, SendFlags, SendOp};

use crate::TxBatch;
use crate::testing::{Fate, Pair, Rng, init, remote, sge};

/// Not a test: `cargo test --release -p weft-transport -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures"]
fn speed() {
    for (size, count) in [(8u32, 400_000u64), (4096, 200_000), (1 << 20, 1000)] {
        let mut inits = [init(QpType::Rc), init(QpType::Rc)];
        inits[0].sq_sig_all = false;
        let mut p = Pair::with(inits, |_, a| a.path_mtu = Mtu::Mtu4096);
        let start = std::time::Instant::now();
        let (mut posted, mut batch, mut ack) = (0, TxBatch::default(), TxBatch::default());
        let (mut tx, mut rx) = (Duration::ZERO, Duration::ZERO);
        let mut bytes = vec![0; 5000];
        while posted < count || p.qps[0].wants_transmit(p.now) {
            let t0 = std::time::Instant::now();
            while posted < count
                && p.post(0, posted, SendOp::Write(remote(0)), &[sge(0, size)], SendFlags::empty()).is_ok()
            {
                posted += 1;
            }
            batch.clear();
            p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]);
            let t1 = std::time::Instant::now();
            for packet in &batch.packets {
                let header = &batch.arena[packet.header.start as usize..packet.header.end as usize];
                bytes[..header.len()].copy_from_slice(header);
                let end = header.len() + (packet.payload_len as usize).next_multiple_of(4) + 4;
                p.deliver(1, &bytes[..end]);
            }
            ack.clear();
            p.qps[1].poll_transmit(p.now, &mut ack, &mut p.worlds[1]);
            let t2 = std::time::Instant::now();
            for packet in &ack.packets {
                let mut bytes = ack.arena[packet.header.start as usize..packet.header.end as usize].to_vec();
                bytes.extend([0; 4]);
                p.deliver(0, &bytes);
            }
            p.worlds[0].wcs.clear();
            tx += t1 - t0 + t2.elapsed();
            rx += t2 - t1;
        }
        let packets = p.qps[0].stats().tx_packets;
        let (tx, rx) = (tx.as_nanos() as u64 / packets, rx.as_nanos() as u64 / packets);
        println!("{size} bytes: requester {tx} ns, responder {rx} ns a packet; {:?}", start.elapsed());
    }
}

/// Simulated throughput under loss: `... --ignored --nocapture goodput`. The wire has a round trip of 20 µs and no
/// bandwidth limit, so what shows is how well the window keeps up.
#[test]
#[ignore = "measures"]
fn goodput() {
    for mtu in [Mtu::Mtu1024, Mtu::Mtu4096] {
        for loss_permille in [0, 1, 10, 100] {
            for read in [false, true] {
                let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| {
                    a.path_mtu = mtu;
                    a.retry_cnt = 7;
                });
                let mut wire = Rng(99);
                p.fate =
                    Box::new(move |_, _| if wire.below(1000) < loss_permille { Fate::Lose } else { Fate::Deliver });
                let start = p.now;
                let rounds = 20;
                for n in 0..rounds {
                    let op = if read { SendOp::Read(remote(0)) } else { SendOp::Write(remote(0)) };
                    p.send(0, n, op, &[sge(0, 1 << 20)]);
                }
                p.finish();
                let took = p.now.since(start);
                let stats = p.qps[0].stats();
                println!(
                    "{mtu:?} loss {loss_permille:3}/1000 {}: {:6.0} MB/s, {} packets, {} again, {} NAKs, {} probes, {} timeouts",
                    if read { "READ " } else { "WRITE" },
                    rounds as f64 * 1.048_576 / took.as_secs_f64(),
                    stats.tx_packets + p.qps[1].stats().tx_packets,
                    stats.retransmits,
                    stats.sequence_naks_received + stats.implied_naks,
                    stats.probes,
                    stats.timeouts,
                );
            }
        }
    }
}
