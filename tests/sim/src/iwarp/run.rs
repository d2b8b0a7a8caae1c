//! One run: negotiation, requests of both sides in any order with the bytes, perhaps a fault, and the end.

use std::collections::BTreeMap;

use weft_iwarp::{Negotiation, NegotiationEvent, Offer, StreamParams};
use weft_transport::{Memory, Piece, Qp, StreamOrder};
use weft_verbs::{Access, DeviceId, Instant, QpAttr, QpAttrMask, QpCap, QpId, QpInit, QpState, QpType};
use weft_wire::iwarp::RtrKinds;

use super::flow::Flow;
use super::host::{Host, PD, RECV_CQ, SEND_CQ};
use super::pipe::Pipe;
use super::rings::{CONNECTED_WITHIN, Rings, may_send};
use crate::Rng;

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 400_000;
/// Time of a step.
const STEP_NS: u64 = 1000;

/// Situations that a run met.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How often each was met.
    pub met: BTreeMap<String, u64>,
}

impl Outcome {
    /// Counts a situation.
    pub fn count(&mut self, what: &str) {
        *self.met.entry(what.to_owned()).or_default() += 1;
    }

    /// Adds another run's.
    pub fn merge(&mut self, other: &Outcome) {
        for (what, count) in &other.met {
            *self.met.entry(what.clone()).or_default() += count;
        }
    }
}

/// Trouble of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    None,
    Reset,
    Damage,
    Misbehaviour,
    Close,
}

/// Both sides.
struct Run {
    rng: Rng,
    now: Instant,
    params: [StreamParams; 2],
    qps: [Qp; 2],
    hosts: [Host; 2],
    /// From each side to the other.
    pipes: [Pipe; 2],
    flows: Vec<Flow>,
    /// Whether each side was told of its peer's end.
    ended: [bool; 2],
    /// The rings between the two, if they are processes of one host.
    rings: Option<Rings>,
    met: Outcome,
}

/// Runs a seed of two processes of one host, whose data takes the rings between them.
pub fn run_within_host(seed: u64) -> Result<Outcome, String> {
    let mut rng = Rng::new(seed);
    let trouble = draw_trouble(&mut rng);
    let params = StreamParams {
        ird: rng.pick(&[4, 16]),
        ord: rng.pick(&[1, 2, 4]),
        extensions: true,
        ..StreamParams::default()
    };
    let (rings, hosts) = Rings::new(&mut rng);
    let mut run = Run::new(rng, [params; 2], Default::default(), hosts, Some(rings));
    run.met.count(&format!("{trouble:?}"));
    run.exchange(trouble)?;
    run.finish(trouble)?;
    for what in run.rings.as_ref().map(Rings::met).unwrap_or_default() {
        run.met.count(what);
    }
    Ok(run.met)
}

fn draw_trouble(rng: &mut Rng) -> Trouble {
    rng.pick(&[
        Trouble::None,
        Trouble::None,
        Trouble::None,
        Trouble::Reset,
        Trouble::Damage,
        Trouble::Misbehaviour,
        Trouble::Close,
    ])
}

/// Runs a seed.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let mut rng = Rng::new(seed);
    let trouble = draw_trouble(&mut rng);
    let mut offers = [(); 2].map(|()| offer(&mut rng));
    offers[0].crc |= trouble == Trouble::Damage;
    let mut pipes = [Pipe::default(), Pipe::default()];
    let params = negotiate(&mut rng, offers, &mut pipes)?;
    let hosts = [Host::new(0x1000_0000), Host::new(0x9000_0000)];
    let mut run = Run::new(rng, params, pipes, hosts, None);
    run.met.count(&format!("{trouble:?}"));
    for params in &params {
        for (name, set) in [("crc", params.crc), ("markers", params.markers_in), ("rtr", params.rtr.is_some())] {
            if set {
                run.met.count(name);
            }
        }
    }
    run.exchange(trouble)?;
    run.finish(trouble)?;
    Ok(run.met)
}

fn offer(rng: &mut Rng) -> Offer {
    let rtr = [RtrKinds::empty(), RtrKinds::empty(), RtrKinds::FPDU, RtrKinds::READ, RtrKinds::WRITE | RtrKinds::READ];
    Offer {
        revision: rng.pick(&[1, 2, 2, 2]),
        crc: rng.chance(1, 3),
        markers: rng.chance(1, 3),
        ird: rng.pick(&[4, 16]),
        ord: rng.pick(&[1, 2, 4]),
        rtr: rng.pick(&rtr),
        extensions: rng.chance(2, 3),
    }
}

