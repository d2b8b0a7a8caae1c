//! Connected queue pairs for tests, with everything that belongs to them.

use weft_verbs::{
    Access, CqId, CqInit, Mtu, PdId, QpAttr, QpAttrMask as Mask, QpCap, QpId, QpInit, QpState, QpType, Qpn, RecvWr,
    SendFlags, SendOp, SendWr, Sge, SrqId, VerbsError, XrcdId, qp_state,
};

use crate::world::{DEVICE, World};

/// Options of a queue pair and its connection.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// Kind (of the initiator; the other side of XRC follows).
    pub kind: QpType,
    /// Path MTU.
    pub mtu: Mtu,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding, both ways.
    pub rd_atomic: u8,
    /// First PSN of the first and of the second end.
    pub psn: [u32; 2],
    /// Sizes.
    pub cap: QpCap,
    /// Whether every send is signalled.
    pub sq_sig_all: bool,
    /// Access rights that both ends grant.
    pub access: Access,
    /// Q_Key (UD).
    pub qkey: u32,
}

impl Default for QpOptions {
    fn default() -> QpOptions {
        QpOptions {
            kind: QpType::Rc,
            mtu: Mtu::Mtu1024,
            timeout: 12,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            rd_atomic: 8,
            psn: [0x12_3456, 0x65_4321],
            cap: QpCap { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 256 },
            sq_sig_all: false,
            access: Access::all(),
            qkey: 0x1111_1111,
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Which host.
    pub host: usize,
    /// Protection domain.
    pub pd: PdId,
    /// Completion queue of both queues.
    pub cq: CqId,
    /// Queue pair.
    pub qp: QpId,
    /// Its number.
    pub qpn: Qpn,
    /// SRQ that it receives from.
    pub srq: Option<SrqId>,
}

/// Objects that queue pairs of one host share.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Protection domain.
    pub pd: PdId,
    /// Completion queue.
    pub cq: CqId,
    /// Shared receive queue.
    pub srq: Option<SrqId>,
    /// XRC domain.
    pub xrcd: Option<XrcdId>,
}

/// Creates a protection domain and a completion queue at a host.
pub fn parts(world: &mut World, host: usize) -> Parts {
    let hca = &mut world.hosts[host].hca;
    let pd = hca.alloc_pd(DEVICE, 0).expect("a protection domain");
    let init = CqInit { cqe: 4096, cookie: host as u64, ignore_overrun: false };
    let cq = hca.create_cq(DEVICE, &init).expect("a completion queue");
    Parts { pd, cq, srq: None, xrcd: None }
}

/// Creates a queue pair of `kind` in RESET.
pub fn create(world: &mut World, host: usize, parts: &Parts, kind: QpType, options: &QpOptions) -> End {
    let init = QpInit {
        qp_type: kind,
        pd: Some(parts.pd),
        send_cq: Some(parts.cq),
        recv_cq: Some(parts.cq),
        srq: if kind == QpType::XrcRecv || kind == QpType::XrcSend { None } else { parts.srq },
        xrcd: parts.xrcd,
        cap: options.cap,
        sq_sig_all: options.sq_sig_all,
        cookie: 7000 + host as u64,
    };
    let (qp, qpn, cap) = world.hosts[host].hca.create_qp(DEVICE, &init).expect("a queue pair");
    assert!(kind == QpType::XrcRecv || cap.max_send_wr >= options.cap.max_send_wr);
    End { host, pd: parts.pd, cq: parts.cq, qp, qpn, srq: parts.srq }
}

/// Returns attributes for all transitions up to RTS; each transition takes those that it requires.
pub fn attributes(world: &World, end: &End, peer: &End, options: &QpOptions, side: usize) -> QpAttr {
    QpAttr {
        qp_access: options.access,
        qkey: options.qkey,
        av: Some(world.hosts[end.host].path_to(world.hosts[peer.host].gid())),
        path_mtu: options.mtu,
        timeout: options.timeout,
        retry_cnt: options.retry_cnt,
        rnr_retry: options.rnr_retry,
        rq_psn: options.psn[1 - side],
        sq_psn: options.psn[side],
        max_rd_atomic: options.rd_atomic,
        max_dest_rd_atomic: options.rd_atomic,
        min_rnr_timer: options.min_rnr_timer,
        dest_qpn: peer.qpn,
        ..QpAttr::default()
    }
}

/// Modifies a queue pair to a state with the attributes that the transition requires. In RTR it gets the peer's
/// identity if both are on one machine.
pub fn go(world: &mut World, end: &End, kind: QpType, to: QpState, attr: &QpAttr) -> Result<(), VerbsError> {
    let peer = world.peer(end.host, attr.dest_qpn);
    let hca = &mut world.hosts[end.host].hca;
    let (now, _) = hca.query_qp(end.qp)?;
    let required = qp_state::attributes(kind, now.qp_state, to).map_or(Mask::empty(), |(required, _)| required);
    let attr = QpAttr { qp_state: to, ..*attr };
    hca.modify_qp_local(world.now, end.qp, &attr, required | Mask::STATE, peer)
}

/// Brings both ends to RTS.
pub fn connect(world: &mut World, ends: [&End; 2], kinds: [QpType; 2], options: &QpOptions) {
    for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
        for side in 0..2 {
            let attr = attributes(world, ends[side], ends[1 - side], options, side);
            go(world, ends[side], kinds[side], to, &attr).expect("the way to RTS");
        }
    }
}

