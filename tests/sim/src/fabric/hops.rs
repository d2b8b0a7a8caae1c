//! Two adapters on a hop-by-hop fabric: everything that their queue pairs send is an InfiniBand packet that the
//! switches forward by their tables, over cables that have latency, damage packets as a seed says, and flap. All
//! messages must arrive, once and in order, and the ports must count every packet.

use weft_fabric::topology::NodeKind;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Counter, Fabric, PortRef, Transit};
use weft_hca::AhRequest;
use weft_transport::{Memory, TxBatch, TxPacket};
use weft_verbs::{
    Access, CqId, CqInit, Duration, Instant, Mtu, QpAttr, QpAttrMask as Mask, QpCap, QpId, QpInit, QpState, QpType,
    RecvWr, SendFlags, SendOp, SendWr, Sge, Wc, WcOpcode, WcStatus, qp_state,
};

use super::Manager;
use super::adapter::{Adapter, DEVICE};
use crate::memory::pattern_byte;
use crate::rng::Rng;

/// Messages each way.
const MESSAGES: u64 = 40;
/// The longest of them.
const LENGTH_MAX: u64 = 20_000;
/// Bytes of a sender's pattern, and of each buffer that messages are received into.
const ROOM: u64 = LENGTH_MAX + 4096;
/// Receives that are posted.
const RECEIVES: u64 = 16;
/// Buffers that messages are received into, more than receives are posted.
const BUFFERS: u64 = 20;
/// Latency of a packet besides that of its cables.
const SWITCHING: Duration = Duration::from_nanos(400);
/// Events at most, against endless loops.
const STEPS_MAX: u64 = 2_000_000;

/// Counts of one seed's run.
#[derive(Clone, Copy, Debug, Default)]
pub struct HopsTally {
    /// Packets that arrived.
    pub arrived: u64,
    /// Traps that reached the manager's port; ports report cables that damage packets.
    pub traps: u64,
    /// Packets that cables damaged.
    pub damaged: u64,
    /// Packets dropped because a link was down.
    pub discarded: u64,
    /// Retransmitted packets.
    pub repeated: u64,
    /// Times that a cable was unplugged.
    pub flaps: u64,
}

struct Side {
    adapter: Adapter,
    cq: CqId,
    qp: QpId,
    qpn: u32,
    memory: u64,
    key: u32,
    peer_slot: u32,
    sent: u64,
    acked: u64,
    /// Receives posted.
    ready: u64,
    received: u64,
}

struct Bed {
    now: Instant,
    rng: Rng,
    fabric: Fabric,
    manager: Manager,
    transit: Transit,
    sides: [Side; 2],
    tx: TxBatch,
    tally: HopsTally,
    cables: Vec<PortRef>,
    /// Per cable: latency in nanoseconds, and damaged packets per million.
    wear: Vec<(u32, u32)>,
}

/// Runs one seed and checks that all messages of both sides arrive.
pub fn run_hops(seed: u64) -> HopsTally {
    let mut bed = Bed::new(seed);
    let is_global = bed.rng.chance(1, 2);
    bed.connect(is_global);
    let flaps = bed.rng.chance(1, 2);
    let ppm = bed.rng.pick(&[0, 1_000, 10_000, 30_000]);
    bed.wear = bed.cables.iter().map(|_| (bed.rng.pick(&[0, 0, 500, 20_000]), ppm)).collect();
    bed.age();
    let before = bed.sides.each_ref().map(|side| bed.fabric.traffic(side.adapter.port).rcv_packets);
    let mut next_flap = bed.now + Duration::from_micros(bed.rng.range(1, 50));
    for _ in 0..STEPS_MAX {
        bed.post();
        bed.flush();
        if bed.is_done() {
            bed.count(before, flaps);
            return bed.tally;
        }
        if flaps && bed.now >= next_flap && bed.tally.flaps < 3 {
            bed.flap();
            next_flap = bed.now + Duration::from_micros(bed.rng.range(10, 1_000));
        }
        bed.step();
    }
    panic!("still busy: {:?}", bed.sides.each_ref().map(|side| (side.sent, side.received)));
}

