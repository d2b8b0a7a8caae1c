//! Connections: connecting, accepting, rejecting, disconnecting.

use libc::{c_int, c_void};
use weft_abi_types::{
    RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES, RDMA_PS_TCP, ibv_event_type, rdma_cm_id, rdma_conn_param,
};
use weft_cm::rdma_cm::{Command, ConnParam, Ece};
use weft_verbs::injection::Call;

use crate::complete::complete;
use crate::device::Device;
use crate::errors::code;
use crate::event::give_back;
use crate::id::Id;
use crate::{answer, failure, qp_state};

/// Default retries: the maximum.
const RETRY_COUNT_DEFAULT: u8 = 7;

/// REJ reason "vendor option not supported".
const REJECT_VENDOR_OPTION: u8 = 35;

/// Requests a connection from the peer. If the peer accepts, ESTABLISHED follows, or CONNECT_RESPONSE if the identifier
/// has no queue pair.
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { connect(id, conn_param) })
}

unsafe fn connect(id: *mut rdma_cm_id, given: *const rdma_conn_param) -> Result<(), c_int> {
    // SAFETY: the program's identifier and parameters or null.
    unsafe {
        let this = Id::of_argument(id)?;
        let given = given.as_ref();
        let device = this.device()?;
        check(this, &device, given)?;
        let ece = {
            let mut state = this.state.lock();
            state.initiator_depth = match given {
                Some(param) if param.initiator_depth != RDMA_MAX_INIT_DEPTH => param.initiator_depth,
                _ => device.max_initiator_depth,
            };
            state.responder_resources = match given {
                Some(param) if param.responder_resources != RDMA_MAX_RESP_RES => param.responder_resources,
                _ => device.max_responder_resources,
            };
            Ece { vendor_id: state.local_ece.vendor_id, attr_mod: state.local_ece.options }
        };
        let param = parameters(this, given)?;
        if !failure::of_work(this, Call::CmConnect)? {
            this.order(Command::Connect { id: this.number, param, ece })?;
        }
        this.state.lock().connect.clear();
        complete(id)
    }
}

/// Accepts a peer's connection request; ESTABLISHED follows.
pub unsafe extern "C" fn rdma_accept(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { accept(id, conn_param) })
}

unsafe fn accept(id: *mut rdma_cm_id, given: *const rdma_conn_param) -> Result<(), c_int> {
    // SAFETY: the program's identifier and parameters or null.
    unsafe {
        let this = Id::of_argument(id)?;
        let given = given.as_ref();
        if (*id).qp.is_null() && given.is_none() {
            return Err(libc::EINVAL);
        }
        let device = this.device()?;
        check(this, &device, given)?;
        failure::of_call(Some(this), Call::CmAccept)?;
        let (responder_resources, initiator_depth, ece) = {
            let mut state = this.state.lock();
            state.initiator_depth = match given {
                Some(param) if param.initiator_depth != RDMA_MAX_INIT_DEPTH => param.initiator_depth,
                _ => state.initiator_depth.min(device.max_initiator_depth),
            };
            state.responder_resources = match given {
                Some(param) if param.responder_resources != RDMA_MAX_RESP_RES => param.responder_resources,
                _ => state.responder_resources.min(device.max_responder_resources),
            };
            // The vendor is the peer's, because these options answer its offer.
            let ece = Ece { vendor_id: state.remote_ece.vendor_id, attr_mod: state.local_ece.options };
            (state.responder_resources, state.initiator_depth, ece)
        };
        if !this.is_ud() {
            qp_state::to_rtr(this, responder_resources)?;
            qp_state::to_rts(this, initiator_depth)?;
        }
        let param = parameters(this, given)?;
        let accepted = this.order(Command::Accept { id: this.number, cookie: this.cookie, param: Some(param), ece });
        if let Err(errno) = accepted {
            let _ = qp_state::to_error(this);
            return Err(errno);
        }
        if !this.is_ud() {
            return complete(id);
        }
        if this.state.lock().sync {
            give_back(id);
        }
        Ok(())
    }
}

