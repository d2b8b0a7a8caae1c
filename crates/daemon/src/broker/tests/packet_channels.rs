//! Packets hop by hop between two programs: credits while a receiver has no room, discards after its switch's timeout,
//! groups, and packets without a destination.

use std::time::Duration;

use weft_fabric::{Counter, PortRef};
use weft_link::hops::{ProcessEnd, SwitchEnd};
use weft_wire::link_packet::{self, LinkPacket, VCRC_LEN};
use weft_wire::packet::{HeaderBuf, ICRC_LEN};
use weft_wire::{Bth, Headers, MULTICAST_QPN, Opcode, Psn, icrc};

use super::paths::{GROUP, LIDS, Pair};
use super::*;
use crate::umad;

/// Packets that the daemon carries for a program in one turn.
const TURN: usize = 64;
/// Opcodes of an RC packet and of a UD packet.
const RC_SEND: u8 = 4;

/// Makes a pair, and the programs' ends of their packet channels.
fn connected() -> (Pair, [ProcessEnd; 2]) {
    let mut pair = Pair::of(true);
    let ends = [0, 1].map(|place| {
        let (end, fds) = SwitchEnd::create().expect("a packet channel");
        let (client, slot) = pair.programs[place];
        let broker = &mut pair.world.broker;
        let ports = umad::ports_of(pair_fabric(broker), broker.shared.fabric.generation(), &[place as u32]);
        assert_eq!(ports[0], (pair.device[place], PortRef::new(place as u32, 1)));
        broker.packet_channels().connect(client, slot, ports, end);
        ProcessEnd::new(fds).expect("the program's end")
    });
    (pair, ends)
}

fn pair_fabric(broker: &Broker) -> &weft_fabric::Fabric {
    broker.shared.fabric.running().expect("a fabric").fabric()
}

/// Makes a packet from the first host to a queue pair, with its number in the payload.
fn packet(dlid: u16, dest_qp: u32, number: u32) -> Vec<u8> {
    let mut payload = vec![0; 2048];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    let bth = Bth::new(Opcode(RC_SEND), 0xffff, dest_qp, Psn::new(number));
    let head = HeaderBuf::write(bth, &Headers::default(), payload.len());
    let mut out = Vec::new();
    let ib_len = head.as_slice().len() + payload.len() + ICRC_LEN;
    let seed = link_packet::put_headers(&mut out, (0, 0), [LIDS[0], dlid], None, ib_len);
    let at = out.len();
    out.extend_from_slice(head.as_slice());
    out.extend_from_slice(&payload);
    let icrc = icrc::Icrc::begin(seed, &out[at..]).finish();
    out.extend_from_slice(&icrc.to_le_bytes());
    out.extend_from_slice(&[0; VCRC_LEN]);
    link_packet::put_vcrc(&mut out);
    out
}

/// Returns the numbers of the packets that wait at a program.
fn take(end: &mut ProcessEnd) -> Vec<u32> {
    let (mut room, mut numbers) = (Vec::new(), Vec::new());
    while end.pop(&mut room).expect("an honest daemon").is_some() {
        let ib = LinkPacket::parse(&room).expect("a packet").ib;
        numbers.push(u32::from_le_bytes([ib[12], ib[13], ib[14], ib[15]]));
    }
    end.made_room();
    numbers
}

impl Pair {
    fn carry(&mut self, place: usize) -> usize {
        let now = self.world.now;
        self.world.broker.carry_packets(now, self.programs[place].0, TURN)
    }

    fn qpn(&self, place: usize) -> u32 {
        self.programs[place].1 << weft_verbs::QPN_INDEX_BITS | 7
    }

    /// Sends from the first host to the second until a packet waits for room; returns how many it sent.
    fn fill(&mut self, first: &mut ProcessEnd) -> u32 {
        let (qpn, port) = (self.qpn(1), (self.device[0], 1));
        let mut sent = 0;
        while !self.world.broker.packet_channels().has_waiting() {
            assert!(first.push(port, &packet(LIDS[1], qpn, sent)));
            sent += 1;
            self.carry(0);
        }
        sent
    }

    fn flush(&mut self) {
        let now = self.world.now;
        self.world.broker.flush_packet_channels(now);
    }

    fn discards(&mut self) -> u64 {
        self.fabric().counter(PortRef::new(0, 1), Counter::XmitDiscards)
    }
}

#[test]
fn a_receiver_without_room_holds_up_its_sender_and_nothing_is_lost() {
    let (mut pair, [mut first, mut second]) = connected();
    let (qpn, port) = (pair.qpn(1), (pair.device[0], 1));
    let (mut sent, mut came, mut held) = (0, Vec::new(), 0);
    while came.len() < 5000 {
        while sent < 5000 && first.push(port, &packet(LIDS[1], qpn, sent)) {
            sent += 1;
        }
        while pair.carry(0) > 0 {}
        let full = pair.world.broker.packet_channels().has_waiting();
        if full {
            held += 1;
            assert_eq!(pair.carry(0), 0, "who sent it is not listened to");
        }
        if full || sent == 5000 {
            came.extend(take(&mut second));
            pair.flush();
        }
    }
    assert_eq!(came, (0..5000).collect::<Vec<_>>());
    assert!(held > 2, "the ring was never full");
    assert_eq!(pair.discards(), 0);
}