impl Bed {
    fn new(seed: u64) -> Bed {
        let mut rng = Rng::new(seed);
        let shape = match rng.below(3) {
            0 => Shape::Star { hosts: 2 },
            1 => Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None },
            _ => Shape::Torus { sizes: vec![3, 3], hosts_per_switch: 1, wraps: true },
        };
        let topology = Plan::new(shape).generate().expect("a shape that can be");
        let places = (0..).zip(&topology.nodes).filter(|(_, node)| node.kind == NodeKind::Ca);
        let hosts: Vec<PortRef> = places.map(|(place, _)| PortRef::new(place, 1)).collect();
        let mut fabric = Fabric::new(&topology, seed);
        let mut manager = Manager::new(hosts[0]);
        let now = Instant(0);
        manager.sweep(&mut fabric, now);
        let ends = [hosts[0], hosts[hosts.len() - 1]];
        let sides = [0, 1].map(|side| side_of(&mut rng, &fabric, ends[side], side as u32 + 1));
        let cables = fabric.cables().map(|cable| cable.ends[0]).collect();
        let (transit, tx, tally) = (Transit::default(), TxBatch::default(), HopsTally::default());
        Bed { now, rng, fabric, manager, transit, sides, tx, tally, cables, wear: Vec::new() }
    }

    fn connect(&mut self, is_global: bool) {
        let names = self.sides.each_ref().map(|side| (side.adapter.lid, side.adapter.gid, side.qpn));
        for (at, side) in self.sides.iter_mut().enumerate() {
            let (dlid, dgid, dest_qpn) = names[1 - at];
            let ah = AhRequest { dlid, dgid, is_global, hop_limit: 1, port_num: 1, ..AhRequest::default() };
            let attr = QpAttr {
                qp_access: Access::all(),
                av: Some(side.adapter.hca.resolve_av(DEVICE, &ah).expect("a path")),
                path_mtu: Mtu::Mtu1024,
                timeout: 12,
                retry_cnt: 7,
                rnr_retry: 7,
                rq_psn: 7,
                sq_psn: 7,
                max_rd_atomic: 4,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 6,
                dest_qpn,
                port_num: 1,
                ..QpAttr::default()
            };
            for (from, to) in
                [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr), (QpState::Rtr, QpState::Rts)]
            {
                let (required, _) = qp_state::attributes(QpType::Rc, from, to).expect("a way to RTS");
                let attr = QpAttr { qp_state: to, ..attr };
                side.adapter.hca.modify_qp(self.now, side.qp, &attr, required | Mask::STATE).expect("the way to RTS");
            }
        }
    }

    /// Posts receives, and sends as long as the queues have room.
    fn post(&mut self) {
        for side in &mut self.sides {
            let sge = |addr, length| Sge { addr, length, lkey: side.key };
            while side.ready < side.received + RECEIVES {
                let list = [sge(side.buffer(side.ready), LENGTH_MAX as u32)];
                let wr = RecvWr { wr_id: side.ready, sges: &list };
                side.adapter.hca.post_recv(side.qp, &wr).expect("room for a receive");
                side.ready += 1;
            }
            while side.sent < MESSAGES {
                let list = [sge(side.memory + begin(side.sent), length(side.sent) as u32)];
                let wr = SendWr {
                    wr_id: side.sent,
                    flags: SendFlags::SIGNALED,
                    op: SendOp::SendImm((side.sent as u32).to_be()),
                    sges: &list,
                    ud: None,
                    xrc_srqn: None,
                };
                if side.adapter.hca.post_send(self.now, side.qp, &wr).is_err() {
                    break;
                }
                side.sent += 1;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.sides.iter().all(|side| side.received == MESSAGES && side.acked == MESSAGES)
    }

    /// Sends the adapters' packets by their ports, and takes completions.
    fn flush(&mut self) {
        for at in 0..self.sides.len() {
            while self.sides[at].adapter.hca.wants_transmit() {
                self.tx.clear();
                let more = self.sides[at].adapter.hca.poll_transmit(self.now, &mut self.tx);
                let tx = std::mem::take(&mut self.tx);
                tx.packets.iter().for_each(|packet| self.send(at, &tx, packet));
                self.tx = tx;
                if !more {
                    break;
                }
            }
            self.sides[at].take_completions();
        }
    }

    fn send(&mut self, at: usize, tx: &TxBatch, packet: &TxPacket) {
        let adapter = &mut self.sides[at].adapter;
        let (port, mut bytes) = (adapter.port, adapter.compose(tx, packet));
        let (now, transit) = (self.now, &mut self.transit);
        // The port that drops a packet counts it.
        let _ = self.fabric.forward(now, port, &mut bytes, |arrival, bytes| {
            let until = now + SWITCHING + Duration::from_nanos(arrival.latency_ns);
            assert!(transit.depart(until, arrival.port, at as u32 + 1, bytes), "no more than a window is under way");
        });
    }

    fn step(&mut self) {
        let timers = self.sides.iter_mut().filter_map(|side| side.adapter.hca.poll_timeout()).min();
        let fabric = self.fabric.poll_timeout();
        let next = [timers, fabric, self.transit.poll_timeout()].into_iter().flatten().min().expect("something waits");
        self.now = self.now.max(next);
        self.fabric.handle_timeout(self.now);
        self.hear();
        while let Some((port, sender, bytes)) = self.transit.arrive(self.now) {
            self.tally.arrived += 1;
            let side = self.sides.iter_mut().find(|side| side.adapter.port == port).expect("one of ours");
            side.adapter.arrive(self.now, sender, &bytes);
        }
        self.sides.iter_mut().for_each(|side| side.adapter.hca.handle_timeout(self.now));
    }

    /// Takes the traps that ports sent. Nothing answers them, but they crossed cables, too.
    fn hear(&mut self) {
        while self.fabric.poll_event().is_some() {}
        while let Some(delivery) = self.fabric.poll_delivery() {
            let to = self.sides.iter().find(|side| side.adapter.port == delivery.port).expect("one of ours");
            // A trap from the manager's own port crosses no cable.
            self.tally.traps += u64::from(delivery.slid != to.adapter.lid);
        }
    }

    /// Unplugs a cable for a moment; then the manager brings the link up again.
    fn flap(&mut self) {
        self.tally.flaps += 1;
        let port = self.rng.pick(&self.cables);
        let down = Duration::from_micros(self.rng.range(10, 500));
        self.fabric.flap(self.now, port, down).expect("a cable");
        let up = self.now + down + Duration::from_millis(3);
        while self.now < up {
            self.post();
            self.flush();
            self.step();
        }
        // The manager asks once and expects immediate answers, so the cables must be perfect meanwhile.
        self.renew();
        self.manager.sweep(&mut self.fabric, self.now);
        self.age();
    }

    /// Gives cables the latency and damage that the seed chose.
    fn age(&mut self) {
        for (port, (latency, ppm)) in self.cables.iter().zip(&self.wear) {
            self.fabric.set_latency(*port, *latency).expect("a cable");
            self.fabric.set_errors(*port, *ppm).expect("a cable");
        }
    }

    /// Makes cables perfect, and delivers the management datagrams on them.
    fn renew(&mut self) {
        for port in &self.cables {
            self.fabric.set_latency(*port, 0).expect("a cable");
            self.fabric.set_errors(*port, 0).expect("a cable");
        }
        self.fabric.handle_timeout(self.now + Duration::from_millis(1));
        self.hear();
    }

    /// Checks that the counters contain every packet.
    fn count(&mut self, before: [u64; 2], flaps: bool) {
        let ports = self.fabric.cables().flat_map(|cable| cable.ends).collect::<Vec<_>>();
        for port in ports {
            self.tally.damaged += self.fabric.counter(port, Counter::SymbolErrors);
            self.tally.discarded += self.fabric.counter(port, Counter::InactiveDiscards);
        }
        let repeats = |side: &Side| side.adapter.hca.qps().map(|qp| qp.stats.retransmits).sum::<u64>();
        self.tally.repeated = self.sides.iter().map(repeats).sum();
        if !flaps {
            // Traps on a cable are counted already.
            self.renew();
            let came: u64 = self.sides.iter().map(|side| self.fabric.traffic(side.adapter.port).rcv_packets).sum();
            let waits = std::iter::from_fn(|| self.transit.arrive(Instant(u64::MAX))).count() as u64;
            let counted = came - before.iter().sum::<u64>();
            assert_eq!(counted, self.tally.arrived + waits + self.tally.traps, "all that came is counted, once");
        }
    }
}

fn length(number: u64) -> u64 {
    1 + number * 7919 % LENGTH_MAX
}

/// Returns the offset of a message in its sender's pattern.
fn begin(number: u64) -> u64 {
    number * 131 % (ROOM - LENGTH_MAX)
}

fn side_of(rng: &mut Rng, fabric: &Fabric, port: PortRef, slot: u32) -> Side {
    let mut adapter = Adapter::new(rng, fabric, port, slot);
    let hca = &mut adapter.hca;
    let pd = hca.alloc_pd(DEVICE, 0).expect("a protection domain");
    let cq = hca.create_cq(DEVICE, &CqInit { cqe: 4096, cookie: 0, ignore_overrun: false }).expect("a queue");
    let cap =
        QpCap { max_send_wr: 16, max_recv_wr: RECEIVES as u32, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    let init = QpInit {
        qp_type: QpType::Rc,
        pd: Some(pd),
        send_cq: Some(cq),
        recv_cq: Some(cq),
        srq: None,
        xrcd: None,
        cap,
        sq_sig_all: true,
        cookie: 0,
    };
    let (qp, qpn, _) = hca.create_qp(DEVICE, &init).expect("a queue pair");
    let bytes = (1 + BUFFERS) * ROOM;
    let memory = hca.memory().alloc(bytes as usize);
    let pattern: Vec<u8> = (0..ROOM).map(|at| pattern_byte(slot.into(), at)).collect();
    hca.memory().write(memory, &pattern);
    let key = hca.reg_mr(pd, memory, bytes, memory, Access::LOCAL_WRITE).expect("a region").lkey;
    let peer_slot = 3 - slot;
    Side { adapter, cq, qp, qpn, memory, key, peer_slot, sent: 0, acked: 0, ready: 0, received: 0 }
}

impl Side {
    fn buffer(&self, number: u64) -> u64 {
        self.memory + (1 + number % BUFFERS) * ROOM
    }

    fn take_completions(&mut self) {
        let mut some = [Wc::default(); 16];
        while let Ok(n @ 1..) = self.adapter.hca.poll_cq(self.cq, &mut some) {
            for wc in &some[..n] {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                let number = if wc.opcode == WcOpcode::Recv { &mut self.received } else { &mut self.acked };
                assert_eq!(wc.wr_id, *number, "in order, once");
                *number += 1;
                if wc.opcode == WcOpcode::Recv {
                    self.judge(wc);
                }
            }
        }
    }

    /// Checks that a message has the bytes that the peer sent.
    fn judge(&mut self, wc: &Wc) {
        let number = wc.wr_id;
        assert_eq!((u32::from_be(wc.imm_data), u64::from(wc.byte_len)), (number as u32, length(number)));
        let buffer = self.buffer(number);
        let bytes = self.adapter.hca.memory().bytes(buffer, length(number) as usize);
        let wanted = (begin(number)..).map(|at| pattern_byte(self.peer_slot.into(), at));
        assert!(bytes.into_iter().zip(wanted).all(|(came, sent)| came == sent), "message {number} is another");
    }
}