/// Checks parameters locally: they are required without a queue pair, and the device bounds them.
fn check(id: &Id, device: &Device, given: Option<&rdma_conn_param>) -> Result<(), c_int> {
    // SAFETY: plain reads of the program's live identifier.
    let (ps, qp) = unsafe { ((*id.public()).ps, (*id.public()).qp) };
    if ps != RDMA_PS_TCP {
        return Ok(());
    }
    let fits = match given {
        None => !qp.is_null(),
        Some(param) => {
            let (resources, depth) = (param.responder_resources, param.initiator_depth);
            (resources == RDMA_MAX_RESP_RES || resources <= device.max_responder_resources)
                && (depth == RDMA_MAX_INIT_DEPTH || depth <= device.max_initiator_depth)
        }
    };
    if fits { Ok(()) } else { Err(libc::EINVAL) }
}

/// Builds the parameters for the daemon; a queue pair, if there is one, supplies its own numbers.
unsafe fn parameters(id: &Id, given: Option<&rdma_conn_param>) -> Result<ConnParam, c_int> {
    let qp = unsafe {
        // SAFETY: a queue pair that the program's own calls set, alive as long as it is set.
        (*id.public()).qp.as_ref().map(|qp| (qp.qp_num, !qp.srq.is_null()))
    };
    let (qp_num, srq) = qp.or(given.map(|param| (param.qp_num, param.srq != 0))).unwrap_or_default();
    let state = id.state.lock();
    let mut param = ConnParam {
        qp_num,
        srq,
        responder_resources: state.responder_resources,
        initiator_depth: state.initiator_depth,
        retry_count: RETRY_COUNT_DEFAULT,
        rnr_retry_count: RETRY_COUNT_DEFAULT,
        private_data: state.connect.clone(),
        ..ConnParam::default()
    };
    if let Some(given) = given {
        param.flow_control = given.flow_control;
        param.retry_count = given.retry_count;
        param.rnr_retry_count = given.rnr_retry_count;
        // SAFETY: the program's private data, of the length given.
        param.private_data.extend_from_slice(unsafe { bytes(given.private_data, given.private_data_len) });
    }
    if param.private_data.len() > weft_cm::rdma_cm::limits::PRIVATE_DATA_BYTES_MAX {
        return Err(libc::EINVAL);
    }
    Ok(param)
}

/// Returns a program's private data; null means none.
unsafe fn bytes<'a>(data: *const c_void, len: u8) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data.cast(), usize::from(len)) }
}

/// Completes a connection after CONNECT_RESPONSE, for a program that moves its own queue pair.
pub unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the program's identifier.
    code(unsafe {
        Id::of_argument(id).and_then(|this| if (*id).qp.is_null() { answer::complete(this) } else { Err(libc::EINVAL) })
    })
}

unsafe fn reject(id: *mut rdma_cm_id, data: *const c_void, len: u8, reason: u8) -> c_int {
    // SAFETY: the program's identifier, and its private data.
    code(unsafe {
        Id::of_argument(id).and_then(|this| {
            let private_data = bytes(data, len).to_vec();
            this.order(Command::Reject { id: this.number, private_data, reason })
        })
    })
}

/// Rejects a peer's connection request.
pub unsafe extern "C" fn rdma_reject(id: *mut rdma_cm_id, private_data: *const c_void, private_data_len: u8) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { reject(id, private_data, private_data_len, 0) }
}

/// Rejects a connection because of the peer's offered options.
pub unsafe extern "C" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { reject(id, private_data, private_data_len, REJECT_VENDOR_OPTION) }
}

/// Reports a queue pair event that came before the connection was established: COMM_EST.
pub unsafe extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int {
    // SAFETY: the program's identifier.
    code(unsafe { Id::of_argument(id) }.and_then(|this| this.order(Command::Notify { id: this.number, event })))
}

/// Ends a connection: moves the queue pair to ERR; both ends get DISCONNECTED.
pub unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the program's identifier.
    code(unsafe {
        shut_down(id).and_then(|()| {
            Id::of(id).order(Command::Disconnect { id: Id::of(id).number })?;
            complete(id)
        })
    })
}

/// The queue pair's part of [`rdma_disconnect`].
pub(crate) unsafe fn shut_down(id: *mut rdma_cm_id) -> Result<(), c_int> {
    // SAFETY: the program's identifier.
    let this = unsafe { Id::of_argument(id)? };
    this.device()?;
    qp_state::to_error(this)
}
