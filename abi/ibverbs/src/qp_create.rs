//! Creating queue pairs, and opening those of XRC targets.

use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::Arc;
use weft_abi_types::{
    IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_INIT_ATTR_XRCD,
    IBV_QP_OPEN_ATTR_CONTEXT, IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_TYPE, IBV_QP_OPEN_ATTR_XRCD, IBV_QPT_XRC_RECV,
    ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_srq,
    ibv_xrcd, verbs_qp,
};
use weft_verbs::{QpId, QpInit, QpType};

use crate::async_item::Reported;
use crate::builder::Builder;
use crate::context::{Context, contexts_of, of_one};
use crate::cq::Cq;
use crate::errors::{fail_null, pointer};
use crate::object::{Object, init_sync, zeroed};
use crate::operations::{BUILDER_INLINE_MAX, fill_builders, send_ops_of};
use crate::owned::Owned;
use crate::pd::Pd;
use crate::qp::{Handles, Qp, VERBS_QP_EX};
use crate::qp_attr::{cap_of, cap_to_c};
use crate::qp_ex::fill_calls;
use crate::srq::Srq;
use crate::xrc::Xrcd;

/// Parameters of all creation calls.
struct Request<'a> {
    context: &'a Context,
    pd: *mut ibv_pd,
    xrcd: *mut ibv_xrcd,
    qp_context: *mut c_void,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    qp_type: u32,
    sq_sig_all: bool,
    extended: bool,
}

/// Creates the C object for a queue pair of the adapter.
fn object(request: &Request<'_>, qp_type: QpType, handles: Arc<Handles>, cap: ibv_qp_cap) -> Box<Qp> {
    let mut public: verbs_qp = zeroed();
    if request.extended {
        public.comp_mask = VERBS_QP_EX;
    }
    let base = &mut public.qp_ex.qp_base;
    base.context = request.context.public();
    base.qp_context = request.qp_context;
    base.pd = request.pd;
    base.send_cq = request.send_cq;
    base.recv_cq = request.recv_cq;
    base.srq = request.srq;
    base.qp_type = request.qp_type;
    fill_calls(&mut public.qp_ex);
    fill_builders(&mut public.qp_ex);
    let mut init: ibv_qp_init_attr = zeroed();
    init.qp_context = request.qp_context;
    init.send_cq = request.send_cq;
    init.recv_cq = request.recv_cq;
    init.srq = request.srq;
    init.cap = cap;
    init.qp_type = request.qp_type;
    init.sq_sig_all = c_int::from(request.sq_sig_all);
    Box::new(Qp {
        public: UnsafeCell::new(public),
        id: QpId { index: 0, generation: 0 },
        process: request.context.process,
        qp_type,
        reported: Reported::default(),
        handles,
        init: UnsafeCell::new(init),
        builder: Builder::default(),
    })
}

/// Hands an object to the program, now that the adapter has its queue pair.
fn publish(mut object: Box<Qp>, id: QpId, qpn: u32) -> *mut ibv_qp {
    object.id = id;
    object.context().own(Owned::Qp(id));
    let qp: *mut Qp = Box::into_raw(object);
    qp.expose_provenance();
    let public: *mut ibv_qp = qp.cast();
    // SAFETY: just created, and no other code knows it yet.
    unsafe {
        (*public).handle = id.index;
        (*public).qp_num = qpn;
        init_sync(&raw mut (*public).mutex, &raw mut (*public).cond);
        let this = &*qp;
        this.handles.add(this);
        if !(*public).pd.is_null() {
            Pd::of((*public).pd).hold();
        }
    }
    public
}

