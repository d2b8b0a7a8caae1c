//! The C side of the table of operations: the constants that stand for them, what capabilities say of them, and the
//! calls that build them. [`weft_verbs::op`] has everything else about an operation.

use libc::c_void;
use std::ffi::CStr;
use weft_abi_types::{
    IBV_DEVICE_ATOMIC_WRITE, IBV_DEVICE_FLUSH_GLOBAL, IBV_DEVICE_FLUSH_PERSISTENT, IBV_ODP_SUPPORT_ATOMIC,
    IBV_ODP_SUPPORT_ATOMIC_WRITE, IBV_ODP_SUPPORT_FLUSH, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV,
    IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_FLUSH,
    IBV_QP_EX_WITH_LOCAL_INV, IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, be32,
    ibv_mw, ibv_mw_bind_info, ibv_qp_ex, ibv_send_wr,
};
use weft_verbs::{QpType, RemoteTarget, SendOp, VerbsError};

use crate::errors::of_verbs;
use crate::mw::bind_of;
use crate::qp_ex::{begin, set_inline};

/// Names of the opcodes of work requests.
pub(crate) const WR_OPCODES: [&CStr; 16] = [
    c"IBV_WR_RDMA_WRITE",
    c"IBV_WR_RDMA_WRITE_WITH_IMM",
    c"IBV_WR_SEND",
    c"IBV_WR_SEND_WITH_IMM",
    c"IBV_WR_RDMA_READ",
    c"IBV_WR_ATOMIC_CMP_AND_SWP",
    c"IBV_WR_ATOMIC_FETCH_AND_ADD",
    c"IBV_WR_LOCAL_INV",
    c"IBV_WR_BIND_MW",
    c"IBV_WR_SEND_WITH_INV",
    c"IBV_WR_TSO",
    c"IBV_WR_DRIVER1",
    c"IBV_WR_UNKNOWN",
    c"IBV_WR_UNKNOWN",
    c"IBV_WR_FLUSH",
    c"IBV_WR_ATOMIC_WRITE",
];

/// Extended capabilities of a device that are operations.
pub(crate) const DEVICE_CAPS: u64 = IBV_DEVICE_FLUSH_GLOBAL | IBV_DEVICE_FLUSH_PERSISTENT | IBV_DEVICE_ATOMIC_WRITE;

/// Memory is used in place, so every operation supports pages that become present on access.
const ODP_SEND_RECV: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
/// Operations on such pages on RC and XRC.
pub(crate) const ODP_RC: u32 = ODP_SEND_RECV
    | IBV_ODP_SUPPORT_WRITE
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_FLUSH
    | IBV_ODP_SUPPORT_ATOMIC_WRITE;
/// Operations on such pages on UC.
pub(crate) const ODP_UC: u32 = ODP_SEND_RECV | IBV_ODP_SUPPORT_WRITE;
/// Operations on such pages on UD.
pub(crate) const ODP_UD: u32 = ODP_SEND_RECV;

/// Most bytes that a builder puts into a request inline: the value of an ATOMIC WRITE.
pub(crate) const BUILDER_INLINE_MAX: u32 = size_of::<u64>() as u32;

/// Returns the operations that a queue pair type can build, as `send_ops_flags`.
pub(crate) fn send_ops_of(qp_type: u32) -> u64 {
    const SEND: u32 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const WRITE: u32 = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    const KEYS: u32 = IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    const ACKNOWLEDGED: u32 = IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_ATOMIC_WRITE
        | IBV_QP_EX_WITH_FLUSH;
    u64::from(match QpType::from_enum(qp_type) {
        Some(QpType::Rc | QpType::XrcSend) => SEND | WRITE | KEYS | ACKNOWLEDGED,
        Some(QpType::Uc) => SEND | WRITE | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
        Some(QpType::Ud) => SEND,
        Some(QpType::XrcRecv) | None => 0,
    })
}

