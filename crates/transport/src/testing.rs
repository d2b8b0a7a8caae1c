//! A small world for the tests: two queue pairs, memory in a vector, a wire that can lose, repeat and reorder, and a
//! log of the packets on it.

use weft_verbs::*;
use weft_wire::Packet;
use weft_wire::packet::pad_for;

use crate::peers::PeerId;
use crate::{Peers, Piece, Qp, RxPacket, TxBatch};

mod constants;
mod log;
mod memory;
mod world;

pub use constants::*;
pub use log::describe;
pub use memory::Hall;
pub use world::{Region, World};

/// One-way delay of the wire.
const DELAY_NS: u64 = 10_000;

/// Fate of one packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Deliver,
    Lose,
    Twice,
    Late,
}

struct InFlight {
    at: u64,
    order: u64,
    to: usize,
    bytes: Vec<u8>,
}

/// Decides the fate of each packet that a side sends.
pub type Wire = Box<dyn FnMut(usize, &Packet<'_>) -> Fate>;

/// Two queue pairs on a wire.
pub struct Pair {
    pub qps: [Qp; 2],
    pub worlds: [World; 2],
    pub now: Instant,
    /// Packets on the wire: "0 SEND Only 100000 A" (side, opcode, PSN in hex, marks).
    pub log: Vec<String>,
    pub fate: Wire,
    /// The packets themselves, with the side that sent them.
    pub sent: Vec<(usize, Vec<u8>)>,
    /// Which of them have `copy_before_send` set.
    pub copy_before_send: Vec<bool>,
    flight: Vec<InFlight>,
    order: u64,
}

pub fn gid(side: usize) -> Gid {
    Gid::from(std::net::IpAddr::from([10, 77, 0, side as u8 + 1]))
}

pub fn av(from: usize) -> AddressVector {
    AddressVector {
        sgid: gid(from),
        sgid_index: 0,
        dgid: gid(1 - from),
        flow_label: 0,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
        dlid: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: true,
        ifindex: 0,
        gid_type: weft_verbs::GidType::RoceV2,
    }
}

pub fn init(qp_type: QpType) -> QpInit {
    let cap = QpCap { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 30, max_recv_sge: 30, max_inline_data: 1024 };
    QpInit {
        qp_type,
        pd: (qp_type != QpType::XrcRecv).then_some(PD),
        send_cq: Some(SEND_CQ),
        recv_cq: Some(RECV_CQ),
        srq: None,
        xrcd: (qp_type == QpType::XrcRecv).then_some(XRCD),
        cap,
        sq_sig_all: true,
        cookie: 0,
    }
}

pub const PSN: [u32; 2] = [0x10_0000, 0x20_0000];

pub fn attr(side: usize, state: QpState) -> QpAttr {
    QpAttr {
        qp_state: state,
        qp_access: Access::all(),
        qkey: 0x1111_1111,
        av: Some(av(side)),
        path_mtu: Mtu::Mtu1024,
        timeout: 14,
        retry_cnt: 3,
        rnr_retry: 7,
        rq_psn: PSN[1 - side],
        sq_psn: PSN[side],
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 14,
        dest_qpn: 0x10 + 1 - side as u32,
        ..QpAttr::default()
    }
}

impl Pair {
    pub fn new(qp_type: QpType) -> Pair {
        let other = if qp_type == QpType::XrcSend { QpType::XrcRecv } else { qp_type };
        Pair::with([init(qp_type), init(other)], |_, _| {})
    }

    pub fn with(inits: [QpInit; 2], change: impl Fn(usize, &mut QpAttr)) -> Pair {
        Pair::connect(inits, None, change)
    }

    /// Creates two queue pairs of one host, whose rings hold `room` frames each.
    pub fn on_one_host(qp_type: QpType, room: usize, change: impl Fn(usize, &mut QpAttr)) -> Pair {
        let other = if qp_type == QpType::XrcSend { QpType::XrcRecv } else { qp_type };
        Pair::connect([init(qp_type), init(other)], Some(room), change)
    }

    fn connect(inits: [QpInit; 2], room: Option<usize>, change: impl Fn(usize, &mut QpAttr)) -> Pair {
        let mut pair = Pair::unconnected(inits, room, Qp::new);
        for side in 0..2 {
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                let mut attr = attr(side, state);
                change(side, &mut attr);
                if room.is_some() && state == QpState::Rtr {
                    pair.qps[side].set_peer(PeerId(1 - side as u32));
                }
                let mask = QpAttrMask::all();
                pair.qps[side].modify(pair.now, &attr, mask, &mut pair.worlds[side]);
            }
        }
        pair
    }

    /// Creates two iWARP queue pairs of one host in INIT, whose rings hold `room` frames each.
    pub fn iwarp(room: usize, change: impl Fn(&mut QpInit)) -> Pair {
        let mut init = init(QpType::Rc);
        change(&mut init);
        let mut pair = Pair::unconnected([init, init], Some(room), Qp::new_iwarp);
        for side in 0..2 {
            let mask = QpAttrMask::STATE | QpAttrMask::ACCESS_FLAGS;
            pair.qps[side].modify(pair.now, &attr(side, QpState::Init), mask, &mut pair.worlds[side]);
        }
        pair
    }

    fn unconnected(inits: [QpInit; 2], room: Option<usize>, new: fn(QpId, Qpn, &QpInit, DeviceId) -> Qp) -> Pair {
        let qp = |side: usize| {
            let id = QpId { index: side as u32, generation: 0 };
            new(id, 0x10 + side as u32, &inits[side], DeviceId(0))
        };
        let mut pair = Pair {
            qps: [qp(0), qp(1)],
            worlds: [World::new(0), World::new(0xa5)],
            now: Instant(1_000_000),
            log: Vec::new(),
            fate: Box::new(|_, _| Fate::Deliver),
            sent: Vec::new(),
            copy_before_send: Vec::new(),
            flight: Vec::new(),
            order: 0,
        };
        if let Some(room) = room {
            let hall = Hall::new(room);
            for side in 0..2 {
                pair.worlds[side].memory.2 = Some((side, hall.clone()));
            }
        }
        pair
    }

    pub fn modify(&mut self, side: usize, state: QpState) {
        let attr = QpAttr { qp_state: state, en_sqd_async_notify: true, ..self.qps[side].query() };
        let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
        self.qps[side].modify(self.now, &attr, mask, &mut self.worlds[side]);
    }

    pub fn send(&mut self, side: usize, wr_id: u64, op: SendOp, sges: &[Sge]) {
        self.post(side, wr_id, op, sges, SendFlags::SIGNALED).unwrap();
    }

    pub fn post(
        &mut self,
        side: usize,
        wr_id: u64,
        op: SendOp,
        sges: &[Sge],
        flags: SendFlags,
    ) -> Result<(), VerbsError> {
        let ud = (self.qps[side].qp_type() == QpType::Ud).then(|| UdTarget {
            av: av(side),
            remote_qpn: 0x10 + 1 - side as u32,
            remote_qkey: 0x1111_1111,
        });
        let wr = SendWr { wr_id, flags, op, sges, ud, xrc_srqn: Some(SRQN) };
        self.qps[side].post_send(self.now, &wr, &mut self.worlds[side])
    }

    pub fn recv(&mut self, side: usize, wr_id: u64, sges: &[Sge]) {
        self.qps[side].post_recv(&RecvWr { wr_id, sges }, &mut self.worlds[side]).unwrap();
    }

    /// Passes every waiting packet to the wire.
    pub fn transmit(&mut self) {
        for side in 0..2 {
            let mut rounds = 0;
            while self.qps[side].wants_transmit(self.now) {
                rounds += 1;
                assert!(rounds < 1000, "wants to transmit but does not end; {:?}", self.qps[side]);
                let mut batch = TxBatch::default();
                self.qps[side].poll_transmit(self.now, &mut batch, &mut self.worlds[side]);
                for packet in &batch.packets {
                    let header = packet.header.start as usize..packet.header.end as usize;
                    let mut bytes = batch.arena[header].to_vec();
                    for piece in &batch.pieces[packet.pieces.start as usize..packet.pieces.end as usize] {
                        match *piece {
                            Piece::Host { addr, len } => {
                                bytes.extend_from_slice(self.worlds[side].memory.at(addr, len as usize));
                            }
                            Piece::Arena { start, len } => {
                                bytes.extend_from_slice(&batch.arena[start as usize..(start + len) as usize]);
                            }
                        }
                    }
                    bytes.resize(bytes.len() + pad_for(packet.payload_len as usize) + 4, 0);
                    self.copy_before_send.push(packet.copy_before_send);
                    self.put(side, bytes);
                }
            }
        }
    }

    fn put(&mut self, side: usize, bytes: Vec<u8>) {
        let packet = Packet::parse(&bytes).expect("we send well-formed packets");
        self.log.push(describe(side, &packet));
        let fate = (self.fate)(side, &packet);
        let times = match fate {
            Fate::Lose => 0,
            Fate::Twice => 2,
            Fate::Deliver | Fate::Late => 1,
        };
        let delay = if fate == Fate::Late { 5 * DELAY_NS } else { DELAY_NS };
        for _ in 0..times {
            self.order += 1;
            let bytes = bytes.clone();
            self.flight.push(InFlight { at: self.now.0 + delay, order: self.order, to: 1 - side, bytes });
        }
        self.sent.push((side, bytes));
    }

    /// Delivers arbitrary bytes to a side as a packet.
    pub fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let rx = RxPacket {
            packet,
            sgid: gid(1 - to),
            dgid: gid(to),
            traffic_class: 0,
            hop_limit: 64,
            ifindex: 0,
            gid_type: weft_verbs::GidType::RoceV2,
            local: None,
        };
        self.qps[to].handle_packet(self.now, &rx, &mut self.worlds[to]);
    }

    /// Lets a side take one frame out of its peer's ring.
    pub fn take_frame(&mut self, side: usize) -> bool {
        let world = &mut self.worlds[side];
        let Some(frame) = world.memory.next_frame(PeerId(1 - side as u32)) else { return false };
        self.log.push(format!("{} {:?} {} {:?}", 1 - side, frame.kind, frame.seq, frame.flags.bits()));
        self.qps[side].handle_frame(self.now, &frame, world);
        world.memory.end_frame();
        true
    }

    /// Lets both sides take all frames, and sends due acknowledgements.
    fn take_frames(&mut self) {
        loop {
            let taken = (0..2).filter(|&side| self.take_frame(side)).count();
            self.transmit();
            let owed = (0..2).filter(|&side| self.qps[side].owes_ack()).collect::<Vec<_>>();
            if taken == 0 && owed.is_empty() {
                return;
            }
            for side in owed {
                self.qps[side].flush_ack(self.now, &mut self.worlds[side]);
            }
        }
    }

    /// Runs until nothing is in flight, or `limit` of simulated time has passed. Returns true if all is quiet.
    pub fn run(&mut self, limit: Duration) -> bool {
        let end = self.now + limit;
        loop {
            self.transmit();
            self.take_frames();
            let arrival = self.flight.iter().map(|f| f.at).min();
            let timer = self.qps.iter().filter_map(|q| q.poll_timeout()).map(|t| t.0).min();
            let Some(next) = arrival.into_iter().chain(timer).min() else { return true };
            if next > end.0 {
                self.now = end;
                return false;
            }
            self.now = Instant(next.max(self.now.0));
            let mut due: Vec<InFlight> = Vec::new();
            let mut i = 0;
            while i < self.flight.len() {
                if self.flight[i].at <= self.now.0 {
                    due.push(self.flight.swap_remove(i));
                } else {
                    i += 1;
                }
            }
            due.sort_by_key(|f| (f.at, f.order));
            for f in due {
                self.deliver(f.to, &f.bytes);
            }
            for side in 0..2 {
                if self.qps[side].poll_timeout().is_some_and(|t| t <= self.now) {
                    self.qps[side].handle_timeout(self.now, &mut self.worlds[side]);
                }
            }
        }
    }

    /// Runs until quiet, for at most a minute of simulated time.
    pub fn finish(&mut self) {
        assert!(self.run(Duration::from_secs(60)), "not quiet: {:#?}\n{:?}", self.log, self.qps);
    }
}

pub fn sge(offset: u64, length: u32) -> Sge {
    Sge { addr: BASE + offset, length, lkey: KEY }
}

pub fn remote(offset: u64) -> RemoteTarget {
    RemoteTarget { addr: BASE + offset, rkey: KEY }
}

/// Random number generator for faults: xorshift64*.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
}

pub use weft_verbs::Duration;
