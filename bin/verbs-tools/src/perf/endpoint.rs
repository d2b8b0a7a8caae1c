//! One side's queue pairs, memory and completion queues for one case.

use weft_abi_types::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC,
    IBV_QPT_UC, IBV_QPT_UD,
};

use super::control::Address;
use super::{Case, Metric, Operation, Transport};
use crate::pingpong::{Setup, random_psn};
use weft_client::verbs::{Ah, Buffer, Connect, Cq, Op, Qp, QpRequest, Remote, SendRequest, Sge, UdTarget};

/// Bytes of the GRH in front of a received datagram.
const GRH_BYTES: usize = 40;
/// Q_Key of both sides.
const QKEY: u32 = 0x5745_4654;
/// Largest message that is sent inline.
const INLINE_MAX: u32 = 220;
/// Maximum number of outstanding READs and atomics.
const RD_ATOMIC: u8 = 16;
/// Number of receives that a side keeps posted on each queue pair.
const RECV_DEPTH: u32 = 512;

/// One side of a case.
pub struct Endpoint {
    /// The case.
    pub case: Case,
    /// Completion queue of sends.
    pub send_cq: Cq,
    /// Completion queue of receives.
    pub recv_cq: Cq,
    /// The queue pairs.
    pub qps: Vec<Qp>,
    /// The local buffer: sends use the first half, receives the second.
    pub buffer: Buffer,
    own: Address,
    ahs: Vec<Ah>,
    inline: bool,
}

/// Size of one half of the buffer in bytes.
fn half(case: &Case) -> usize {
    // Rounded up to whole cache lines, with room for a GRH.
    (case.size as usize + GRH_BYTES).next_multiple_of(64)
}

impl Endpoint {
    /// Creates all objects for a case.
    pub fn new(setup: &Setup, case: &Case) -> Result<Endpoint, String> {
        let failed = |what: &'static str| move |e: std::io::Error| format!("{what}: {}", crate::errno::text(&e));
        let recv_depth = if case.op == Operation::Send { RECV_DEPTH } else { 1 };
        let send_cq = Cq::new(&setup.context, case.depth * case.qps, None).map_err(failed("completion queue"))?;
        let recv_cq = Cq::new(&setup.context, recv_depth * case.qps, None).map_err(failed("completion queue"))?;
        let mut access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        if case.transport == Transport::Rc {
            access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        }
        let buffer = Buffer::new(&setup.pd, 2 * half(case), access, false).map_err(failed("memory region"))?;
        let mut qps = Vec::new();
        for _ in 0..case.qps {
            qps.push(queue_pair(setup, case, &send_cq, &recv_cq, recv_depth).map_err(failed("queue pair"))?);
        }
        for qp in &qps {
            qp.to_init(setup.choice.port, access, QKEY).map_err(failed("queue pair to Init"))?;
        }
        let writes = matches!(case.op, Operation::Send | Operation::Write);
        let inline = writes && qps.first().is_some_and(|qp| qp.max_inline_data().is_ok_and(|max| max >= case.size));
        let own = Address {
            lid: setup.port.lid,
            gid: setup.gid_bytes(),
            qpns: qps.iter().map(Qp::number).collect(),
            psn: random_psn(),
            // The peer writes to the receive half.
            addr: buffer.addr() + half(case) as u64,
            rkey: buffer.rkey(),
            mtu: setup.port.active_mtu,
        };
        let endpoint = Endpoint { case: *case, send_cq, recv_cq, qps, buffer, own, ahs: Vec::new(), inline };
        if case.op == Operation::Send {
            for i in 0..endpoint.qps.len() {
                for _ in 0..recv_depth {
                    endpoint.post_recv(i)?;
                }
            }
        }
        Ok(endpoint)
    }

    /// The queue pairs and memory that the peer needs to know.
    pub fn address(&self) -> &Address {
        &self.own
    }

