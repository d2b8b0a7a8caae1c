//! Data packets, byte for byte: what leaves the last cable, and which port counts or drops a packet.

use super::*;
use crate::counters::Split;
use crate::{Counter, Transit, Why};
use weft_verbs::Duration;
use weft_wire::grh::Grh;
use weft_wire::link_packet::{self, LinkPacket};
use weft_wire::packet::{HeaderBuf, ICRC_LEN};
use weft_wire::{Bth, Headers, Opcode, Psn, icrc};

/// Builds an RC packet with this payload length and valid CRCs.
fn packet(lids: [u16; 2], pkey: u16, payload: usize) -> Vec<u8> {
    packet_with(None, lids, pkey, payload)
}

fn packet_with(grh: Option<&Grh>, lids: [u16; 2], pkey: u16, payload: usize) -> Vec<u8> {
    let head = HeaderBuf::write(Bth::new(Opcode(4), pkey, 0x1_2345, Psn::new(1)), &Headers::default(), payload);
    let mut out = Vec::new();
    let seed = link_packet::put_headers(&mut out, (0, 0), lids, grh, head.as_slice().len() + payload + ICRC_LEN);
    let at = out.len();
    out.extend_from_slice(head.as_slice());
    out.resize(out.len() + payload, 0x5a);
    let icrc = icrc::Icrc::begin(seed, &out[at..]).finish();
    out.extend_from_slice(&icrc.to_le_bytes());
    out.extend_from_slice(&[0; link_packet::VCRC_LEN]);
    link_packet::put_vcrc(&mut out);
    out
}

fn lids(from: u32, to: u32) -> [u16; 2] {
    [LIDS[from as usize], LIDS[to as usize]]
}

fn forward(lab: &mut Lab, from: u32, mut bytes: Vec<u8>) -> Result<Vec<(PortRef, Vec<u8>)>, Why> {
    let mut arrived = Vec::new();
    let port = PortRef::new(from, 1);
    let sent = lab.fabric.forward(lab.now, port, &mut bytes, |at, packet| arrived.push((at.port, packet.to_vec())));
    sent.map(|()| arrived).map_err(|refusal| refusal.why)
}

#[test]
fn a_packet_arrives_whole_and_every_port_counts_it() {
    let mut lab = Lab::up();
    let ports = [(H0, 1), (S0, 1), (S0, 3), (S1, 3), (S1, 2), (H3, 1)].map(|(node, port)| PortRef::new(node, port));
    let before = ports.map(|port| lab.fabric.traffic(port));
    let sent = packet(lids(H0, H3), 0xffff, 1000);
    let arrived = forward(&mut lab, H0, sent.clone()).expect("a path");
    assert_eq!(arrived, [(PortRef::new(H3, 1), sent.clone())]);
    assert!(link_packet::vcrc_holds(&arrived[0].1) && LinkPacket::parse(&arrived[0].1).expect("whole").icrc_holds());
    let words = sent.len().div_ceil(4) as u64;
    for (place, (port, before)) in ports.into_iter().zip(before).enumerate() {
        let now = lab.fabric.traffic(port);
        let moved = match place % 2 {
            0 => (now.xmit_packets - before.xmit_packets, now.xmit_data - before.xmit_data),
            _ => (now.rcv_packets - before.rcv_packets, now.rcv_data - before.rcv_data),
        };
        assert_eq!(moved, (1, words), "{port}");
    }
}

#[test]
fn what_no_adapter_would_send_ends_at_the_first_port() {
    let mut lab = Lab::up();
    let first = PortRef::new(S0, 1);
    let mut damaged = packet(lids(H0, H3), 0xffff, 64);
    damaged[30] ^= 4;
    assert_eq!(forward(&mut lab, H0, damaged), Err(Why::Damaged));
    assert_eq!(lab.fabric.counter(first, Counter::LocalPhysicalErrors), 1);
    assert_eq!(forward(&mut lab, H0, packet(lids(H1, H3), 0xffff, 64)), Err(Why::Malformed), "another's LID");
    assert_eq!(forward(&mut lab, H0, packet(lids(H0, H3), 0xffff, 64)[..40].to_vec()), Err(Why::Malformed));
    assert_eq!(forward(&mut lab, H0, Vec::new()), Err(Why::Malformed));
    assert_eq!(lab.fabric.counter(first, Counter::MalformedPacketErrors), 3);
    assert_eq!(forward(&mut lab, H0, packet(lids(H0, H3), 0x8077, 64)), Err(Why::Dropped), "no such partition");
    assert_eq!(lab.fabric.counter(PortRef::new(H0, 1), Counter::XmitDiscards), 1);
    assert_eq!(forward(&mut lab, H0, packet(lids(H0, H3), 0xffff, 4097)), Err(Why::Malformed), "no whole words");
    assert_eq!(forward(&mut lab, H0, packet([LIDS[H0 as usize], 40], 0xffff, 64)), Err(Why::NoRoute));
}

