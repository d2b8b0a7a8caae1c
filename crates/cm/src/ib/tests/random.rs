//! Chance: two ends that connect, answer, end and forget at random over a network that loses. Whatever happens, nothing
//! is left in the end, and no end believes what the other never said.

use super::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What an owner does about an event, or on a whim.
fn act(net: &mut Net, end: usize, conn: ConnId, dice: &mut Dice) {
    let now = net.now;
    let qpn = 0x100 + dice.roll(64) as u32;
    let cm = &mut net.ends[end];
    // Refusals are part of the game.
    let _ = match dice.roll(12) {
        0 => cm.send_rej(now, conn, RejectReason::CONSUMER_DEFINED, &[], b"no"),
        1 => cm.send_mra(now, conn, 16, dice.roll(2) == 0, &[]),
        2 => cm.establish(now, conn),
        3 => cm.send_dreq(now, conn, &[]),
        4 => cm.send_lap(now, conn, &path(end), &[]),
        5 => cm.send_apr(now, conn, ApStatus::SUCCESS, &[], &[]),
        6 => {
            cm.destroy(now, conn);
            Ok(())
        }
        _ => match cm.state(conn) {
            Some(State::ReqRcvd | State::MraReqSent) => cm.send_rep(now, conn, &RepParams { qpn, ..rep(end) }),
            Some(State::RepRcvd | State::MraRepSent) => cm.send_rtu(now, conn, &[]),
            Some(State::DreqRcvd) => cm.send_drep(now, conn, &[]),
            _ => Ok(()),
        },
    };
}

fn run(seed: u64) {
    let mut dice = Dice(seed);
    let mut lossy = Dice(!seed);
    let loss = dice.roll(40);
    let mut net = Net::losing(move |_, _| lossy.roll(100) < loss);
    let mut known: [Vec<ConnId>; 2] = Default::default();
    for end in 0..2 {
        net.ends[end].listen(SERVICE, u64::MAX).unwrap();
    }
    for _ in 0..60 {
        let end = dice.roll(2) as usize;
        if dice.roll(3) == 0 {
            let peer_to_peer = dice.roll(4) == 0;
            let params = ReqParams { qpn: dice.roll(64) as u32, peer_to_peer, max_cm_retries: 3, ..req(end) };
            known[end].push(net.ends[end].send_req(net.now, &params).unwrap());
        } else if !known[end].is_empty() {
            let conn = known[end][dice.roll(known[end].len() as u64) as usize];
            act(&mut net, end, conn, &mut dice);
        }
        net.wait(ms(dice.roll(3000)));
        for end in 0..2 {
            while let Some(event) = net.events[end].pop_front() {
                if matches!(event.kind, EventKind::ReqReceived(_)) && !known[end].contains(&event.conn) {
                    known[end].push(event.conn);
                }
                assert!(known[end].contains(&event.conn), "seed {seed}: {event:?} about a stranger");
                act(&mut net, end, event.conn, &mut dice);
            }
        }
    }
    for (end, known) in known.iter().enumerate() {
        for conn in known {
            net.ends[end].destroy(net.now, *conn);
        }
    }
    // Requests that were still under way may have come since.
    for _ in 0..3 {
        net.wait(ms(200_000));
        for end in 0..2 {
            while let Some(event) = net.events[end].pop_front() {
                net.ends[end].destroy(net.now, event.conn);
            }
        }
    }
    net.assert_empty();
}

#[test]
fn nothing_is_left_whatever_happened() {
    for seed in 0..300 {
        run(seed);
    }
}

#[test]
fn ten_thousand_connections_stand_at_once_and_end() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let mut pairs = Vec::new();
    for number in 0..10_000 {
        let active = net.ends[0].send_req(net.now, &ReqParams { qpn: number + 2, ..req(0) }).unwrap();
        let passive = net.event(1).conn;
        net.ends[1].send_rep(net.now, passive, &RepParams { qpn: number + 2, ..rep(1) }).unwrap();
        net.event(0);
        net.ends[0].send_rtu(net.now, active, &[]).unwrap();
        net.event(1);
        pairs.push((active, passive));
    }
    assert_eq!((net.ends[0].connections(), net.ends[1].connections()), (10_000, 10_000));
    assert_eq!(net.ends[0].poll_timeout(), None);
    for (active, passive) in &pairs {
        net.ends[0].destroy(net.now, *active);
        assert_eq!(net.event(1).conn, *passive);
        net.ends[1].destroy(net.now, *passive);
    }
    net.wait(ms(100_000));
    net.assert_empty();
}