/// Negotiates over the pipes, in pieces. The responder's first bytes after its reply stay in the pipe.
fn negotiate(rng: &mut Rng, offers: [Offer; 2], pipes: &mut [Pipe; 2]) -> Result<[StreamParams; 2], String> {
    let now = Instant(0);
    let private: Vec<u8> = (0..rng.below(508)).map(|i| i as u8).collect();
    let mut initiator = Negotiation::initiator(now, offers[0], &private).map_err(|e| e.to_string())?;
    let mut responder = Negotiation::responder(now, offers[1]);
    let mut agreed = [None; 2];
    for _ in 0..10_000 {
        for side in 0..2 {
            let own = if side == 0 { &mut initiator } else { &mut responder };
            let bytes = own.transmit().to_vec();
            let len = rng.below(bytes.len() as u64 + 1) as usize;
            own.sent(len);
            pipes[side].put(&bytes[..len]);
            let incoming = pipes[1 - side].take(rng);
            if own.handle_bytes(now, &incoming) != incoming.len() {
                return Err("the negotiation left bytes of itself".into());
            }
            match own.poll_event() {
                Some(NegotiationEvent::Requested { .. }) if own.private_data() == private => {
                    own.accept(now, offers[1].ird, offers[1].ord, b"welcome").map_err(|e| e.to_string())?;
                    // Opened is next.
                    if let Some(NegotiationEvent::Opened(params)) = own.poll_event() {
                        agreed[side] = Some(params);
                    }
                }
                Some(NegotiationEvent::Opened(params)) => agreed[side] = Some(params),
                Some(other) => return Err(format!("{other:?}")),
                None => {}
            }
        }
        if let ([Some(a), Some(b)], true) = (agreed, initiator.transmit().is_empty() && responder.transmit().is_empty())
        {
            return Ok([a, b]);
        }
    }
    Err("the negotiation does not end".into())
}

pub(super) fn queue_pair(side: usize, params: &StreamParams, host: &mut Host) -> Qp {
    let mut qp = unconnected(side, host);
    assert!(qp.attach_stream(Instant(0), params));
    qp
}

fn unconnected(side: usize, host: &mut Host) -> Qp {
    let cap = QpCap { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 256 };
    let init = QpInit {
        qp_type: QpType::Rc,
        pd: Some(PD),
        send_cq: Some(SEND_CQ),
        recv_cq: Some(RECV_CQ),
        srq: None,
        xrcd: None,
        cap,
        sq_sig_all: false,
        cookie: 0,
    };
    let id = QpId { index: side as u32, generation: 0 };
    let mut qp = Qp::new_iwarp(id, 0x10 + side as u32, &init, DeviceId(0));
    let attr = QpAttr { qp_state: QpState::Init, qp_access: Access::all(), ..QpAttr::default() };
    qp.modify(Instant(0), &attr, QpAttrMask::STATE | QpAttrMask::ACCESS_FLAGS, host);
    qp
}

/// Returns both sides of a pair, the given one first.
fn both<T>(pair: &mut [T; 2], side: usize) -> [&mut T; 2] {
    let [a, b] = pair;
    if side == 0 { [a, b] } else { [b, a] }
}

impl Run {
    fn new(
        mut rng: Rng,
        params: [StreamParams; 2],
        pipes: [Pipe; 2],
        mut hosts: [Host; 2],
        rings: Option<Rings>,
    ) -> Run {
        let qps = [0, 1].map(|side| match rings {
            Some(_) => unconnected(side, &mut hosts[side]),
            None => queue_pair(side, &params[side], &mut hosts[side]),
        });
        let flows = (0..2)
            .map(|side| {
                let [near, far] = both(&mut hosts, side);
                Flow::new(&mut rng, near, far, 0x1000 * (side as u32 + 1), params[side].extensions)
            })
            .collect();
        let (ended, met) = ([false; 2], Outcome::default());
        Run { rng, now: Instant(1), params, qps, hosts, pipes, flows, ended, rings, met }
    }

