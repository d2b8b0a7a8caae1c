//! The memory and completion queues of a replay, and its requests as verbs have them.

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC, IBV_QPT_UC, IBV_WC_WITH_IMM};
use weft_client::verbs::{Buffer, Context, Cq, Op, Pd, Qp, QpRequest, Remote, SendChain, SendRequest, Wc};
use weft_record::{Operation, RequestInfo};
use weft_replay::{Expected, Plan, Queue};

/// Bytes of the pattern that are written at a time.
const PIECE_BYTES: usize = 4096;

/// Objects that all requests share: their payload is not compared, so that requests may overlap in memory.
pub struct Objects {
    send_cq: Cq,
    recv_cq: Cq,
    /// Sources of sends.
    out: Buffer,
    /// Destinations of receives, READs and atomics.
    into: Buffer,
}

impl Objects {
    /// Creates the objects of a plan on a device.
    pub fn new(context: &Context, pd: &Pd, plan: &Plan, seed: u64) -> Result<Objects, String> {
        let failed = |what: &'static str| move |e: std::io::Error| format!("{what}: {}", crate::errno::text(&e));
        let cq = |depth: u32| Cq::new(context, depth.max(1), None).map_err(failed("ibv_create_cq"));
        let sends = plan.length_max(Queue::Send) as usize;
        let receives = plan.length_max(Queue::Receive) as usize;
        let buffer =
            |length: usize| Buffer::new(pd, length.max(1), IBV_ACCESS_LOCAL_WRITE, false).map_err(failed("ibv_reg_mr"));
        let objects = Objects {
            send_cq: cq(plan.capacity.max_send_wr)?,
            recv_cq: cq(plan.capacity.max_recv_wr)?,
            out: buffer(sends)?,
            into: buffer(sends.max(receives))?,
        };
        objects.write_pattern(sends, seed);
        Ok(objects)
    }

    /// Returns the attributes of the queue pair.
    pub fn request(&self, plan: &Plan) -> QpRequest<'_> {
        QpRequest {
            qp_type: if plan.is_reliable { IBV_QPT_RC } else { IBV_QPT_UC },
            send_cq: &self.send_cq,
            recv_cq: &self.recv_cq,
            srq: None,
            xrcd: None,
            max_send_wr: plan.capacity.max_send_wr,
            max_recv_wr: plan.capacity.max_recv_wr,
            max_inline_data: plan.capacity.max_inline_data,
            extended: false,
        }
    }

    /// Posts a request. A list of several pieces becomes one piece of the same length.
    pub fn post(&self, qp: &Qp, wr_id: u64, plan: &Plan, request: &RequestInfo) -> std::io::Result<()> {
        let length = request.length as usize;
        if request.operation == Operation::RECEIVE {
            return qp.post_recv(wr_id, self.into.sge(0, length));
        }
        let remote = Remote { addr: request.remote_addr, rkey: request.rkey };
        let op = match request.operation {
            Operation::SEND => Op::Send,
            Operation::SEND_WITH_IMM => Op::SendImm(request.imm),
            Operation::RDMA_WRITE => Op::Write(remote),
            Operation::RDMA_WRITE_WITH_IMM => Op::WriteImm(remote, request.imm),
            Operation::RDMA_READ => Op::Read(remote),
            Operation::ATOMIC_CMP_AND_SWP => Op::CompareSwap(remote, 0, 0),
            Operation::ATOMIC_FETCH_AND_ADD => Op::FetchAdd(remote, 0),
            // The plan refused all others.
            _ => return Err(std::io::ErrorKind::Unsupported.into()),
        };
        let is_filled = matches!(op, Op::Read(_) | Op::CompareSwap(..) | Op::FetchAdd(..));
        let piece = if is_filled { self.into.sge(0, length) } else { self.out.sge(0, length) };
        let signaled = plan.is_signaled(request);
        let mut chain = SendChain::new(&[SendRequest { wr_id, piece, op, signaled, inline: false }]);
        chain.set_flags(0, u32::from(request.flags));
        chain.set_signaled(0, signaled);
        qp.post_chain(&mut chain, 1)
    }

    /// Polls both queues.
    pub fn poll(&self, mut on_wc: impl FnMut(&Wc)) -> Result<usize, String> {
        let failed = |e: std::io::Error| format!("ibv_poll_cq: {}", crate::errno::text(&e));
        let sends = self.send_cq.poll::<16>(&mut on_wc).map_err(failed)?;
        Ok(sends + self.recv_cq.poll::<16>(&mut on_wc).map_err(failed)?)
    }

    fn write_pattern(&self, length: usize, seed: u64) {
        let mut state = seed;
        for at in (0..length).step_by(PIECE_BYTES) {
            let piece = pattern(&mut state);
            self.out.write(at, &piece[..PIECE_BYTES.min(length - at)]);
        }
    }
}

/// Returns the next bytes of a pattern (SplitMix64).
fn pattern(state: &mut u64) -> [u8; PIECE_BYTES] {
    let mut piece = [0; PIECE_BYTES];
    for word in piece.as_chunks_mut::<8>().0 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = (mixed ^ mixed >> 31).to_le_bytes();
    }
    piece
}

/// Describes a completion at a time.
pub fn seen(at: u64, wc: &Wc) -> Expected {
    let imm = (wc.flags() & IBV_WC_WITH_IMM != 0).then(|| wc.imm());
    Expected { at, status: wc.status() as u8, opcode: wc.opcode() as u8, bytes: wc.byte_len(), imm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_follows_from_its_seed() {
        let of = |mut seed: u64| [pattern(&mut seed), pattern(&mut seed)];
        assert_eq!(of(1), of(1));
        let [first, second] = of(1);
        assert!(first != second && first != of(2)[0]);
        // The generator's published first output for the seed 0.
        assert_eq!(of(0)[0][..8], 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
    }
}
