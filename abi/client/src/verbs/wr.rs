//! Send work requests: single ones, and chains that are built once and posted many times.

use weft_abi_types::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
    IBV_WR_SEND_WITH_INV, ibv_send_wr, ibv_send_wr_atomic, ibv_send_wr_imm, ibv_send_wr_op, ibv_send_wr_qp_type,
    ibv_send_wr_rdma, ibv_send_wr_tso, ibv_send_wr_ud, ibv_send_wr_wr, ibv_send_wr_xrc, ibv_sge,
};

use super::{Ah, Sge};

/// A peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remote {
    /// Address.
    pub addr: u64,
    /// R_Key.
    pub rkey: u32,
}

/// Destination of a datagram.
#[derive(Clone, Debug)]
pub struct UdTarget {
    /// Address handle of the peer.
    pub ah: Ah,
    /// The peer's queue pair.
    pub qpn: u32,
    /// Q_Key of that queue pair.
    pub qkey: u32,
}

/// Operation of a send work request.
#[derive(Clone, Debug)]
pub enum Op {
    /// SEND on a connected queue pair.
    Send,
    /// SEND on a connected queue pair with immediate data.
    SendImm(u32),
    /// SEND on a connected queue pair that wakes a peer which waits for solicited completions alone.
    SendSolicited,
    /// SEND on a connected queue pair that invalidates this key at the peer.
    SendInvalidate(u32),
    /// SEND of a datagram.
    SendTo(UdTarget),
    /// SEND of a datagram with immediate data.
    SendToImm(UdTarget, u32),
    /// SEND over XRC to the shared receive queue with this number.
    SendXrc(u32),
    /// RDMA WRITE.
    Write(Remote),
    /// RDMA WRITE with immediate data, which consumes a receive of the peer.
    WriteImm(Remote, u32),
    /// RDMA READ.
    Read(Remote),
    /// Atomic fetch and add.
    FetchAdd(Remote, u64),
    /// Atomic compare and swap: the expected value, and the new one.
    CompareSwap(Remote, u64, u64),
}

/// A send work request with one piece of memory.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// ID that the completion returns.
    pub wr_id: u64,
    /// The local memory.
    pub piece: Sge,
    /// The operation.
    pub op: Op,
    /// Whether the request generates a completion on success.
    pub signaled: bool,
    /// Whether the call copies the data inline.
    pub inline: bool,
}

impl SendRequest {
    /// The C structure, without its scatter/gather list and its successor.
    pub(super) fn raw(&self) -> ibv_send_wr {
        let rdma =
            |remote: &Remote| ibv_send_wr_wr { rdma: ibv_send_wr_rdma { remote_addr: remote.addr, rkey: remote.rkey } };
        let atomic = |remote: &Remote, compare_add, swap| ibv_send_wr_wr {
            atomic: ibv_send_wr_atomic { remote_addr: remote.addr, compare_add, swap, rkey: remote.rkey },
        };
        let (opcode, wr) = match &self.op {
            Op::Send | Op::SendSolicited | Op::SendXrc(_) => (IBV_WR_SEND, atomic(&Remote::default(), 0, 0)),
            Op::SendImm(_) => (IBV_WR_SEND_WITH_IMM, atomic(&Remote::default(), 0, 0)),
            Op::SendInvalidate(_) => (IBV_WR_SEND_WITH_INV, atomic(&Remote::default(), 0, 0)),
            Op::SendTo(to) => (
                IBV_WR_SEND,
                ibv_send_wr_wr { ud: ibv_send_wr_ud { ah: to.ah.ptr(), remote_qpn: to.qpn, remote_qkey: to.qkey } },
            ),
            Op::SendToImm(to, _) => (
                IBV_WR_SEND_WITH_IMM,
                ibv_send_wr_wr { ud: ibv_send_wr_ud { ah: to.ah.ptr(), remote_qpn: to.qpn, remote_qkey: to.qkey } },
            ),
            Op::Write(remote) => (IBV_WR_RDMA_WRITE, rdma(remote)),
            Op::WriteImm(remote, _) => (IBV_WR_RDMA_WRITE_WITH_IMM, rdma(remote)),
            Op::Read(remote) => (IBV_WR_RDMA_READ, rdma(remote)),
            Op::FetchAdd(remote, add) => (IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(remote, *add, 0)),
            Op::CompareSwap(remote, compare, swap) => (IBV_WR_ATOMIC_CMP_AND_SWP, atomic(remote, *compare, *swap)),
        };
        let imm = match self.op {
            Op::SendToImm(_, imm) | Op::SendImm(imm) | Op::WriteImm(_, imm) => {
                ibv_send_wr_imm { imm_data: imm.to_be() }
            }
            Op::SendInvalidate(invalidate_rkey) => ibv_send_wr_imm { invalidate_rkey },
            _ => ibv_send_wr_imm { imm_data: 0 },
        };
        let remote_srqn = match self.op {
            Op::SendXrc(number) => number,
            _ => 0,
        };
        let mut send_flags = 0;
        if self.signaled {
            send_flags |= IBV_SEND_SIGNALED;
        }
        if self.inline {
            send_flags |= IBV_SEND_INLINE;
        }
        if matches!(self.op, Op::SendSolicited) {
            send_flags |= IBV_SEND_SOLICITED;
        }
        ibv_send_wr {
            wr_id: self.wr_id,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 1,
            opcode,
            send_flags,
            imm,
            wr,
            qp_type: ibv_send_wr_qp_type { xrc: ibv_send_wr_xrc { remote_srqn } },
            op: ibv_send_wr_op { tso: ibv_send_wr_tso { hdr: std::ptr::null_mut(), hdr_sz: 0, mss: 0 } },
        }
    }
}