fn create(request: &Request<'_>, cap: &mut ibv_qp_cap) -> Result<*mut ibv_qp, c_int> {
    let qp_type = QpType::from_enum(request.qp_type).ok_or(libc::EOPNOTSUPP)?;
    // A target has no domain of its own; all other types need one, and completion queues.
    let target = qp_type == QpType::XrcRecv;
    let missing = if target {
        request.xrcd.is_null()
    } else {
        request.pd.is_null() || request.send_cq.is_null() || (request.recv_cq.is_null() && qp_type != QpType::XrcSend)
    };
    if missing {
        return Err(libc::EINVAL);
    }
    // SAFETY: objects of ours, or null.
    let parts = unsafe { contexts_of!(request.pd, request.xrcd, request.send_cq, request.recv_cq, request.srq) };
    of_one(request.context.public(), &parts)?;
    let handles = Arc::new(Handles::default());
    let mut wanted = cap_of(cap);
    if request.extended && matches!(qp_type, QpType::Rc | QpType::XrcSend) {
        // Some builders put a value into the request, whatever size the program requested.
        wanted.max_inline_data = wanted.max_inline_data.max(BUILDER_INLINE_MAX);
    }
    // SAFETY: objects of ours, or null.
    let init = unsafe {
        QpInit {
            qp_type,
            pd: (!request.pd.is_null()).then(|| Pd::of(request.pd).id),
            send_cq: (!request.send_cq.is_null()).then(|| Cq::of_plain(request.send_cq).id),
            recv_cq: (!request.recv_cq.is_null()).then(|| Cq::of_plain(request.recv_cq).id),
            srq: (!request.srq.is_null()).then(|| Srq::of(request.srq).id),
            xrcd: (!request.xrcd.is_null()).then(|| Xrcd::of(request.xrcd).id),
            cap: wanted,
            sq_sig_all: request.sq_sig_all,
            cookie: Arc::as_ptr(&handles).expose_provenance() as u64,
        }
    };
    let (id, qpn, granted) = request.context.process.control(|hca, _| hca.create_qp(request.context.device, &init))?;
    *cap = cap_to_c(&granted);
    Ok(publish(object(request, qp_type, handles, *cap), id, qpn))
}

/// Creates a queue pair.
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    if pd.is_null() || init_attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: a domain of ours, and the caller's attributes, which receive the granted sizes.
    let (this, init) = unsafe { (Pd::of(pd), &mut *init_attr) };
    let request = Request {
        context: this.context(),
        pd,
        xrcd: null_mut(),
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all != 0,
        extended: false,
    };
    pointer(create(&request, &mut init.cap))
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    init_attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    const MASK: u32 =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if context.is_null() || init_attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: a context of ours, and the caller's attributes, which receive the granted sizes; later additions to the
    // structure are read only if comp_mask names them.
    let (this, init) = unsafe { (Context::of(context), &mut *init_attr) };
    let given = |mask: u32| init.comp_mask & mask != 0;
    if init.comp_mask & !MASK != 0 || (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && init.create_flags != 0) {
        return fail_null(libc::EOPNOTSUPP);
    }
    let extended = given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    if extended && init.send_ops_flags & !send_ops_of(init.qp_type) != 0 {
        return fail_null(libc::EOPNOTSUPP);
    }
    let request = Request {
        context: this,
        pd: if given(IBV_QP_INIT_ATTR_PD) { init.pd } else { null_mut() },
        xrcd: if given(IBV_QP_INIT_ATTR_XRCD) { init.xrcd } else { null_mut() },
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all != 0,
        extended,
    };
    pointer(create(&request, &mut init.cap))
}

fn open(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> Result<*mut ibv_qp, c_int> {
    const NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if context.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a context of ours, and the caller's attributes.
    let (this, attr) = unsafe { (Context::of(context), &*attr) };
    if attr.comp_mask & !(NEEDED | IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != IBV_QPT_XRC_RECV || attr.xrcd.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let xrcd = unsafe {
        of_one(context, &contexts_of!(attr.xrcd))?;
        Xrcd::of(attr.xrcd).id
    };
    let (id, handles) = this.process.control(|hca, _| {
        let id = hca.open_qp(xrcd, attr.qp_num)?;
        let (_, init) = hca.query_qp(id)?;
        let list: *const Handles = std::ptr::with_exposed_provenance(init.cookie as usize);
        // SAFETY: the adapter has the queue pair, so a handle of it is alive and keeps the list, which came from an
        // Arc; the adapter is locked, so no handle can go away now.
        let handles = unsafe {
            Arc::increment_strong_count(list);
            Arc::from_raw(list)
        };
        Ok((id, handles))
    })?;
    let with_context = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
    let request = Request {
        context: this,
        pd: null_mut(),
        xrcd: attr.xrcd,
        qp_context: if with_context { attr.qp_context } else { null_mut() },
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        qp_type: attr.qp_type,
        sq_sig_all: false,
        extended: false,
    };
    let cap = ibv_qp_cap { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline_data: 0 };
    Ok(publish(object(&request, QpType::XrcRecv, handles, cap), id, attr.qp_num))
}

pub(crate) unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    pointer(open(context, attr))
}
