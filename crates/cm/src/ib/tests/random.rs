//! Random test: two ends connect, answer, end and forget at random over a network that loses, repeats and delays. In
//! the end nothing is left, and no connection has taken another for its peer.

use super::*;

/// Longest network delay, in milliseconds.
const DELAY_MS_MAX: u64 = 3000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Game {
    seed: u64,
    dice: Dice,
    loss_percent: u64,
    now: Instant,
    ends: [Cm; 2],
    /// Messages in flight: arrival time, destination, and bytes.
    sky: Vec<(Instant, usize, MadBytes)>,
    /// Connections that each owner holds.
    known: [Vec<ConnId>; 2],
    /// Number of times that a connection was established at both ends.
    stood: usize,
}

impl Game {
    fn new(seed: u64) -> Game {
        let mut dice = Dice(seed);
        let mut ends = Net::new().ends;
        for cm in &mut ends {
            cm.listen(SERVICE, u64::MAX).unwrap();
        }
        let loss_percent = dice.roll(40);
        Game { seed, dice, loss_percent, now: Instant(1), ends, sky: Vec::new(), known: Default::default(), stood: 0 }
    }

    /// Puts sent messages into flight: not at all, once, or twice.
    fn launch(&mut self) {
        for end in 0..2 {
            while let Some((_, mad)) = self.ends[end].poll_transmit() {
                if self.dice.roll(100) < self.loss_percent {
                    continue;
                }
                for _ in 0..1 + u64::from(self.dice.roll(10) == 0) {
                    let late = if self.dice.roll(4) == 0 { self.dice.roll(DELAY_MS_MAX) } else { 1 };
                    self.sky.push((self.now + ms(late), 1 - end, mad));
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.hear();
            self.launch();
            let arrival = self.sky.iter().map(|(at, ..)| *at).min();
            let timer = self.ends.iter().filter_map(Cm::poll_timeout).min();
            let Some(next) = [arrival, timer].into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            for cm in &mut self.ends {
                cm.handle_timeout(self.now);
            }
            while let Some(place) = self.sky.iter().position(|(at, ..)| *at <= self.now) {
                let (_, to, mad) = self.sky.swap_remove(place);
                self.ends[to].handle_mad(self.now, &address(to), &mad);
            }
        }
        self.now = end;
    }

    fn hear(&mut self) {
        for end in 0..2 {
            while let Some(event) = self.ends[end].poll_event() {
                let new = matches!(event.kind, EventKind::ReqReceived(_));
                if new && !self.known[end].contains(&event.conn) {
                    self.known[end].push(event.conn);
                }
                assert!(self.known[end].contains(&event.conn), "seed {}: {event:?} about a stranger", self.seed);
                self.act(end, event.conn);
            }
        }
        self.check();
    }

    /// Checks that the peer of each established connection has that connection as its peer.
    fn check(&mut self) {
        for end in 0..2 {
            for conn in self.ends[end].conns.values().filter(|conn| conn.state == State::Established) {
                let Some(peer) = self.ends[1 - end].conns.get(&ConnId(conn.remote_comm_id)) else { continue };
                assert_eq!(peer.remote_comm_id, conn.id.0, "seed {}", self.seed);
                assert_eq!((peer.local_qpn, peer.remote_qpn), (conn.remote_qpn, conn.local_qpn), "seed {}", self.seed);
                assert_eq!((peer.rq_psn, peer.sq_psn), (conn.sq_psn, conn.rq_psn), "seed {}", self.seed);
                self.stood += usize::from(peer.state == State::Established);
            }
        }
    }

    fn ask(&mut self, end: usize) {
        let peer_to_peer = self.dice.roll(4) == 0;
        let (qpn, starting_psn) = (self.dice.roll(64) as u32, self.dice.roll(1 << 24) as u32);
        let params = ReqParams { qpn, starting_psn, peer_to_peer, max_cm_retries: 3, ..req(end) };
        let conn = self.ends[end].send_req(self.now, &params).unwrap();
        self.known[end].push(conn);
    }

    /// Lets an owner react to an event, or act at random. Refused commands are expected.
    fn act(&mut self, end: usize, conn: ConnId) {
        // A first packet comes only from a peer that has established the connection.
        let peer = self.ends[end].conns.get(&conn).map(|conn| ConnId(conn.remote_comm_id));
        let peer_stands = peer.and_then(|peer| self.ends[1 - end].state(peer)) == Some(State::Established);
        let (now, dice, cm) = (self.now, &mut self.dice, &mut self.ends[end]);
        let (qpn, starting_psn) = (0x100 + dice.roll(64) as u32, dice.roll(1 << 24) as u32);
        let _ = match dice.roll(14) {
            0 => cm.send_rej(now, conn, RejectReason::CONSUMER_DEFINED, &[], b"no"),
            1 => cm.send_mra(now, conn, 16, dice.roll(2) == 0, &[]),
            2 if peer_stands => cm.establish(now, conn),
            3 => cm.send_dreq(now, conn, &[]),
            4 => cm.send_lap(now, conn, &path(end), &[]),
            5 => cm.send_apr(now, conn, ApStatus::SUCCESS, &[], &[]),
            6 => {
                cm.destroy(now, conn);
                Ok(())
            }
            _ => match cm.state(conn) {
                Some(State::ReqRcvd | State::MraReqSent) => {
                    cm.send_rep(now, conn, &RepParams { qpn, starting_psn, ..rep(end) })
                }
                Some(State::RepRcvd | State::MraRepSent) => cm.send_rtu(now, conn, &[]),
                Some(State::DreqRcvd) => cm.send_drep(now, conn, &[]),
                _ => Ok(()),
            },
        };
    }

    /// Destroys everything, repeatedly because new requests may still arrive.
    fn end(mut self) -> usize {
        for _ in 0..10 {
            for end in 0..2 {
                for conn in std::mem::take(&mut self.known[end]) {
                    self.ends[end].destroy(self.now, conn);
                }
            }
            self.wait(ms(200_000));
        }
        let mut net = Net { ends: self.ends, ..Net::new() };
        net.assert_empty();
        self.stood
    }
}

#[test]
fn nothing_is_left_whatever_happened() {
    let mut stood = 0;
    for seed in 0..300 {
        let mut game = Game::new(seed);
        for _ in 0..60 {
            let end = game.dice.roll(2) as usize;
            let many = game.known[end].len() as u64;
            if many == 0 || game.dice.roll(3) == 0 {
                game.ask(end);
            } else {
                let chosen = game.dice.roll(many) as usize;
                let conn = game.known[end][chosen];
                game.act(end, conn);
            }
            let time = game.dice.roll(3000);
            game.wait(ms(time));
        }
        stood += game.end();
    }
    assert!(stood > 10_000, "the game is about connections that stand: {stood}");
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
