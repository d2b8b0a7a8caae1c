//! How long the state machines take for a packet, memory copies excepted: a look by hand, not a test.

#![allow(clippy::disallowed_methods)] // It measures.

use std::time::Duration;

use weft_verbs::{Mtu, QpType, SendFlags, SendOp};

use crate::TxBatch;
use crate::testing::{Pair, init, remote, sge};

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
