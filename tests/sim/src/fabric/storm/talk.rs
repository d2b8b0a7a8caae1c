//! Queue pairs that exchange traffic: they send numbered messages and check what arrives. They compare every byte with
//! the sender's, whatever the service; reliable ones expect every message, once and in order.

use std::collections::BTreeSet;

use weft_hca::{Hca, PacketsOnly};
use weft_transport::Memory;
use weft_verbs::{
    Access, AddressVector, CqId, CqInit, Instant, Mtu, PdId, QpAttr, QpAttrMask as Mask, QpCap, QpId, QpInit, QpState,
    QpType, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge, UdTarget, Wc, WcOpcode, WcStatus, qp_state,
};

use crate::fabric::adapter::DEVICE;
use crate::memory::{SimMemory, pattern_byte};

/// The longest message.
const LENGTH_MAX: u64 = 5_000;
/// The longest datagram.
const DATAGRAM_MAX: u64 = 1_800;
/// Bytes of a sender's pattern, and of each buffer.
const ROOM: u64 = LENGTH_MAX + 1000;
/// Posted receives, and posted sends.
const DEPTH: u32 = 16;
/// Buffers of each kind: more than outstanding operations.
const BUFFERS: u64 = 20;
/// Bytes in front of a datagram.
const GRH: u64 = 40;
const QKEY: u32 = 0x1234_5678;

/// A queue pair's view of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Its index among the queue pairs.
    pub at: usize,
    pub qpn: u32,
    /// LID of its host.
    pub lid: u16,
    pub av: AddressVector,
    /// Start of its memory, and its key.
    base: u64,
    key: u32,
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct Talker {
    pub kind: QpType,
    /// The host that it is on.
    pub host: usize,
    pub sl: u8,
    pub qpn: u32,
    pub peers: Vec<Peer>,
    at: usize,
    qp: QpId,
    cq: CqId,
    base: u64,
    key: u32,
    /// Number of times it was connected.
    life: u64,
    /// Messages that it may send.
    pub budget: u64,
    pub sent: u64,
    pub done: u64,
    ready: u64,
    /// Messages that came since the last connect.
    pub came: u64,
    /// The lowest number that may come.
    next: u64,
    heard: BTreeSet<u32>,
    /// Time of its failure.
    pub broken: Option<Instant>,
}

/// The operation that a number stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Send,
    Write,
    Read,
}

