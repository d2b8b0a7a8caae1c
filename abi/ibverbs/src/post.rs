//! Posting work requests.

use libc::c_int;
use weft_abi_types::{ibv_qp, ibv_recv_wr, ibv_send_wr};
use weft_verbs::injection::Call;
use weft_verbs::{QpType, SendFlags, SendWr, UdTarget, VerbsError};

use crate::ah::Ah;
use crate::alignment::Copies;
use crate::errors::{fail, of_verbs};
use crate::object::Object;
use crate::operations::send_op;
use crate::process::Adapter;
use crate::qp::Qp;
use crate::recv_list::{Sges, post_recvs, sges};

/// Converts a work request. The adapter checks which operations a queue pair type supports.
///
/// # Safety
/// `wr` is a work request filled in as its opcode requires, for a queue pair of this type.
#[inline]
unsafe fn send_wr<'a>(wr: &'a ibv_send_wr, qp_type: QpType, lists: &'a mut Sges) -> Result<SendWr<'a>, VerbsError> {
    // SAFETY: by the contract, for every member of the unions: opcode and type determine which is filled in.
    unsafe {
        let op = send_op(wr)?;
        let ud = if qp_type == QpType::Ud {
            let ud = wr.wr.ud;
            if ud.ah.is_null() {
                return Err(VerbsError::Invalid("a datagram names no address handle"));
            }
            Some(UdTarget { av: Ah::of(ud.ah).av, remote_qpn: ud.remote_qpn, remote_qkey: ud.remote_qkey })
        } else {
            None
        };
        Ok(SendWr {
            wr_id: wr.wr_id,
            flags: SendFlags::from_bits(wr.send_flags).ok_or(VerbsError::Invalid("send_flags"))?,
            op,
            sges: sges(wr.sg_list, wr.num_sge, lists)?,
            ud,
            xrc_srqn: (qp_type == QpType::XrcSend).then_some(wr.qp_type.xrc.remote_srqn),
        })
    }
}

pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a queue pair of ours: this is the fast path, and C calls it through the queue pair itself.
    let this = unsafe { Qp::of_plain(qp) };
    let mut at = wr;
    let posted = this.process.post_sends(this.id, |poster| {
        while !at.is_null() {
            let (mut requests, mut lists) = (Copies::<_, 1>::new(), Sges::new());
            // SAFETY: the caller's list.
            let [request] = (unsafe { requests.aligned(at, 1) }) else { break };
            // SAFETY: as above.
            poster.post(&unsafe { send_wr(request, this.qp_type, &mut lists) }?)?;
            at = request.next;
        }
        Ok(())
    });
    match posted {
        Ok(()) => 0,
        Err(error) => {
            // Reports the refused request; the requests before it are posted.
            if !bad_wr.is_null() {
                // SAFETY: the caller's place for the answer.
                unsafe { *bad_wr = at };
            }
            fail(of_verbs(error))
        }
    }
}

pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue pair of ours, and the caller's list.
    unsafe {
        let this = Qp::of_plain(qp);
        let may_post = |hca: &mut Adapter| hca.may_call_for_qp(this.id, Call::PostRecv);
        post_recvs(this.process, wr, bad_wr, may_post, |hca, request| hca.post_recv(this.id, request))
    }
}