/// Creates two connected queue pairs on hosts 0 and 1.
pub fn pair(world: &mut World, options: &QpOptions) -> [End; 2] {
    let all = [parts(world, 0), parts(world, 1)];
    pair_of(world, &all, options)
}

/// Creates two connected queue pairs from given parts on hosts 0 and 1.
pub fn pair_of(world: &mut World, parts: &[Parts; 2], options: &QpOptions) -> [End; 2] {
    let kinds = match options.kind {
        QpType::XrcSend => [QpType::XrcSend, QpType::XrcRecv],
        kind => [kind, kind],
    };
    let a = create(world, 0, &parts[0], kinds[0], options);
    let b = create(world, 1, &parts[1], kinds[1], options);
    connect(world, [&a, &b], kinds, options);
    [a, b]
}

impl End {
    /// Posts a signalled send of one element.
    pub fn send(&self, world: &mut World, wr_id: u64, op: SendOp, sge: Sge) -> Result<(), VerbsError> {
        self.post(world, wr_id, op, SendFlags::SIGNALED, &[sge])
    }

    /// Posts a send.
    pub fn post(
        &self,
        world: &mut World,
        wr_id: u64,
        op: SendOp,
        flags: SendFlags,
        sges: &[Sge],
    ) -> Result<(), VerbsError> {
        let wr = SendWr { wr_id, flags, op, sges, ud: None, xrc_srqn: None };
        world.hosts[self.host].hca.post_send(world.now, self.qp, &wr)
    }

    /// Posts a receive of one element.
    pub fn recv(&self, world: &mut World, wr_id: u64, sge: Sge) -> Result<(), VerbsError> {
        let wr = RecvWr { wr_id, sges: &[sge] };
        match self.srq {
            Some(srq) => world.hosts[self.host].hca.post_srq_recv(srq, &wr),
            None => world.hosts[self.host].hca.post_recv(self.qp, &wr),
        }
    }

    /// Returns the pending completions.
    pub fn poll(&self, world: &mut World) -> Vec<weft_verbs::Wc> {
        world.hosts[self.host].poll(self.cq)
    }

    /// Returns the state of the queue pair.
    pub fn state(&self, world: &World) -> QpState {
        world.hosts[self.host].hca.query_qp(self.qp).map_or(QpState::Reset, |(attr, _)| attr.qp_state)
    }
}
