use std::net::IpAddr;

use super::*;
use crate::datagram::Datagram;

fn datagram(ib: &[u8]) -> Datagram<'_> {
    Datagram {
        ib,
        src: IpAddr::from([10, 0, 0, 1]),
        sport: 50_000,
        dst: IpAddr::from([10, 0, 0, 2]),
        ifindex: 1,
        traffic_class: 0,
        hop_limit: 64,
        segment: 0,
        grh: None,
    }
}

fn run(spec: &str, packets: u32) -> (Vec<Vec<u8>>, FaultStats) {
    let mut fault: Fault<Received> = Fault::new(&FaultPlan::parse(spec).unwrap().packets);
    let mut out = Vec::new();
    for i in 0..packets {
        let now = Instant(u64::from(i) * 1000);
        let bytes = i.to_be_bytes();
        fault.release(now, &mut |d| out.push(d.ib.to_vec()));
        fault.admit(now, &datagram(&bytes), &mut |d| out.push(d.ib.to_vec()));
    }
    while let Some(at) = fault.poll_timeout() {
        fault.release(at, &mut |d| out.push(d.ib.to_vec()));
    }
    assert_eq!(fault.held_bytes, 0);
    (out, fault.stats)
}

#[test]
fn the_same_seed_strikes_the_same_packets() {
    let spec = "loss=5%,reorder=5%,dup=5%,corrupt=5%,seed=7";
    assert_eq!(run(spec, 2000), run(spec, 2000));
    assert_ne!(run(spec, 2000).0, run("loss=5%,seed=8", 2000).0);
}

#[test]
fn faults_strike_as_often_as_asked() {
    let (out, stats) = run("loss=10%,dup=1%,seed=3", 100_000);
    assert!((9_500..10_500).contains(&stats.lost), "{stats:?}");
    assert!((800..1_100).contains(&stats.doubled), "{stats:?}");
    assert_eq!(out.len() as u64, 100_000 - stats.lost + stats.doubled);
}