    /// Lets both sides work until their requests are done, or the trouble has had its effect.
    fn exchange(&mut self, trouble: Trouble) -> Result<(), String> {
        let due = self.rng.below(3000) + if self.rings.is_some() { CONNECTED_WITHIN } else { 0 };
        for step in 0..STEPS_MAX {
            // The wait for a receive is long.
            let pace = if trouble == Trouble::Misbehaviour && step > due { 10 } else { 1 };
            self.now = Instant(self.now.0 + pace * STEP_NS);
            for (qp, host) in self.qps.iter_mut().zip(&mut self.hosts) {
                if qp.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
                    qp.handle_timeout(self.now, host);
                }
            }
            self.connect(step);
            let side = self.rng.below(2) as usize;
            if trouble != Trouble::None && step == due {
                self.strike(trouble, side);
            }
            if self.rng.chance(1, 20) {
                self.post_recvs(side);
            }
            match self.rng.below(5) {
                0 if may_send(&self.qps[side], &self.qps[1 - side]) => self.post(side),
                1 | 2 => self.transmit(side),
                _ => self.deliver(side),
            }
            self.complete()?;
            let alive = self.qps.iter().all(|qp| qp.state() == QpState::Rts);
            // A WRITE is done when TCP has it: its bytes may still be on the way.
            let quiet = self.is_quiet(0) && self.is_quiet(1);
            let done = if alive { quiet && self.flows.iter().all(Flow::is_done) } else { self.is_over() };
            if done && (trouble == Trouble::None || step > due) {
                return Ok(());
            }
        }
        Err(format!("stuck: {:?}", self.qps.each_ref().map(|qp| (qp.state(), qp.stream_phase(), qp.wants_stream()))))
    }

    /// Returns whether both sides have ended.
    fn is_over(&self) -> bool {
        self.qps.iter().all(|qp| qp.stream_order() == StreamOrder::Close)
    }

    fn strike(&mut self, trouble: Trouble, side: usize) {
        let now = self.now;
        match trouble {
            Trouble::None => {}
            Trouble::Reset => {
                for side in 0..2 {
                    self.qps[side].stream_closed(now, true, &mut self.hosts[side]);
                }
            }
            // Bytes come where none belong.
            Trouble::Damage if self.rings.is_some() => {
                self.qps[side].handle_stream(now, 0, &[0; 20], &mut self.hosts[side]);
            }
            Trouble::Damage => {
                self.pipes[side].damage_at = Some(self.pipes[side].total + self.rng.below(2000));
                // Something must be on the way.
                self.flows[side].left += 10;
            }
            Trouble::Misbehaviour => {
                if self.qps[side].state() == QpState::Rts {
                    self.flows[side].misbehave(&mut self.rng, now, (&mut self.qps[side], &mut self.hosts[side]));
                    self.flows[1 - side].left = 0;
                }
            }
            Trouble::Close => self.qps[side].close_stream(now, &mut self.hosts[side]),
        }
    }

    fn post(&mut self, side: usize) {
        let ([near, far], [near_host, far_host]) = (both(&mut self.qps, side), both(&mut self.hosts, side));
        let ends = [(near, near_host), (far, far_host)];
        self.flows[side].post(&mut self.rng, self.now, ends, &mut self.met);
    }

    fn post_recvs(&mut self, side: usize) {
        let (far, host) = (&mut self.qps[1 - side], &mut self.hosts[1 - side]);
        if far.awaits_receive() {
            self.met.count("wait for a receive");
        }
        self.flows[side].post_recvs(self.now, (far, host));
    }

    /// Writes segments, of which TCP takes a part.
    fn transmit(&mut self, side: usize) {
        let (qp, host) = (&mut self.qps[side], &mut self.hosts[side]);
        if let Some(rings) = &mut self.rings {
            rings.transmit(self.now, qp, host);
        }
        if qp.wants_stream() {
            let room = self.rng.pick(&[1, 100, 5000, 100_000]);
            qp.set_stream_segment(self.rng.pick(&[536, 1448, 1460, 8948, 65_483]));
            qp.poll_stream(self.now, room, host);
            let batch = qp.stream_batch().expect("a stream");
            let mut bytes = Vec::with_capacity(batch.len());
            for piece in batch.pieces() {
                match *piece {
                    Piece::Host { addr, len } => bytes.extend(host.memory.bytes(addr, len as usize)),
                    Piece::Arena { .. } => bytes.extend_from_slice(batch.arena(*piece)),
                }
            }
            if self.rng.chance(1, 3) {
                bytes.truncate(self.rng.below(bytes.len() as u64 + 1) as usize);
                self.met.count("partial write");
            }
            qp.stream_sent(self.now, bytes.len(), host);
            self.pipes[side].put(&bytes);
        }
        self.pipes[side].is_shut |= !matches!(qp.stream_order(), StreamOrder::Continue | StreamOrder::Pause);
    }

    /// Delivers the next bytes, directly where the queue pair says so, or the end of the stream.
    fn deliver(&mut self, side: usize) {
        let pipe = &mut self.pipes[1 - side];
        let (qp, host) = (&mut self.qps[side], &mut self.hosts[side]);
        if let Some(rings) = &mut self.rings {
            // All frames before the end of the stream come before it.
            rings.take_frames(self.now, side, qp, host, pipe.is_shut);
        }
        if qp.stream_order() == StreamOrder::Pause {
            return;
        }
        if pipe.is_empty() {
            if pipe.is_shut && !std::mem::replace(&mut self.ended[side], true) {
                qp.stream_closed(self.now, false, host);
            }
            return;
        }
        let bytes = pipe.take(&mut self.rng);
        let (mut rest, mut direct) = (&bytes[..], 0);
        if self.rng.chance(2, 3) {
            for place in qp.stream_places(host).ranges() {
                let (now, later) = rest.split_at(rest.len().min(place.len as usize));
                host.memory.write(place.addr, now);
                (direct, rest) = (direct + now.len() as u32, later);
            }
        }
        if direct > 0 {
            self.met.count("direct placement");
        }
        qp.handle_stream(self.now, direct, rest, host);
    }

    /// Checks new completions.
    fn complete(&mut self) -> Result<(), String> {
        for side in 0..2 {
            let [near, far] = both(&mut self.hosts, side);
            for wc in std::mem::take(&mut near.sends) {
                self.flows[side].on_send(&wc, near)?;
            }
            for wc in std::mem::take(&mut far.recvs) {
                self.flows[side].on_recv(&wc, far)?;
            }
            // A side that ends discards what comes.
            let alive = self.qps.iter().all(|qp| qp.state() == QpState::Rts);
            let drained = alive && self.is_quiet(0) && self.is_quiet(1);
            self.flows[side].settle(drained, &self.hosts[side])?;
        }
        Ok(())
    }

    /// Returns whether nothing is on the way to a side, and it waits for nothing: a receive, or its turn to begin.
    fn is_quiet(&self, side: usize) -> bool {
        let has_all = self.pipes[1 - side].is_empty() && self.qps[side].poll_timeout().is_none();
        let from = &self.qps[1 - side];
        has_all && !from.wants_stream() && self.rings.as_ref().is_none_or(|rings| rings.is_quiet(self.now, side, from))
    }

    /// Connects the sides whose time has come, if they are processes of one host.
    fn connect(&mut self, step: u64) {
        let Some(rings) = &mut self.rings else { return };
        for side in 0..2 {
            let end = (&mut self.qps[side], &mut self.hosts[side]);
            rings.connect((self.now, step), side, &self.params[side], end);
        }
    }

    /// Compares memory, and ends both sides: every request and receive completes exactly once.
    fn finish(&mut self, trouble: Trouble) -> Result<(), String> {
        let alive = self.qps.iter().all(|qp| qp.state() == QpState::Rts);
        let expected = match trouble {
            Trouble::None => true,
            Trouble::Damage => alive && self.rings.is_none(),
            Trouble::Reset | Trouble::Close => false,
            Trouble::Misbehaviour => !self.flows.iter().any(|flow| flow.misbehaved),
        };
        if alive != expected {
            return Err(format!("{trouble:?}: {:?}", self.qps.each_ref().map(Qp::state)));
        }
        for side in 0..2 {
            if alive {
                let differs = |error| format!("{trouble:?}, side {side}: {error}");
                self.flows[side].check_memory(&self.hosts[1 - side]).map_err(differs)?;
            }
            if self.qps[side].stream_terminate().is_some() {
                self.met.count("TERMINATE");
            }
            self.qps[side].close_stream(self.now, &mut self.hosts[side]);
        }
        self.complete()?;
        for (side, flow) in self.flows.iter_mut().enumerate() {
            flow.settle(true, &self.hosts[side]).ok();
            if alive && !flow.is_idle() {
                return Err("a request or receive did not complete".into());
            }
        }
        Ok(())
    }
}