#[test]
fn a_global_route_names_its_sender_by_a_gid_of_the_port() {
    let mut lab = Lab::up();
    let gid = |lab: &Lab, node: u32| lab.fabric.gid(PortRef::new(node, 1), 0).expect("a GID");
    let (own, other, to) = (gid(&lab, H0), gid(&lab, H1), gid(&lab, H3));
    let mut send = |sgid: [u8; 16]| {
        let ib_len = (Bth::LEN + 64 + ICRC_LEN) as u16;
        let grh = Grh::new(0, 0, ib_len, Grh::NEXT_HEADER_IBA, 64, [sgid, to]);
        forward(&mut lab, H0, packet_with(Some(&grh), lids(H0, H3), 0xffff, 64)).map(|arrived| arrived.len())
    };
    assert_eq!(send(own), Ok(1));
    assert_eq!((send(other), send([0; 16])), (Err(Why::Malformed), Err(Why::Malformed)), "another's GID, and nobody's");
    assert_eq!(lab.fabric.counter(PortRef::new(S0, 1), Counter::MalformedPacketErrors), 2);
}

#[test]
fn a_receiver_without_room_is_waited_for_as_its_switch_says() {
    let mut lab = Lab::up();
    let last = PortRef::new(S1, 2);
    lab.set_port(S1, 2, |info| info.hoq_life = 10);
    assert_eq!(lab.fabric.patience(PortRef::new(H3, 1)), Duration::from_nanos(4096 << 10));
    let mut late = packet(lids(H0, H3), 0xffff, 64);
    weft_wire::link_packet::set_vl(&mut late, 2);
    lab.fabric.discard(PortRef::new(H3, 1), &late, true);
    assert_eq!(lab.fabric.counter(last, Counter::XmitDiscards), 1);
    assert_eq!(lab.fabric.counter(last, Counter::SwHoqLifetimeLimitDiscards), 1);
    let of = |lab: &Lab, split| {
        let place = lab.fabric.place(last).expect("a port");
        [0, 2].map(|vl| lab.fabric.ports[place as usize].counters.part_register(split, vl))
    };
    assert_eq!(of(&lab, Split::Congestion), [0, 1]);
    let at = |us: u64| Instant(us * 1000);
    lab.fabric.waited(PortRef::new(H3, 1), 2, at(5), at(12));
    assert_eq!((of(&lab, Split::XmitWait), lab.fabric.counter(last, Counter::XmitWait)), ([0, 7], 7));
    lab.fabric.discard(PortRef::new(H3, 1), &[], false);
    assert_eq!(lab.fabric.counter(last, Counter::XmitDiscards), 2);
}

#[test]
fn packets_on_slow_cables_arrive_in_time_and_are_bounded() {
    let (mut transit, port, at) = (Transit::default(), PortRef::new(H3, 1), weft_verbs::Instant);
    assert!(
        transit.depart(at(20), port, 0, &[2])
            && transit.depart(at(10), port, 0, &[1])
            && transit.depart(at(20), port, 0, &[3])
    );
    assert_eq!(transit.poll_timeout(), Some(at(10)));
    let mut order = Vec::new();
    for now in [at(5), at(15), at(25)] {
        order.extend(std::iter::from_fn(|| transit.arrive(now)).map(|(_, _, packet)| packet[0]));
    }
    assert_eq!((order, transit.poll_timeout()), (vec![1, 2, 3], None));
    let most = crate::limits::TRANSIT_PACKETS_MAX;
    assert_eq!((0..most + 5).filter(|_| transit.depart(at(30), port, 0, &[0])).count(), most);
    transit.clear();
    assert!(transit.depart(at(30), port, 0, &vec![0; crate::limits::TRANSIT_BYTES_MAX]));
    assert!(!transit.depart(at(30), port, 0, &[0]));
}
