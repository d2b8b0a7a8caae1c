//! Runs a plan to its end and compares the results.

use std::net::IpAddr;

use weft_verbs::{
    AsyncEvent, CqInit, Duration, Event, QpAttr, QpAttrMask as Mask, QpState, QpType, SrqAttr, SrqInit, Wc, WcFlags,
    WcOpcode, WcStatus, XrcdId,
};

use super::flow::{Flow, Message};
use super::plan::{PairPlan, Plan};
use super::receiver::{Queue, RECV_TAG, Receiver};
use super::tally::Tally;
use crate::end::{self, End, Parts};
use crate::rng::{Rng, mix};
use crate::strict::Strict;
use crate::world::{DEVICE, Path, Step, World};

/// Bytes before a datagram in its receive.
const GRH_LEN: usize = 40;
/// Maximum number of steps of a run.
const STEPS_MAX: u64 = 2_000_000;
/// Maximum simulated time of a run.
const TIME_MAX: Duration = Duration::from_secs(300);

struct Run {
    world: World,
    flows: Vec<Flow>,
    receivers: Vec<Receiver>,
    shared: Vec<Parts>,
    ends: Vec<End>,
    xrcds: Vec<(usize, XrcdId)>,
    shuffles: bool,
    disturbances: u32,
    tally: Tally,
}

/// Number of the wake-up for the next disturbance; the others are receivers'.
const DISTURB: u64 = u64::MAX - 1;

/// Runs a seed on a path. Returns the counts of what it met, or a description of the failure.
pub fn run(seed: u64, path: Path) -> Result<Tally, String> {
    let mut rng = Rng::new(mix(seed));
    let plan = Plan::new(&mut rng, path);
    let mut run = Run::new(&mut rng, &plan)?;
    let driven = run.drive();
    driven.map(|()| std::mem::take(&mut run.tally)).map_err(|error| {
        let flows: Vec<String> = run.flows.iter().map(Flow::describe).collect();
        format!("{error}\n  at {:?}\n  {}\n  {plan:#?}\n  {:?}", run.world.now, flows.join("\n  "), run.world.net.stats)
    })
}

impl Run {
    fn new(rng: &mut Rng, plan: &Plan) -> Result<Run, String> {
        let mut world = World::with(rng.bits(), plan.hosts, plan.v6, plan.faults, plan.ways);
        let mut shared: Vec<Parts> = (0..plan.hosts).map(|host| end::parts(&mut world, host)).collect();
        let capacity = plan.pairs.iter().map(|pair| pair.len_max).max().unwrap_or(0) + GRH_LEN as u32;
        let mut run = Run {
            world,
            flows: vec![],
            receivers: vec![],
            shared: vec![],
            ends: vec![],
            xrcds: vec![],
            disturbances: plan.disturbances,
            tally: Tally::default(),
            shuffles: plan.faults.shuffles() || !plan.faults.jitter.is_zero(),
        };
        for (host, parts) in shared.iter_mut().enumerate() {
            let wanted = plan.pairs.iter().any(|p| p.srq && p.options.kind == QpType::Rc && p.hosts.contains(&host));
            if wanted {
                let slow = plan.pairs.iter().any(|p| p.slow);
                parts.srq = Some(run.add_srq(host, parts, None, capacity, slow)?);
            }
        }
        for pair in &plan.pairs {
            run.add_pair(pair, &shared)?;
        }
        run.shared = shared;
        Ok(run)
    }

    fn add_srq(
        &mut self,
        host: usize,
        parts: &Parts,
        xrcd: Option<XrcdId>,
        capacity: u32,
        slow: bool,
    ) -> Result<weft_verbs::SrqId, String> {
        let depth = self.world.rng.range(1, 24) as u32;
        let init = SrqInit {
            pd: parts.pd,
            attr: SrqAttr { max_wr: depth, max_sge: 3, srq_limit: 0 },
            xrc: xrcd.map(|xrcd| (xrcd, parts.cq)),
            cookie: 0,
        };
        let srq = self.world.hosts[host].hca.create_srq(DEVICE, &init).map_err(|e| e.to_string())?;
        let number = self.receivers.len();
        let queue = Queue::Shared(srq);
        let pd = parts.pd;
        let receiver = Receiver::new(&mut self.world, number, host, queue, pd, depth, 3, capacity, slow, true);
        self.receivers.push(receiver);
        Ok(srq)
    }

