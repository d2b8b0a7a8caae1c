//! Hundreds of thousands of random datagrams: nothing panics and no memory grows.

use super::*;
use crate::limits::{DELIVERIES_MAX, LINEAR_FDB_CAP, TRAPS_PENDING_MAX};
use crate::rng::Rng;
use zerocopy::{FromBytes, IntoBytes};

const DATAGRAMS: u32 = 300_000;

/// Builds a random datagram, often one that an agent answers.
fn random(rng: &mut Rng) -> Mad {
    let mut bytes = [0; 256];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next().to_le_bytes());
    }
    let pick = |rng: &mut Rng, of: &[u8]| of[rng.next() as usize % of.len()];
    if !rng.chance(100_000) {
        bytes[0] = 1;
        bytes[1] = pick(rng, &[0x01, 0x81, 0x81, 0x04, 0x03, 0x32, 0x07]);
        bytes[2] = 1;
        bytes[3] = pick(rng, &[1, 2, 2, 2, 3, 5, 6, 7, 0x81]);
        bytes[4] = pick(rng, &[0, 0x80]);
    }
    if !rng.chance(200_000) {
        bytes[16..18].copy_from_slice(
            &u16::from(pick(rng, &[2, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x1d, 0x20, 0x31]))
                .to_be_bytes(),
        );
        let modifier = (rng.next() as u32) & [0, 7, 0xff, 0xffff, 0x3_0007, u32::MAX][rng.next() as usize % 6];
        bytes[20..24].copy_from_slice(&modifier.to_be_bytes());
    }
    if bytes[1] == 0x81 && !rng.chance(300_000) {
        (bytes[6], bytes[7]) = (pick(rng, &[0, 0, 0, 1, 2, 3]), pick(rng, &[0, 1, 2, 3, 3, 63]));
        bytes[128..].iter_mut().for_each(|hop| *hop %= 6);
        bytes[129] = 1;
        if !rng.chance(100_000) {
            bytes[32..36].fill(0xff);
        }
    }
    if bytes[1] != 0x04 && !rng.chance(500_000) {
        bytes[24..32].fill(0);
    }
    Mad::read_from_bytes(&bytes[..]).expect("256 bytes")
}

fn soak(lab: &mut Lab, seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..DATAGRAMS {
        let mad = random(&mut rng);
        let class = mad.header.class();
        let subnet = class == Class::SUBN_LID_ROUTED || class == Class::SUBN_DIRECTED_ROUTE;
        let to = MadAddress {
            dlid: [0, 1, 2, 4, 5, 6, 7, 0xc000, 0xffff, rng.next() as u16][rng.next() as usize % 10],
            path_bits: rng.next() as u8,
            sl: rng.next() as u8,
            src_qp: rng.next() as u32,
            dest_qp: if subnet { 0 } else { 1 + u32::from(rng.chance(50_000)) },
            qkey: if rng.chance(50_000) { 0 } else { 0x8001_0000 },
            pkey: if rng.chance(900_000) { 0xffff } else { rng.next() as u16 },
            grh: None,
        };
        let from = PortRef::new(H0 + rng.next() as u32 % 4, 1);
        let _ = lab.fabric.send(lab.now, from, &MadOut { to, mad });
        // Deliveries stay unfetched for a while.
        if round % 100_000 == 0 {
            while lab.fabric.poll_delivery().is_some() {}
        }
        if round % 16 == 0 {
            lab.now = lab.now + Duration::from_millis(1);
            lab.fabric.handle_timeout(lab.now);
        }
    }
}

#[test]
fn nothing_falls_over_and_nothing_grows() {
    let mut lab = Lab::up();
    lab.fabric.set_latency(PortRef::new(S0, 3), 10_000).expect("a cable");
    for seed in 1..=3 {
        soak(&mut lab, seed);
    }
    let mut deliveries = 0;
    while lab.fabric.poll_delivery().is_some() {
        deliveries += 1;
    }
    assert!(deliveries <= DELIVERIES_MAX);
    for node in 0..6 {
        assert!(lab.fabric.traps_pending(node) <= TRAPS_PENDING_MAX);
        for port in lab.fabric.nodes[node as usize].places() {
            assert!(lab.fabric.ports[port as usize].pkeys().len() <= 128);
        }
        if let Some(switch) = &lab.fabric.nodes[node as usize].switch {
            assert!(switch.info.linear_fdb_top < LINEAR_FDB_CAP);
        }
    }
    // Everything in flight ends.
    for _ in 0..1000 {
        let Some(at) = lab.fabric.poll_timeout() else { break };
        lab.now = lab.now.max(at);
        lab.fabric.handle_timeout(lab.now);
    }
    assert_eq!(lab.fabric.poll_timeout(), None, "everything comes to rest");
    // Nodes with power work again.
    for node in 0..6 {
        lab.fabric.reboot(lab.now, node, Duration::from_millis(1)).expect("a node");
    }
    lab.pass(Duration::from_secs(1));
    while lab.fabric.poll_delivery().is_some() {}
    assert!(lab.ask(S0, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_some());
}

#[test]
fn the_longest_of_everything() {
    let mut lab = Lab::up();
    // 63 hops back and forth between the switches.
    let path: Vec<u8> = [&[1][..], &[3; 62]].concat();
    let smp = Smp::directed(Method::GET, 1, AttrId::NODE_INFO, 0, 0, &path).expect("63 hops");
    let back = lab.smp(S0, smp).expect("an answer");
    assert_eq!((back.hop_pointer(), back.return_path[1], back.return_path[2]), (0, 1, 3));
    assert_eq!(back.as_bytes().len(), 256);
}