    /// Connects to the peer. `mtu` is the requested path MTU, as `enum ibv_mtu`.
    pub fn connect(&mut self, setup: &Setup, peer: &Address, mtu: Option<u32>) -> Result<(), String> {
        if peer.qpns.len() != self.qps.len() {
            return Err(format!("the peer has {} queue pairs, not {}", peer.qpns.len(), self.qps.len()));
        }
        let path = setup.path(peer.lid, peer.gid);
        let path_mtu = self.own.mtu.min(peer.mtu).min(mtu.unwrap_or(u32::MAX)).clamp(1, 5);
        for (qp, &qpn) in self.qps.iter().zip(&peer.qpns) {
            let to = Connect { rd_atomic: RD_ATOMIC, ..setup.connection(path_mtu, path, qpn, peer.psn, self.own.psn) };
            qp.to_rtr(&to).map_err(|e| format!("queue pair to RTR: {}", crate::errno::text(&e)))?;
            qp.to_rts(&to).map_err(|e| format!("queue pair to RTS: {}", crate::errno::text(&e)))?;
            if self.case.transport == Transport::Ud {
                let ah = Ah::new(&setup.pd, &path);
                self.ahs.push(ah.map_err(|e| format!("address handle: {}", crate::errno::text(&e)))?);
            }
        }
        Ok(())
    }

    /// The memory that messages are sent from.
    pub fn outgoing(&self) -> Sge {
        self.buffer.sge(0, self.case.size as usize)
    }

    /// Offset of the last byte of the message that the peer writes or sends.
    pub fn last_byte_in(&self) -> usize {
        half(&self.case) + self.case.size as usize - 1
    }

    /// Offset of the last byte of the local message.
    pub fn last_byte_out(&self) -> usize {
        self.case.size as usize - 1
    }

    /// Posts a receive on queue pair `i`.
    pub fn post_recv(&self, i: usize) -> Result<(), String> {
        let room = if self.case.transport == Transport::Ud { GRH_BYTES } else { 0 };
        let piece = self.buffer.sge(half(&self.case), self.case.size as usize + room);
        let posted = self.qps[i].post_recv(i as u64, piece);
        posted.map_err(|e| format!("cannot post a reception: {}", crate::errno::text(&e)))
    }

    /// The request that queue pair `i` sends to `peer`.
    pub fn request(&self, i: usize, peer: &Address, signaled: bool) -> SendRequest {
        let remote = Remote { addr: peer.addr, rkey: peer.rkey };
        let op = match (self.case.op, self.ahs.get(i)) {
            (Operation::Send, Some(ah)) => Op::SendTo(UdTarget { ah: ah.clone(), qpn: peer.qpns[i], qkey: QKEY }),
            (Operation::Send, None) => Op::Send,
            (Operation::Write, _) => Op::Write(remote),
            (Operation::Read, _) => Op::Read(remote),
            (Operation::Atomic, _) => Op::FetchAdd(remote, 1),
        };
        SendRequest { wr_id: i as u64, piece: self.outgoing(), op, signaled, inline: self.inline }
    }

    /// Whether both sides take turns: latency of operations that the peer notices.
    pub fn is_ping_pong(&self) -> bool {
        self.case.metric == Metric::Lat && matches!(self.case.op, Operation::Send | Operation::Write)
    }
}

fn queue_pair(setup: &Setup, case: &Case, send_cq: &Cq, recv_cq: &Cq, recv_depth: u32) -> std::io::Result<Qp> {
    let request = |max_inline_data| QpRequest {
        qp_type: match case.transport {
            Transport::Rc => IBV_QPT_RC,
            Transport::Uc => IBV_QPT_UC,
            Transport::Ud => IBV_QPT_UD,
        },
        send_cq,
        recv_cq,
        srq: None,
        xrcd: None,
        max_send_wr: case.depth,
        max_recv_wr: recv_depth,
        max_inline_data,
        extended: false,
    };
    let inline = if case.size <= INLINE_MAX { case.size } else { 0 };
    // An adapter that cannot send this much inline refuses the queue pair.
    Qp::new(&setup.pd, &request(inline)).or_else(|_| Qp::new(&setup.pd, &request(0)))
}
