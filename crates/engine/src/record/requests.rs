//! Work requests as the record has them.

use weft_hca::PostedRequest;
use weft_record::{Operation, RequestInfo};
use weft_verbs::{RemoteTarget, SendOp};

/// Describes a work request. Its payload is not recorded, nor are the operands of atomics.
pub fn describe(posted: &PostedRequest) -> RequestInfo {
    let (operation, remote, imm) = match posted.op {
        None => (Operation::RECEIVE, None, 0),
        Some(op) => describe_op(op),
    };
    let remote = remote.unwrap_or_default();
    RequestInfo {
        wr_id: posted.wr_id,
        operation,
        flags: posted.flags.bits() as u8,
        sges: u8::try_from(posted.sges).unwrap_or(u8::MAX),
        length: u32::try_from(posted.length).unwrap_or(u32::MAX),
        imm,
        remote_addr: remote.addr,
        rkey: remote.rkey,
    }
}

fn describe_op(op: SendOp) -> (Operation, Option<RemoteTarget>, u32) {
    match op {
        SendOp::Send => (Operation::SEND, None, 0),
        SendOp::SendImm(imm) => (Operation::SEND_WITH_IMM, None, u32::from_be(imm)),
        SendOp::SendInv(key) => (Operation::SEND_WITH_INV, None, key),
        SendOp::Write(to) => (Operation::RDMA_WRITE, Some(to), 0),
        SendOp::WriteImm(to, imm) => (Operation::RDMA_WRITE_WITH_IMM, Some(to), u32::from_be(imm)),
        SendOp::Read(from) => (Operation::RDMA_READ, Some(from), 0),
        SendOp::CompareSwap { target, .. } => (Operation::ATOMIC_CMP_AND_SWP, Some(target), 0),
        SendOp::FetchAdd { target, .. } => (Operation::ATOMIC_FETCH_AND_ADD, Some(target), 0),
        SendOp::AtomicWrite(to) => (Operation::ATOMIC_WRITE, Some(to), 0),
        SendOp::Flush { target, .. } => (Operation::FLUSH, Some(target), 0),
        SendOp::BindMw(_) => (Operation::BIND_MW, None, 0),
        SendOp::LocalInv(key) => (Operation::LOCAL_INV, None, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::SendFlags;

    #[test]
    fn a_request_is_described_without_its_payload() {
        let target = RemoteTarget { addr: 0x1000, rkey: 9 };
        let op = Some(SendOp::WriteImm(target, 7_u32.to_be()));
        let flags = SendFlags::SIGNALED | SendFlags::INLINE;
        let posted = PostedRequest { qpn: 5, wr_id: 3, op, flags, sges: 2, length: 100 };
        let (operation, remote_addr) = (Operation::RDMA_WRITE_WITH_IMM, 0x1000);
        let expected =
            RequestInfo { wr_id: 3, operation, flags: 0xa, sges: 2, length: 100, imm: 7, remote_addr, rkey: 9 };
        assert_eq!(describe(&posted), expected);
        let receive = describe(&PostedRequest { op: None, flags: SendFlags::empty(), length: 1 << 40, ..posted });
        assert_eq!((receive.operation, receive.length, receive.rkey), (Operation::RECEIVE, u32::MAX, 0));
    }
}