    fn add_pair(&mut self, pair: &PairPlan, shared: &[Parts]) -> Result<(), String> {
        let kind = pair.options.kind;
        let [a, b] = pair.hosts;
        let mut parts = [shared[a], shared[b]];
        if !pair.srq {
            parts.iter_mut().for_each(|p| p.srq = None);
        }
        let mut srqn = None;
        if kind == QpType::XrcSend {
            let hca = &mut self.world.hosts[b].hca;
            let xrcd = hca.open_xrcd(DEVICE, None).map_err(|e| e.to_string())?;
            self.xrcds.push((b, xrcd));
            let srq = self.add_srq(b, &shared[b], Some(xrcd), pair.len_max, pair.slow)?;
            srqn = Some(self.world.hosts[b].hca.srq_number(srq).map_err(|e| e.to_string())?);
            parts[0].srq = None;
            parts[1] = Parts { srq: None, xrcd: Some(xrcd), ..parts[1] };
        }
        let kinds = if kind == QpType::XrcSend { [kind, QpType::XrcRecv] } else { [kind, kind] };
        let world = &mut self.world;
        let ends = [
            end::create(world, a, &parts[0], kinds[0], &pair.options),
            end::create(world, b, &parts[1], kinds[1], &pair.options),
        ];
        end::connect(world, [&ends[0], &ends[1]], kinds, &pair.options);
        for side in 0..2 {
            if kinds[side].has_recv_queue() && ends[side].srq.is_none() {
                let number = self.receivers.len();
                let capacity = pair.len_max + GRH_LEN as u32;
                let cap = &pair.options.cap;
                self.receivers.push(Receiver::new(
                    &mut self.world,
                    number,
                    ends[side].host,
                    Queue::Own(ends[side].qp),
                    ends[side].pd,
                    cap.max_recv_wr,
                    cap.max_recv_sge,
                    capacity,
                    pair.slow,
                    kind == QpType::Rc,
                ));
            }
            if pair.ops[side] > 0 {
                let number = self.flows.len();
                let (from, to) = (ends[side], ends[1 - side]);
                let flow = Flow::new(&mut self.world, number, pair, from, to, pair.ops[side], srqn);
                self.flows.push(flow);
            }
        }
        if pair.strict {
            for side in 0..2 {
                let (psn, mtu) = (pair.options.psn[1 - side], pair.options.mtu.bytes());
                let strict = Strict::new(ends[1 - side].qpn, psn, mtu);
                self.world.strict.insert(ends[side].qpn, strict);
            }
        }
        self.ends.extend(ends);
        Ok(())
    }

    fn drive(&mut self) -> Result<(), String> {
        for index in 0..self.receivers.len() {
            if self.receivers[index].slow {
                self.wake_later(index);
            } else {
                self.receivers[index].post(&mut self.world, usize::MAX)?;
            }
        }
        if self.disturbances > 0 {
            self.disturb_later();
        }
        let end = self.world.now + TIME_MAX;
        let mut steps = 0;
        let mut stood: Vec<(usize, usize)> = Vec::new();
        loop {
            for index in 0..self.flows.len() {
                self.flows[index].post(&mut self.world)?;
            }
            let step = self.world.step();
            if let Step::Wake(number) = step {
                match number {
                    DISTURB => self.disturb()?,
                    receiver => self.on_wake(receiver as usize)?,
                }
            }
            self.take_completions()?;
            steps += 1;
            let done = self.flows.iter().all(Flow::is_done);
            // Work that completed with the last packet makes room for more.
            let standing: Vec<_> = self.flows.iter().map(Flow::standing).collect();
            let moved = stood != standing;
            stood = standing;
            match step {
                Step::Idle if done => break,
                Step::Idle if moved => {}
                Step::Idle => return Err("nothing happens any more, but the work is not done".to_owned()),
                _ if steps > STEPS_MAX => return Err(format!("not done after {STEPS_MAX} steps")),
                _ if self.world.now > end => return Err("not done after the time allowed".to_owned()),
                _ => {}
            }
        }
        self.check_end()
    }

    fn disturb_later(&mut self) {
        let after = Duration::from_micros(self.world.rng.range(1, 300));
        let at = self.world.now + after;
        self.world.net.wake(at, DISTURB);
    }

