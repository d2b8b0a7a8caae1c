use weft_verbs::{AddressVector, Gid, Instant};
use weft_wire::icrc;
use weft_wire::packet::HeaderBuf;
use weft_wire::{Bth, Headers, Opcode, Psn};

use super::*;
use crate::wrap::fault::{Fault, FaultPlan};

/// Number of the sending queue pair.
const QPN: u32 = 0x41;
const PAYLOAD: usize = 1000;

fn av() -> AddressVector {
    let gid = |last: u8| Gid::from(std::net::IpAddr::from([10, 0, 0, last]));
    crate::testing::av(gid(1), gid(2))
}

/// Makes SENDs of a program's memory, numbered by their PSNs from 0 on.
fn sends(memory: &[u8; PAYLOAD], count: u32) -> TxBatch {
    let mut batch = TxBatch::default();
    for number in 0..count {
        let head =
            HeaderBuf::write(Bth::new(Opcode(4), 0xffff, 0x12_3456, Psn::new(number)), &Headers::default(), PAYLOAD);
        batch.begin(av(), 0x12_3456, QPN, head.as_slice());
        batch.piece((&raw const memory[0]).expose_provenance() as u64, PAYLOAD as u32);
    }
    batch
}

/// Writes the packets as they are on the wire.
fn sealed(batches: &Batches) -> Vec<Vec<u8>> {
    let seal = |batch: &TxBatch, packet: &TxPacket| {
        let mut bytes = vec![0; seal::sealed_len(packet)];
        seal::copy_into(&mut bytes, batch, packet, 0);
        bytes
    };
    batches.iter().flat_map(|batch| batch.packets.iter().map(|packet| seal(batch, packet))).collect()
}

/// Lets packets leave through faults, which the memory's owner overwrites right after.
fn through(spec: &str, count: u32) -> Vec<Vec<u8>> {
    let mut memory = [7; PAYLOAD];
    let mut faults: Fault<LeavingCopy> = Fault::new(&FaultPlan::parse(spec).unwrap().packets);
    let mut batches = Batches::default();
    let batch = sends(&memory, count);
    for packet in &batch.packets {
        faults.admit(Instant(0), &Leaving { batch: &batch, packet }, &mut |packet| batches.push(packet));
    }
    let mut all = sealed(&batches);
    batches.clear();
    drop(batch);
    memory.fill(9);
    while let Some(at) = faults.poll_timeout() {
        faults.release(at, &mut |packet| batches.push(packet));
    }
    all.extend(sealed(&batches));
    assert!(faults.held_bytes == 0 && memory[0] == 9);
    all
}

fn psn(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[8..12].try_into().unwrap()) & 0x00ff_ffff
}

#[test]
fn packets_leave_as_they_are_or_not_at_all() {
    let plain = through("loss=0%,dup=0%,delay=1ns,for=1us,after=1s,dir=out", 600);
    assert_eq!(plain.iter().map(|packet| psn(packet)).collect::<Vec<_>>(), (0..600).collect::<Vec<_>>());
    let left = through("loss=100%,dir=out,from=2,count=2", 5);
    assert_eq!(left.iter().map(|packet| psn(packet)).collect::<Vec<_>>(), [0, 3, 4]);
    assert!(left.iter().all(|packet| plain.contains(packet)), "the others are not touched");
}

#[test]
fn a_delayed_packet_has_the_bytes_of_its_time() {
    let packets = through("delay=1ms,dir=out", 300);
    assert_eq!(packets.len(), 300);
    assert!(packets.iter().all(|packet| packet[12..12 + PAYLOAD].iter().all(|byte| *byte == 7)));
    let twice = through("dup=100%,reorder=10%,dir=out,seed=3", 50);
    assert_eq!(twice.len(), 100);
    assert!(twice.iter().all(|packet| packet[12] == 7));
}

#[test]
fn packets_that_are_due_leave_in_batches() {
    let memory = [7; PAYLOAD];
    let batch = sends(&memory, 100);
    let mut faults: Fault<LeavingCopy> = Fault::new(&FaultPlan::parse("delay=1ms,dir=out").unwrap().packets);
    for packet in &batch.packets {
        faults.admit(Instant(0), &Leaving { batch: &batch, packet }, &mut |_| panic!("it takes time"));
    }
    let due = faults.poll_timeout().unwrap();
    let mut release = |max| {
        let mut count = 0;
        let is_done = faults.release_some(due, max, &mut |_| count += 1);
        (count, is_done)
    };
    assert_eq!([release(30), release(60), release(60)], [(30, false), (60, false), (10, true)]);
    assert!(faults.poll_timeout().is_none() && faults.held_bytes == 0);
}

#[test]
fn a_damaged_packet_has_a_wrong_icrc() {
    let is_whole = |packet: &[u8]| {
        let found = u32::from_le_bytes(packet[packet.len() - 4..].try_into().unwrap());
        icrc::of_packet(0, packet) == found
    };
    assert!(through("dup=100%,dir=out", 5).iter().all(|packet| is_whole(packet)));
    assert!(!through("corrupt=100%,dir=out", 50).iter().any(|packet| is_whole(packet)));
}

#[test]
fn a_marked_packet_leaves_with_its_payload_and_another_class() {
    let memory = [7; PAYLOAD];
    let batch = sends(&memory, 2);
    let mut faults: Fault<LeavingCopy> = Fault::new(&FaultPlan::parse("ecn=100%,dir=out,from=2").unwrap().packets);
    let mut batches = Batches::default();
    for packet in &batch.packets {
        faults.admit(Instant(0), &Leaving { batch: &batch, packet }, &mut |packet| batches.push(packet));
    }
    let classes: Vec<u8> =
        batches.iter().flat_map(|batch| batch.packets.iter().map(|packet| packet.av.traffic_class)).collect();
    assert_eq!(classes, [0, 3]);
    let (plain, sent) = (through("loss=0%,ecn=0%,dup=0%,delay=1ns,after=1s,dir=out", 2), sealed(&batches));
    assert_eq!(sent, plain, "the ICRC does not cover the class");
}

#[test]
fn the_flow_of_a_leaving_packet_ends_at_the_peer() {
    for (spec, left) in [
        ("loss=100%,dir=out,peer=10.0.0.2", 0),
        ("loss=100%,dir=out,peer=10.0.0.1", 4),
        ("loss=100%,dir=out,to=10.0.0.1,qp=0x41", 0),
        ("loss=100%,dir=out,qp=0x42", 4),
        ("loss=100%,dir=out,only=send", 0),
        ("loss=100%,dir=out,only=ack", 4),
    ] {
        assert_eq!(through(spec, 4).len(), left, "{spec}");
    }
}