#[test]
fn what_waits_for_too_long_is_dropped_and_counted() {
    let (mut pair, [mut first, mut second]) = connected();
    let (qpn, port) = (pair.qpn(1), (pair.device[0], 1));
    let sent = pair.fill(&mut first);
    let until = pair.world.broker.poll_packet_channel_timeout().expect("its patience");
    let patience = until - pair.world.now;
    pair.world.now = until + Duration::from_millis(1);
    let now = pair.world.now;
    pair.world.broker.handle_packet_channel_timeout(now);
    assert_eq!(pair.discards(), 1);
    let ticks = u128::from(pair.fabric().counter(PortRef::new(0, 1), Counter::XmitWait));
    let all = (patience + Duration::from_millis(1)).as_micros();
    assert!((all - 1..=all).contains(&ticks), "{ticks} ticks of a microsecond in {all}");
    for number in [100_000, 100_001] {
        assert!(first.push(port, &packet(LIDS[1], qpn, number)));
    }
    assert_eq!((pair.carry(0), pair.discards()), (2, 3), "as long as there is no room, at once");
    assert_eq!(take(&mut second).len() as u32, sent - 1);
    assert!(first.push(port, &packet(LIDS[1], qpn, 7)));
    pair.carry(0);
    assert_eq!((take(&mut second), pair.discards()), (vec![7], 3));
}

#[test]
fn packets_go_to_whom_they_name_and_to_nobody_else() {
    let (mut pair, [mut first, mut second]) = connected();
    let (device, own, peer) = (pair.device[0], pair.qpn(0), pair.qpn(1));
    // The host with the LID does not have the queue pair; the port is another's; there is no such slot.
    assert!(first.push((device, 1), &packet(LIDS[1], own, 1)));
    assert!(
        first.push((pair.device[1], 1), &packet(LIDS[1], peer, 2))
            && first.push((device, 2), &packet(LIDS[1], peer, 3))
    );
    assert!(first.push((device, 1), &packet(LIDS[1], 500 << weft_verbs::QPN_INDEX_BITS, 4)));
    assert!(first.push((device, 1), &packet(LIDS[0], own, 5)) && first.push((device, 1), &packet(LIDS[1], peer, 6)));
    assert_eq!(pair.carry(0), 6);
    assert_eq!((take(&mut first), take(&mut second)), (vec![5], vec![6]));
    assert!(first.push((device, 1), &packet(LIDS[1], peer, 7)));
    pair.carry(0);
    let told = second.pop(&mut Vec::new());
    assert_eq!(told, Ok(Some(((pair.device[1], 1), pair.programs[0].1))), "who sent it is told by the switches");
    pair.listen(1, true);
    assert!(first.push((device, 1), &packet(GROUP, MULTICAST_QPN, 8)));
    pair.carry(0);
    assert_eq!((take(&mut first), take(&mut second)), (vec![], vec![8]));
    pair.listen(0, true);
    assert!(first.push((device, 1), &packet(GROUP, MULTICAST_QPN, 9)));
    pair.carry(0);
    assert_eq!((take(&mut first), take(&mut second)), (vec![9], vec![9]), "a copy stays at the sender's port");
}

#[test]
fn what_a_program_left_is_carried_when_it_is_gone() {
    let (mut pair, [mut first, mut second]) = connected();
    let (qpn, port) = (pair.qpn(1), (pair.device[0], 1));
    for number in 0..200 {
        assert!(first.push(port, &packet(LIDS[1], qpn, number)));
    }
    let World { broker, host, now, .. } = &mut pair.world;
    broker.disconnect(*now, pair.programs[0].0, host);
    assert_eq!(take(&mut second).len(), 200);
    // Packets to a host that is gone are dropped.
    assert!(second.push((pair.device[1], 1), &packet(LIDS[0], pair.qpn(0), 1)));
    assert_eq!(pair.carry(1), 1);
}

#[test]
fn a_program_has_one_packet_channel() {
    let (mut pair, _ends) = connected();
    let client = pair.programs[0].0;
    // A second packet channel would lose the packets that wait at the first, and the packet channels that wait for it.
    assert_eq!(pair.world.ask(client, Request::OpenPacketChannel), Err(crate::refusal::EALREADY));
}

#[test]
fn a_program_that_ends_while_its_receiver_has_no_room_leaves_nothing_uncounted() {
    let (mut pair, [mut first, mut second]) = connected();
    let (qpn, port) = (pair.qpn(1), (pair.device[0], 1));
    let sent = pair.fill(&mut first);
    for number in 0..100 {
        assert!(first.push(port, &packet(LIDS[1], qpn, sent + number)));
    }
    assert_eq!(pair.carry(0), 0, "its receiver has no room");
    let World { broker, host, now, .. } = &mut pair.world;
    broker.disconnect(*now, pair.programs[0].0, host);
    let mut came = take(&mut second).len();
    while pair.world.broker.packet_channels().has_waiting() {
        pair.flush();
        came += take(&mut second).len();
    }
    pair.flush();
    came += take(&mut second).len();
    assert_eq!(came as u64 + pair.discards(), u64::from(sent + 100));
}