impl Talker {
    pub fn new(
        hca: &mut Hca<PacketsOnly<SimMemory>>,
        pd: PdId,
        (at, host): (usize, usize),
        kind: QpType,
        sl: u8,
    ) -> Talker {
        let cq = hca.create_cq(DEVICE, &CqInit { cqe: 256, cookie: 0, ignore_overrun: false }).expect("a queue");
        let cap =
            QpCap { max_send_wr: DEPTH, max_recv_wr: DEPTH, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        let init = QpInit {
            qp_type: kind,
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
        let bytes = ROOM * (1 + 3 * BUFFERS);
        let base = hca.memory().alloc(bytes as usize);
        let pattern: Vec<u8> = (0..ROOM).map(|offset| pattern_byte(at as u64, offset)).collect();
        hca.memory().write(base, &pattern);
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let key = hca.reg_mr(pd, base, bytes, base, access).expect("a region").rkey;
        Talker {
            kind,
            host,
            sl,
            qpn,
            peers: Vec::new(),
            at,
            qp,
            cq,
            base,
            key,
            life: 0,
            budget: 0,
            sent: 0,
            done: 0,
            ready: 0,
            came: 0,
            next: 0,
            heard: BTreeSet::new(),
            broken: None,
        }
    }

    /// Returns this queue pair as a peer that is reached by this LID and address vector.
    pub fn as_peer(&self, lid: u16, av: AddressVector) -> Peer {
        Peer { at: self.at, qpn: self.qpn, lid, av, base: self.base, key: self.key }
    }

    /// Modifies the queue pair from RESET to RTS: a new life.
    pub fn connect(
        &mut self,
        hca: &mut Hca<PacketsOnly<SimMemory>>,
        now: Instant,
        [own, other]: [u32; 2],
        path_mtu: Mtu,
    ) {
        self.life += 1;
        let peer = self.peers.first().expect("a peer");
        let attr = QpAttr {
            qp_access: Access::all(),
            av: Some(peer.av),
            path_mtu,
            timeout: 12,
            retry_cnt: 7,
            rnr_retry: 7,
            sq_psn: own,
            rq_psn: other,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 6,
            dest_qpn: peer.qpn,
            port_num: 1,
            qkey: QKEY,
            ..QpAttr::default()
        };
        for (from, to) in [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr), (QpState::Rtr, QpState::Rts)]
        {
            let (required, _) = qp_state::attributes(self.kind, from, to).expect("a way to RTS");
            let attr = QpAttr { qp_state: to, ..attr };
            hca.modify_qp(now, self.qp, &attr, required | Mask::STATE).expect("the way to RTS");
        }
    }

    /// Modifies the queue pair to RESET, which drops all outstanding work.
    pub fn reset(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>, now: Instant) {
        let attr = QpAttr { qp_state: QpState::Reset, ..QpAttr::default() };
        hca.modify_qp(now, self.qp, &attr, Mask::STATE).expect("any state may be left");
        while let Ok(1..) = hca.poll_cq(self.cq, &mut [Wc::default(); 16]) {}
        (self.sent, self.done, self.ready, self.came, self.next, self.broken) = (0, 0, 0, 0, 0, None);
    }

    fn verb(&self, number: u64) -> Verb {
        match (self.kind, number % 4) {
            (QpType::Rc, 3) => Verb::Read,
            (QpType::Rc | QpType::Uc, 2) => Verb::Write,
            _ => Verb::Send,
        }
    }

    /// Returns the last of the numbers below this one that is a message to the peer.
    pub fn last_message(&self, below: u64) -> Option<u64> {
        (0..below).rev().take(2).find(|number| self.verb(*number) != Verb::Read)
    }

    fn length(&self, number: u64) -> u64 {
        1 + number * 7919 % if self.kind == QpType::Ud { DATAGRAM_MAX } else { LENGTH_MAX }
    }

    /// Returns the peer that a number is for.
    fn peer_of(&self, number: u64) -> &Peer {
        &self.peers[number as usize % self.peers.len()]
    }

    /// Returns the address of a buffer: received into, written by the peer, or read into.
    fn buffer(base: u64, verb: Verb, number: u64) -> u64 {
        let kind = match verb {
            Verb::Send => 0,
            Verb::Write => 1,
            Verb::Read => 2,
        };
        base + ROOM * (1 + kind * BUFFERS + number % BUFFERS)
    }

    fn immediate(&self, number: u64) -> u32 {
        (self.at as u32) << 24 | (self.life as u32 & 0xff) << 16 | number as u32 & 0xffff
    }

    /// Posts receives, and sends within the budget.
    pub fn post(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>, now: Instant) {
        if self.broken.is_some() {
            return;
        }
        self.post_receives(hca);
        while self.budget > 0 && self.sent < self.done + u64::from(DEPTH) {
            let (number, verb, length) = (self.sent, self.verb(self.sent), self.length(self.sent));
            let (peer, imm) = (*self.peer_of(number), self.immediate(number).to_be());
            let begin = number * 131 % (ROOM - LENGTH_MAX);
            let target = |addr| RemoteTarget { addr, rkey: peer.key };
            let (op, local) = match verb {
                Verb::Send => (SendOp::SendImm(imm), self.base + begin),
                Verb::Write => {
                    (SendOp::WriteImm(target(Self::buffer(peer.base, verb, number)), imm), self.base + begin)
                }
                Verb::Read => (SendOp::Read(target(peer.base + begin)), Self::buffer(self.base, verb, number)),
            };
            let list = [Sge { addr: local, length: length as u32, lkey: self.key }];
            let datagram = UdTarget { av: peer.av, remote_qpn: peer.qpn, remote_qkey: QKEY };
            let ud = (self.kind == QpType::Ud).then_some(datagram);
            let wr = SendWr { wr_id: number, flags: SendFlags::SIGNALED, op, sges: &list, ud, xrc_srqn: None };
            hca.post_send(now, self.qp, &wr).expect("room for a send");
            (self.sent, self.budget) = (self.sent + 1, self.budget - 1);
        }
    }

    fn post_receives(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>) {
        while self.ready < self.came + u64::from(DEPTH) {
            let addr = Self::buffer(self.base, Verb::Send, self.ready);
            let list = [Sge { addr, length: ROOM as u32, lkey: self.key }];
            hca.post_recv(self.qp, &RecvWr { wr_id: self.ready, sges: &list }).expect("room for a receive");
            self.ready += 1;
        }
    }

    /// Takes completions; the patterns of messages from others are known by the senders' indices.
    pub fn take_completions(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>, now: Instant, lives: &[u64]) {
        let mut some = [Wc::default(); 16];
        while let Ok(n @ 1..) = hca.poll_cq(self.cq, &mut some) {
            for wc in &some[..n] {
                match wc.status {
                    WcStatus::Success if matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) => {
                        self.on_message(hca, wc, lives);
                    }
                    WcStatus::Success => self.on_done(hca, wc),
                    // A fabric that drops everything ends connections, and has no other effect.
                    WcStatus::RetryExcErr if self.kind == QpType::Rc => {
                        assert_eq!((wc.wr_id, self.broken), (self.done, None), "the oldest, and once");
                        self.broken = Some(now);
                    }
                    WcStatus::WrFlushErr if self.broken.is_some() => {}
                    _ => panic!("{:?} at {}: {wc:?}", self.kind, self.at),
                }
            }
            if self.broken.is_none() {
                self.post_receives(hca);
            }
        }
    }