/// Returns the operation of a work request with its parameters.
///
/// # Safety
/// The work request is filled in as its opcode requires.
#[inline]
pub(crate) unsafe fn send_op(wr: &ibv_send_wr) -> Result<SendOp, VerbsError> {
    // SAFETY: by the contract, for every member of the unions.
    unsafe {
        let rdma = || RemoteTarget { addr: wr.wr.rdma.remote_addr, rkey: wr.wr.rdma.rkey };
        let atomic = || RemoteTarget { addr: wr.wr.atomic.remote_addr, rkey: wr.wr.atomic.rkey };
        Ok(match wr.opcode {
            IBV_WR_SEND => SendOp::Send,
            IBV_WR_RDMA_WRITE => SendOp::Write(rdma()),
            IBV_WR_RDMA_READ => SendOp::Read(rdma()),
            IBV_WR_SEND_WITH_IMM => SendOp::SendImm(wr.imm.imm_data),
            IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm(rdma(), wr.imm.imm_data),
            IBV_WR_SEND_WITH_INV => SendOp::SendInv(wr.imm.invalidate_rkey),
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                SendOp::CompareSwap { target: atomic(), compare: wr.wr.atomic.compare_add, swap: wr.wr.atomic.swap }
            }
            IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd { target: atomic(), add: wr.wr.atomic.compare_add },
            IBV_WR_ATOMIC_WRITE => SendOp::AtomicWrite(rdma()),
            IBV_WR_LOCAL_INV => SendOp::LocalInv(wr.imm.invalidate_rkey),
            IBV_WR_BIND_MW => {
                let bind = wr.op.bind_mw;
                if bind.mw.is_null() {
                    return Err(VerbsError::Invalid("a bind names no window"));
                }
                SendOp::BindMw(bind_of(bind.mw, bind.rkey, &bind.bind_info)?)
            }
            _ => return Err(VerbsError::Invalid("opcode")),
        })
    }
}

macro_rules! builders {
    ($($name:ident($($arg:ident: $ty:ty),*) $op:expr;)*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $arg: $ty)*) {
            // SAFETY: C builds only between start and completion.
            unsafe { begin(qp, Ok($op)) };
        }
    )*};
}

fn target(addr: u64, rkey: u32) -> RemoteTarget {
    RemoteTarget { addr, rkey }
}

builders! {
    wr_send() SendOp::Send;
    wr_send_imm(imm_data: be32) SendOp::SendImm(imm_data);
    wr_send_inv(invalidate_rkey: u32) SendOp::SendInv(invalidate_rkey);
    wr_local_inv(invalidate_rkey: u32) SendOp::LocalInv(invalidate_rkey);
    wr_rdma_read(rkey: u32, addr: u64) SendOp::Read(target(addr, rkey));
    wr_rdma_write(rkey: u32, addr: u64) SendOp::Write(target(addr, rkey));
    wr_rdma_write_imm(rkey: u32, addr: u64, imm_data: be32) SendOp::WriteImm(target(addr, rkey), imm_data);
    wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64)
        SendOp::CompareSwap { target: target(addr, rkey), compare, swap };
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) SendOp::FetchAdd { target: target(addr, rkey), add };
}

unsafe extern "C" fn wr_bind_mw(qp: *mut ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, bind_info: *const ibv_mw_bind_info) {
    // SAFETY: C builds only between start and completion; a window of ours, and the caller's description.
    unsafe {
        let bind = match bind_info.as_ref() {
            Some(info) if !mw.is_null() => bind_of(mw, rkey, info).map_err(of_verbs),
            _ => Err(libc::EINVAL),
        };
        begin(qp, bind.map(SendOp::BindMw));
    }
}

unsafe extern "C" fn wr_atomic_write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, value: *const c_void) {
    // SAFETY: C builds only between start and completion; the value is eight bytes at any address.
    unsafe {
        begin(qp, Ok(SendOp::AtomicWrite(target(addr, rkey))));
        set_inline(qp, std::iter::once((value, size_of::<u64>())));
    }
}

unsafe extern "C" fn wr_flush(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, len: usize, placement: u8, level: u8) {
    let op = u32::try_from(len).map_err(|_| libc::EINVAL).map(|length| SendOp::Flush {
        target: target(addr, rkey),
        length,
        placement,
        level,
    });
    // SAFETY: C builds only between start and completion.
    unsafe { begin(qp, op) };
}

/// Fills in the calls that build a request.
pub(crate) fn fill_builders(public: &mut ibv_qp_ex) {
    public.wr_send = Some(wr_send);
    public.wr_send_imm = Some(wr_send_imm);
    public.wr_send_inv = Some(wr_send_inv);
    public.wr_local_inv = Some(wr_local_inv);
    public.wr_bind_mw = Some(wr_bind_mw);
    public.wr_rdma_read = Some(wr_rdma_read);
    public.wr_rdma_write = Some(wr_rdma_write);
    public.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    public.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    public.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    public.wr_atomic_write = Some(wr_atomic_write);
    public.wr_flush = Some(wr_flush);
}