    /// Makes a change in mid-run that must not affect the results.
    fn disturb(&mut self) -> Result<(), String> {
        let Run { world, ends, shared, .. } = self;
        let end = ends[world.rng.below(ends.len() as u64) as usize];
        let (attr, init) = world.hosts[end.host].hca.query_qp(end.qp).map_err(|e| e.to_string())?;
        let (state, now) = (attr.qp_state, world.now);
        let attr = QpAttr { qp_state: state, ..attr };
        let hca = &mut world.hosts[end.host].hca;
        let done = match world.rng.below(5) {
            0 | 1 if state == QpState::Rts => {
                let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..attr };
                hca.modify_qp(now, end.qp, &attr, Mask::STATE | Mask::EN_SQD_ASYNC_NOTIFY)
            }
            0..=2 if state == QpState::Sqd => {
                let attr = QpAttr { qp_state: QpState::Rts, ..attr };
                hca.modify_qp(now, end.qp, &attr, Mask::STATE)
            }
            3 if init.qp_type == QpType::Rc => {
                let mask = Mask::MIN_RNR_TIMER | Mask::ACCESS_FLAGS | Mask::STATE;
                let attr = QpAttr { min_rnr_timer: 1 + (now.0 % 12) as u8, ..attr };
                if state == QpState::Rts { hca.modify_qp(now, end.qp, &attr, mask) } else { Ok(()) }
            }
            _ => {
                let cqe = 4096 + (now.0 % 4096) as u32;
                hca.resize_cq(shared[end.host].cq, cqe).map(drop)
            }
        };
        done.map_err(|error| format!("a disturbance was refused: {error}"))?;
        self.disturbances -= 1;
        if self.disturbances > 0 {
            self.disturb_later();
            return Ok(());
        }
        // After the last disturbance, drained queue pairs return to RTS.
        for end in self.ends.clone() {
            let hca = &mut self.world.hosts[end.host].hca;
            let (attr, _) = hca.query_qp(end.qp).map_err(|e| e.to_string())?;
            if attr.qp_state == QpState::Sqd {
                let attr = QpAttr { qp_state: QpState::Rts, ..attr };
                hca.modify_qp(now, end.qp, &attr, Mask::STATE).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    fn wake_later(&mut self, receiver: usize) {
        let after = Duration::from_micros(self.world.rng.range(5, 400));
        let at = self.world.now + after;
        self.world.net.wake(at, receiver as u64);
    }

    fn on_wake(&mut self, receiver: usize) -> Result<(), String> {
        let count = self.world.rng.range(1, 4) as usize;
        self.receivers[receiver].post(&mut self.world, count)?;
        if !self.flows.iter().all(Flow::is_done) {
            self.wake_later(receiver);
        }
        Ok(())
    }

    fn take_completions(&mut self) -> Result<(), String> {
        for host in 0..self.shared.len() {
            if self.world.hosts[host].hca.cq_len(self.shared[host].cq) == 0 {
                continue;
            }
            for wc in self.world.hosts[host].poll(self.shared[host].cq) {
                if wc.wr_id & RECV_TAG != 0 {
                    self.on_received(host, &wc)?;
                } else {
                    let flow = (wc.wr_id >> 32) as usize;
                    let flow = self.flows.get_mut(flow).ok_or_else(|| format!("a strange completion: {wc:?}"))?;
                    flow.on_sent(&mut self.world, &wc)?;
                    self.tally.add(&format!("{:?}", wc.opcode), 1);
                }
            }
        }
        Ok(())
    }

    fn on_received(&mut self, host: usize, wc: &Wc) -> Result<(), String> {
        if wc.status != WcStatus::Success {
            return Err(format!("a receive failed: {wc:?}"));
        }
        let number = (wc.wr_id >> 32 & 0x7fff_ffff) as usize;
        let slot = (wc.wr_id & 0xffff_ffff) as usize;
        let flow = self
            .flows
            .iter_mut()
            .find(|f| f.to.host == host && f.to.qpn == wc.qp_num && (f.kind != QpType::Ud || f.from.qpn == wc.src_qp))
            .ok_or_else(|| format!("a message from nobody: {wc:?}"))?;
        let receiver = &mut self.receivers[number];
        let skip = if flow.kind == QpType::Ud { GRH_LEN } else { 0 };
        let message: Message = if flow.kind.is_reliable() {
            flow.expected.pop_front().ok_or_else(|| format!("one message too many: {wc:?}"))?
        } else {
            let stored = if wc.opcode == WcOpcode::Recv { wc.byte_len as usize - skip } else { 0 };
            let held = receiver.peek(&mut self.world, slot, skip, stored)?;
            let matches = |m: &Message| {
                m.opcode == wc.opcode
                    && m.byte_len as usize + skip == wc.byte_len as usize
                    && m.data == held
                    && m.imm == imm_of(wc)
            };
            // In order and once, unless the network itself repeats or reorders; or where a datagram whose ring is full
            // leaves as a packet.
            let any_order = self.shuffles || flow.kind == QpType::Ud && self.world.machine.is_some();
            let place =
                if any_order { flow.messages.iter().position(matches) } else { flow.expected.iter().position(matches) };
            let place = place.ok_or_else(|| format!("a message that was not sent (or not now): {wc:?}"))?;
            if any_order {
                flow.messages[place].clone()
            } else {
                flow.expected.drain(..=place).next_back().expect("the one found")
            }
        };
        flow.arrived += 1;
        self.tally.add(&format!("{:?}", wc.opcode), 1);
        let grh = receiver.take(&mut self.world, slot, skip, &message.data)?;
        let want = (message.opcode, message.byte_len + skip as u32, message.imm);
        if (wc.opcode, wc.byte_len, imm_of(wc)) != want {
            return Err(format!("a message came as {wc:?}, but {want:?} was sent"));
        }
        if wc.flags.contains(WcFlags::GRH) != (flow.kind == QpType::Ud) {
            return Err(format!("the GRH flag is wrong: {wc:?}"));
        }
        if flow.kind == QpType::Ud {
            let ends = [self.world.hosts[flow.from.host].ip, self.world.hosts[host].ip];
            check_grh(&grh, ends, wc.byte_len as usize - GRH_LEN)?;
        }
        if !receiver.slow {
            receiver.post(&mut self.world, usize::MAX)?;
        }
        Ok(())
    }

    /// Checks memory, events and states at the end, then destroys everything.
    fn check_end(&mut self) -> Result<(), String> {
        for flow in &self.flows {
            flow.check_memory(&mut self.world)?;
        }
        for receiver in &self.receivers {
            receiver.check_memory(&mut self.world)?;
        }
        for host in &self.world.hosts {
            let strange = |e: &&Event| matches!(e, Event::Async { event, .. } if *event != AsyncEvent::SqDrained);
            if let Some(event) = host.events.iter().find(strange) {
                return Err(format!("an event: {event:?}"));
            }
        }
        for end in &self.ends {
            if end.state(&self.world) != QpState::Rts {
                return Err(format!("a queue pair ended in {:?}", end.state(&self.world)));
            }
        }
        self.tally.merge(&Tally::of(&self.world));
        self.check_machine()?;
        self.take_down().map_err(|error| format!("taking down: {error}"))
    }

    /// Checks that on one machine only datagrams travel as packets, and that no process fetches unmapped memory.
    fn check_machine(&self) -> Result<(), String> {
        let Some(machine) = &self.world.machine else { return Ok(()) };
        let connected = self.flows.iter().all(|flow| flow.kind != QpType::Ud);
        if self.world.net.stats.sent > 0 && connected {
            return Err(format!("{} packets were sent on one machine", self.world.net.stats.sent));
        }
        match machine.borrow().stats.fetch_astray {
            0 => Ok(()),
            astray => Err(format!("{astray} fetches of memory that is not there")),
        }
    }

    fn take_down(&mut self) -> Result<(), weft_verbs::VerbsError> {
        for end in &self.ends {
            self.world.hosts[end.host].hca.destroy_qp(end.qp)?;
        }
        for receiver in &self.receivers {
            if let Queue::Shared(srq) = receiver.queue {
                self.world.hosts[receiver.host].hca.destroy_srq(srq)?;
            }
        }
        for (host, xrcd) in &self.xrcds {
            self.world.hosts[*host].hca.close_xrcd(*xrcd)?;
        }
        for (host, parts) in self.shared.iter().enumerate() {
            self.world.hosts[host].hca.destroy_cq(parts.cq)?;
        }
        if let Some(machine) = &self.world.machine {
            let left = (0..self.shared.len()).find(|host| machine.borrow().has_qps(*host));
            assert_eq!(left, None, "a process leaves queue pairs published");
        }
        // The adapter must be as good as new for another run.
        for host in &mut self.world.hosts {
            let init = CqInit { cqe: 1, cookie: 0, ignore_overrun: false };
            let cq = host.hca.create_cq(DEVICE, &init)?;
            host.hca.destroy_cq(cq)?;
        }
        Ok(())
    }
}

fn imm_of(wc: &Wc) -> Option<u32> {
    wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm_data)
}

/// Checks the 40 bytes before a datagram: a GRH, or zeros and an IPv4 header in the last 20 (IBA A17.4.5.1).
fn check_grh(grh: &[u8], [src, dst]: [IpAddr; 2], payload: usize) -> Result<(), String> {
    let right = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            grh[20] == 0x45 && grh[32..36] == src.octets() && grh[36..40] == dst.octets()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            grh[0] >> 4 == 6 && grh[8..24] == src.octets() && grh[24..40] == dst.octets()
        }
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("a datagram of {payload} bytes has the GRH {grh:02x?}")) }
}