    fn on_done(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>, wc: &Wc) {
        let number = wc.wr_id;
        assert_eq!(number, self.done, "in order, once");
        self.done += 1;
        if self.verb(number) == Verb::Read {
            let (peer, length) = (self.peer_of(number).at, self.length(number));
            Self::judge(hca, Self::buffer(self.base, Verb::Read, number), (peer, number, length));
        }
    }

    fn on_message(&mut self, hca: &mut Hca<PacketsOnly<SimMemory>>, wc: &Wc, lives: &[u64]) {
        let imm = u32::from_be(wc.imm_data);
        let (from, life, number) = ((imm >> 24) as usize, u64::from(imm >> 16 & 0xff), u64::from(imm & 0xffff));
        assert_eq!(wc.wr_id, self.came, "receives are used in order");
        self.came += 1;
        let peer = self.peers.iter().find(|peer| peer.at == from).expect("one of its peers");
        assert_eq!(life, lives[peer.at] & 0xff, "of this life");
        let (verb, length) = (self.verb(number), self.length(number));
        let buffer = match verb {
            Verb::Write => Self::buffer(self.base, verb, number),
            _ => Self::buffer(self.base, Verb::Send, wc.wr_id) + if self.kind == QpType::Ud { GRH } else { 0 },
        };
        match self.kind {
            QpType::Ud => assert!(self.heard.insert(imm), "message {number} of {from} came twice"),
            QpType::Rc => assert_eq!(Some(number), self.last_message(number + 1).filter(|_| self.is_next(number))),
            _ => assert!(number >= self.next, "{number} came after {}", self.next),
        }
        self.next = number + 1;
        Self::judge(hca, buffer, (peer.at, number, length));
    }

    /// Returns whether this is the next reliable message; the peer's READs are not messages.
    fn is_next(&self, number: u64) -> bool {
        (self.next..number).all(|between| self.verb(between) == Verb::Read) && number >= self.next
    }

    /// Checks that a message has the bytes that the peer sent.
    fn judge(hca: &mut Hca<PacketsOnly<SimMemory>>, buffer: u64, (from, number, length): (usize, u64, u64)) {
        let bytes = hca.memory().bytes(buffer, length as usize);
        let wanted = (number * 131 % (ROOM - LENGTH_MAX)..).map(|at| pattern_byte(from as u64, at));
        assert!(
            bytes.into_iter().zip(wanted).all(|(came, sent)| came == sent),
            "message {number} of {from} is another"
        );
    }

    /// Returns how often it was connected.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Returns the lowest number that may come from its peer.
    pub fn next(&self) -> u64 {
        self.next
    }
}