#[test]
fn reordering_and_delay_lose_nothing() {
    for spec in ["reorder=20%,seed=1", "delay=1ms", "delay=20us,reorder=20%"] {
        let (mut out, stats) = run(spec, 5000);
        let sorted = out.is_sorted();
        assert_eq!(sorted, stats.reordered == 0, "{spec}");
        out.sort();
        let all: Vec<_> = (0..5000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        assert_eq!(out, all, "{spec}");
    }
}

#[test]
fn corruption_flips_one_bit() {
    let (out, stats) = run("corrupt=100%", 50);
    assert_eq!(stats.corrupted, 50);
    for (i, ib) in out.iter().enumerate() {
        let got = u32::from_be_bytes(ib[..].try_into().unwrap());
        assert_eq!((got ^ i as u32).count_ones(), 1);
    }
}

#[test]
fn marks_of_congestion_change_the_traffic_class_alone() {
    let mut fault: Fault<Received> = Fault::new(&FaultPlan::parse("ecn=100%,from=2,count=1").unwrap().packets);
    let mut classes = Vec::new();
    for number in 0..3u8 {
        let packet = [number; 40];
        let sent = Datagram { traffic_class: 0x60, ..datagram(&packet) };
        fault.admit(Instant(0), &sent, &mut |d| {
            assert_eq!((d.ib, d.src, d.segment), (&packet[..], sent.src, sent.segment));
            classes.push(d.traffic_class);
        });
    }
    assert_eq!((classes, fault.stats.marked), (vec![0x60, 0x63, 0x60], 1));
    assert_eq!(run("loss=5%,seed=7", 2000).0, run("loss=5%,ecn=50%,seed=7", 2000).0, "marks take no other draws");
}

#[test]
fn losses_in_bursts_are_as_many_and_come_in_runs() {
    let (out, stats) = run("loss=10%,burst=20,seed=3", 200_000);
    assert!((16_000..24_000).contains(&stats.lost), "{stats:?}");
    let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
    let runs = arrived.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
    assert!((15..25).contains(&(stats.lost / runs)), "{} losses in {runs} runs", stats.lost);
    assert_eq!(run("loss=100%,burst=5", 50).1.lost, 50);
}

#[test]
fn packets_are_struck_by_number_and_by_time() {
    let numbers = |spec| -> Vec<u32> {
        let (out, _) = run(spec, 10);
        let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
        (0..10).filter(|number| !arrived.contains(number)).collect()
    };
    assert_eq!(numbers("loss=100%,from=3,count=2"), [2, 3]);
    assert_eq!(numbers("loss=100%,from=9"), [8, 9]);
    assert_eq!(numbers("loss=100%,count=1"), [0]);
    // A packet comes each microsecond.
    assert_eq!(numbers("loss=100%,after=4us,for=3us"), [4, 5, 6]);
    assert_eq!(numbers("loss=100%,for=2us"), [0, 1]);
    assert_eq!(numbers("loss=100%,after=8us"), [8, 9]);
}

#[test]
fn kinds_of_packets_are_struck_and_counted_alone() {
    let acknowledge = 0x11;
    let mut fault: Fault<Received> =
        Fault::new(&FaultPlan::parse("loss=100%,only=ack,from=2,count=1").unwrap().packets);
    let mut arrived = Vec::new();
    for (number, opcode) in [0x04, acknowledge, 0x0c, acknowledge, acknowledge, 0x64].into_iter().enumerate() {
        fault.admit(Instant(0), &datagram(&[opcode, number as u8]), &mut |d| arrived.push(d.ib[1]));
    }
    assert_eq!(arrived, [0, 1, 2, 4, 5], "the second acknowledgement is lost");
}

#[test]
fn flows_are_struck_and_counted_alone() {
    let mut fault: Fault<Received> =
        Fault::new(&FaultPlan::parse("loss=100%,peer=10.0.0.9,from=2,count=1").unwrap().packets);
    let mut arrived = Vec::new();
    for (number, sender) in [9, 1, 9, 9, 1].into_iter().enumerate() {
        let ib = [4, number as u8];
        let from_sender = Datagram { src: IpAddr::from([10, 0, 0, sender]), ..datagram(&ib) };
        fault.admit(Instant(0), &from_sender, &mut |d| arrived.push(d.ib[1]));
    }
    assert_eq!(arrived, [0, 1, 3, 4], "the second packet of the peer is lost");
}

#[test]
fn a_line_carries_bits_at_its_rate() {
    let mut fault: Fault<Received> = Fault::new(&FaultPlan::parse("rate=8Mbit,delay=1ms").unwrap().packets);
    let mut arrivals = Vec::new();
    for _ in 0..3 {
        fault.admit(Instant(0), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
    }
    while let Some(at) = fault.poll_timeout() {
        fault.release(at, &mut |_| arrivals.push(at.0));
    }
    assert_eq!(arrivals, [2_000_000, 3_000_000, 4_000_000]);
    // An idle line is free at once.
    fault.admit(Instant(50_000_000), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
    assert_eq!(fault.poll_timeout(), Some(Instant(52_000_000)));
}

#[test]
fn several_faults_add_up_and_leave_each_other_alone() {
    let alone = run("loss=10%,seed=3", 1000).0;
    let with_others = run("dup=0%,corrupt=100%,only=ack;loss=10%,seed=3;delay=1us", 1000).0;
    assert_eq!(alone, with_others, "the draws of one do not depend on the others");
    let (out, _) = run("loss=100%,from=1,count=1;loss=100%,from=5,count=2", 10);
    let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
    assert_eq!(arrived, [1, 2, 3, 6, 7, 8, 9]);
    // Two lines, one after the other: 1 ms and 2 ms.
    let mut fault: Fault<Received> = Fault::new(&FaultPlan::parse("rate=8Mbit;rate=4Mbit").unwrap().packets);
    fault.admit(Instant(0), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
    assert_eq!(fault.poll_timeout(), Some(Instant(3_000_000)));
    fault.remove(1);
    fault.admit(Instant(50_000_000), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
    assert_eq!(fault.strikes().collect::<Vec<_>>(), [(2, 2)]);
}

#[test]
fn jitter_delays_each_packet_by_another_time() {
    let mut fault: Fault<Received> = Fault::new(&FaultPlan::parse("delay=1ms,jitter=1ms,seed=4").unwrap().packets);
    for number in 0..100u8 {
        fault.admit(Instant(0), &datagram(&[number]), &mut |_| panic!("it takes time"));
    }
    let (mut times, mut order) = (Vec::new(), Vec::new());
    while let Some(at) = fault.poll_timeout() {
        fault.release(at, &mut |d| order.push(d.ib[0]));
        times.push(at.0);
    }
    assert!(times.iter().all(|at| (1_000_000..=2_000_000).contains(at)) && times.len() > 90, "{times:?}");
    assert!(!order.is_sorted() && order.len() == 100, "packets overtake each other");
}