/// Work requests linked for one call of `ibv_post_send`.
pub struct SendChain {
    pieces: Box<[ibv_sge]>,
    wrs: Box<[ibv_send_wr]>,
    /// Address handles that the requests refer to.
    _ahs: Vec<Ah>,
}

impl SendChain {
    /// Links the requests in order.
    pub fn new(requests: &[SendRequest]) -> SendChain {
        let mut chain = SendChain {
            pieces: requests.iter().map(|r| r.piece.into()).collect(),
            wrs: requests.iter().map(SendRequest::raw).collect(),
            _ahs: requests
                .iter()
                .filter_map(|r| match &r.op {
                    Op::SendTo(to) | Op::SendToImm(to, _) => Some(to.ah.clone()),
                    _ => None,
                })
                .collect(),
        };
        for (wr, piece) in chain.wrs.iter_mut().zip(chain.pieces.iter_mut()) {
            wr.sg_list = piece;
        }
        chain
    }

    /// Sets whether request `index` generates a completion.
    pub fn set_signaled(&mut self, index: usize, signaled: bool) {
        let flags = &mut self.wrs[index].send_flags;
        *flags = *flags & !IBV_SEND_SIGNALED | if signaled { IBV_SEND_SIGNALED } else { 0 };
    }

    /// Sets all flags of request `index`: `IBV_SEND_*`.
    pub fn set_flags(&mut self, index: usize, flags: u32) {
        self.wrs[index].send_flags = flags;
    }

    /// Links the first `count` requests and terminates the list. Null if there are none.
    pub(super) fn linked(&mut self, count: usize) -> *mut ibv_send_wr {
        let count = count.min(self.wrs.len());
        let first = self.wrs.as_mut_ptr();
        if count == 0 {
            return std::ptr::null_mut();
        }
        for i in 0..count {
            // `wrapping_add` stays within the boxed slice: i + 1 < count there.
            self.wrs[i].next = if i + 1 < count { first.wrapping_add(i + 1) } else { std::ptr::null_mut() };
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op) -> SendRequest {
        SendRequest { wr_id: 7, piece: Sge { addr: 0x1000, length: 8, lkey: 5 }, op, signaled: true, inline: false }
    }

    #[test]
    fn a_chain_is_cut_where_it_is_told() {
        let remote = Remote { addr: 64, rkey: 9 };
        let mut chain =
            SendChain::new(&[request(Op::Send), request(Op::Write(remote)), request(Op::FetchAdd(remote, 1))]);
        chain.set_signaled(0, false);
        for count in 1..=3 {
            let mut wr = chain.linked(count);
            let mut seen = 0;
            while !wr.is_null() {
                seen += 1;
                // SAFETY: the chain's own requests, alive and linked to one another.
                unsafe {
                    assert_eq!((*(*wr).sg_list).lkey, 5);
                    wr = (*wr).next;
                }
            }
            assert_eq!(seen, count);
        }
        assert!(chain.linked(0).is_null());
        let invalidating = request(Op::SendInvalidate(77)).raw();
        // SAFETY: both members of the union are plain numbers.
        assert_eq!((invalidating.opcode, unsafe { invalidating.imm.invalidate_rkey }), (IBV_WR_SEND_WITH_INV, 77));
        assert_eq!(chain.wrs[0].send_flags, 0);
        assert_eq!(chain.wrs[1].send_flags, IBV_SEND_SIGNALED);
    }
}
