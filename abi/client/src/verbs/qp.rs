//! Queue pairs: creation, state changes, posting.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use weft_abi_types::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_CAP, IBV_QP_DEST_QPN, IBV_QP_EX_WITH_SEND, IBV_QP_INIT_ATTR_PD,
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_INIT_ATTR_XRCD, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_RETRY_CNT,
    IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT,
    IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, IBV_SEND_INLINE,
    IBV_SEND_SIGNALED, ibv_mtu, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_qp_type, ibv_recv_wr, ibv_sge, inlines,
};

use super::{Cq, Path, Pd, SendChain, SendRequest, Sge, Srq, Xrcd, check, check_ptr};

/// Attributes of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpRequest<'a> {
    /// `IBV_QPT_RC` ...
    pub qp_type: ibv_qp_type,
    /// Completion queue of sends.
    pub send_cq: &'a Cq,
    /// Completion queue of receives.
    pub recv_cq: &'a Cq,
    /// A shared receive queue in place of the queue pair's own.
    pub srq: Option<&'a Srq>,
    /// The XRC domain of an XRC target.
    pub xrcd: Option<&'a Xrcd>,
    /// Maximum number of outstanding sends.
    pub max_send_wr: u32,
    /// Maximum number of outstanding receives.
    pub max_recv_wr: u32,
    /// Maximum number of inline bytes in a request.
    pub max_inline_data: u32,
    /// Whether the queue pair supports `ibv_wr_*` for SEND.
    pub extended: bool,
}

/// A queue pair.
pub struct Qp {
    pd: Pd,
    _cqs: [Cq; 2],
    _srq: Option<Srq>,
    _xrcd: Option<Xrcd>,
    ptr: *mut ibv_qp,
    ex: Option<*mut ibv_qp_ex>,
    qp_type: ibv_qp_type,
    /// Destroys the queue pair when dropped, if this object does not.
    destroyer: Option<Box<dyn Any>>,
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp").field("ptr", &self.ptr).field("qp_type", &self.qp_type).finish()
    }
}

/// Parameters for the connection of a queue pair to its peer.
#[derive(Clone, Copy, Debug)]
pub struct Connect {
    /// Number of the peer's queue pair.
    pub dest_qpn: u32,
    /// First PSN of the peer.
    pub rq_psn: u32,
    /// First PSN of the local queue pair.
    pub sq_psn: u32,
    /// Path MTU.
    pub path_mtu: ibv_mtu,
    /// The path to the peer.
    pub path: Path,
    /// Maximum number of outstanding READs and atomics, in each direction.
    pub rd_atomic: u8,
}

/// Local ACK timeout 14: 4.096 µs × 2^14 = 67 ms, as in every example program.
const TIMEOUT: u8 = 14;
/// Retries after a missing answer.
const RETRY_CNT: u8 = 7;
/// Retries after RNR NAKs; 7 means without limit.
const RNR_RETRY: u8 = 7;
/// RNR timer code 12: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;

impl QpRequest<'_> {
    fn cap(&self) -> ibv_qp_cap {
        let target = self.qp_type == IBV_QPT_XRC_RECV;
        ibv_qp_cap {
            max_send_wr: if target { 0 } else { self.max_send_wr },
            max_recv_wr: if self.srq.is_some() || self.qp_type == IBV_QPT_XRC_SEND || target {
                0
            } else {
                self.max_recv_wr
            },
            max_send_sge: u32::from(!target),
            max_recv_sge: u32::from(!target && self.qp_type != IBV_QPT_XRC_SEND),
            max_inline_data: self.max_inline_data,
        }
    }

    /// The C structure, for queue pairs that are not extended.
    pub(crate) fn raw(&self) -> ibv_qp_init_attr {
        ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: self.send_cq.ptr(),
            recv_cq: self.recv_cq.ptr(),
            srq: self.srq.map_or(std::ptr::null_mut(), Srq::ptr),
            cap: self.cap(),
            qp_type: self.qp_type,
            sq_sig_all: 0,
        }
    }
}

impl Qp {
    /// Creates a queue pair in the state Reset.
    pub fn new(pd: &Pd, request: &QpRequest<'_>) -> io::Result<Qp> {
        let verbs = pd.context().library().verbs;
        let plain = matches!(request.qp_type, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD);
        let ptr = if plain && !request.extended {
            let mut init = request.raw();
            // SAFETY: all parents are alive and stay so as long as the queue pair (it holds clones).
            unsafe { (verbs.ibv_create_qp)(pd.ptr(), &mut init) }
        } else {
            let mut init = extended_request(pd, request, request.cap());
            // SAFETY: as above.
            unsafe { inlines::ibv_create_qp_ex(pd.context().ptr(), &mut init) }
        };
        let ptr = check_ptr(ptr)?;
        let ex = match verbs.ibv_qp_to_qp_ex {
            // SAFETY: this library has just created the queue pair.
            Some(to_ex) if request.extended => Some(check_ptr(unsafe { to_ex(ptr) })?),
            _ => None,
        };
        let mut qp = Qp::wrap(pd, request, ptr, None);
        qp.ex = ex;
        Ok(qp)
    }

    /// Wraps a queue pair that was created with `request` and is destroyed by dropping `destroyer`.
    ///
    /// # Safety
    /// Both must be true, and the queue pair must be alive.
    pub(crate) unsafe fn adopt(pd: &Pd, request: &QpRequest<'_>, ptr: *mut ibv_qp, destroyer: Box<dyn Any>) -> Qp {
        Qp::wrap(pd, request, ptr, Some(destroyer))
    }

    fn wrap(pd: &Pd, request: &QpRequest<'_>, ptr: *mut ibv_qp, destroyer: Option<Box<dyn Any>>) -> Qp {
        Qp {
            pd: pd.clone(),
            _cqs: [request.send_cq.clone(), request.recv_cq.clone()],
            _srq: request.srq.cloned(),
            _xrcd: request.xrcd.cloned(),
            ptr,
            ex: None,
            qp_type: request.qp_type,
            destroyer,
        }
    }

    pub(super) fn ptr(&self) -> *mut ibv_qp {
        self.ptr
    }

    /// Queue pair number.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive; its number does not change.
        unsafe { (*self.ptr).qp_num }
    }

    /// Maximum number of inline bytes.
    pub fn max_inline_data(&self) -> io::Result<u32> {
        let verbs = self.pd.context().library().verbs;
        let mut attr = MaybeUninit::<ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        // SAFETY: the queue pair is alive; zeroes are valid in both structures, which the call fills.
        unsafe {
            check((verbs.ibv_query_qp)(self.ptr, attr.as_mut_ptr(), IBV_QP_CAP as i32, init.as_mut_ptr()))?;
            Ok(init.assume_init().cap.max_inline_data)
        }
    }

    /// The Q_Key that datagrams to the queue pair must carry.
    pub fn qkey(&self) -> io::Result<u32> {
        let verbs = self.pd.context().library().verbs;
        let mut attr = no_attributes();
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        // SAFETY: as above.
        check(unsafe { (verbs.ibv_query_qp)(self.ptr, &mut attr, IBV_QP_QKEY as i32, init.as_mut_ptr()) })?;
        Ok(attr.qkey)
    }

    /// `ibv_modify_qp` with the caller's attributes.
    pub fn modify_with(&self, attr: ibv_qp_attr, mask: u32) -> io::Result<()> {
        self.modify(attr, mask)
    }

    /// Changes the state to Error, which flushes all posted requests.
    pub fn to_error(&self) -> io::Result<()> {
        let mut attr = no_attributes();
        attr.qp_state = IBV_QPS_ERR;
        self.modify(attr, IBV_QP_STATE)
    }

    fn modify(&self, mut attr: ibv_qp_attr, mask: u32) -> io::Result<()> {
        let verbs = self.pd.context().library().verbs;
        // SAFETY: the queue pair is alive; the call reads the fields that the mask selects.
        check(unsafe { (verbs.ibv_modify_qp)(self.ptr, &mut attr, mask as i32) })
    }

    /// Changes the state from Reset to Init. `access` are the peer's rights; datagram queue pairs use `qkey` instead.
    pub fn to_init(&self, port_num: u8, access: u32, qkey: u32) -> io::Result<()> {
        let mut attr = no_attributes();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = port_num;
        attr.qkey = qkey;
        attr.qp_access_flags = access;
        let kind = match self.qp_type {
            IBV_QPT_UD => IBV_QP_QKEY,
            _ => IBV_QP_ACCESS_FLAGS,
        };
        self.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | kind)
    }

    /// Changes the state from Init to Ready to Receive.
    pub fn to_rtr(&self, to: &Connect) -> io::Result<()> {
        let mut attr = no_attributes();
        attr.qp_state = IBV_QPS_RTR;
        let mut mask = IBV_QP_STATE;
        if self.qp_type != IBV_QPT_UD {
            attr.path_mtu = to.path_mtu;
            attr.dest_qp_num = to.dest_qpn;
            attr.rq_psn = to.rq_psn;
            attr.ah_attr = to.path.raw();
            mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        }
        if matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_XRC_RECV) {
            attr.max_dest_rd_atomic = to.rd_atomic;
            attr.min_rnr_timer = MIN_RNR_TIMER;
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(attr, mask)
    }

    /// Changes the state from Ready to Receive to Ready to Send.
    pub fn to_rts(&self, to: &Connect) -> io::Result<()> {
        let mut attr = no_attributes();
        attr.qp_state = IBV_QPS_RTS;
        attr.sq_psn = to.sq_psn;
        let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        if matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV) {
            attr.timeout = TIMEOUT;
            mask |= IBV_QP_TIMEOUT;
        }
        if matches!(self.qp_type, IBV_QPT_RC | IBV_QPT_XRC_SEND) {
            attr.retry_cnt = RETRY_CNT;
            attr.rnr_retry = RNR_RETRY;
            attr.max_rd_atomic = to.rd_atomic;
            mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(attr, mask)
    }

    /// Posts a receive.
    pub fn post_recv(&self, wr_id: u64, piece: Sge) -> io::Result<()> {
        let mut sge = ibv_sge::from(piece);
        let mut wr = ibv_recv_wr { wr_id, next: std::ptr::null_mut(), sg_list: &mut sge, num_sge: 1 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is alive; request and list are complete and are read during the call only.
        check(unsafe { inlines::ibv_post_recv(self.ptr, &mut wr, &mut bad) })
    }

    /// Posts a single request, without the allocations of a chain.
    pub fn post_send(&self, request: &SendRequest) -> io::Result<()> {
        let mut sge = ibv_sge::from(request.piece);
        let mut wr = request.raw();
        wr.sg_list = &mut sge;
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is alive; request and list are complete and are read during the call only.
        check(unsafe { inlines::ibv_post_send(self.ptr, &mut wr, &mut bad) })
    }

    /// Posts the first `count` requests of a chain.
    #[inline]
    pub fn post_chain(&self, chain: &mut SendChain, count: usize) -> io::Result<()> {
        let first = chain.linked(count);
        if first.is_null() {
            return Ok(());
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is alive; requests and lists belong to the chain, which is borrowed during the call.
        check(unsafe { inlines::ibv_post_send(self.ptr, first, &mut bad) })
    }

    /// Posts a SEND with the `ibv_wr_*` calls. The queue pair must be `extended`.
    pub fn wr_send(&self, request: &SendRequest) -> io::Result<()> {
        let Some(ex) = self.ex else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // SAFETY: the queue pair is alive and was made with IBV_QP_EX_WITH_SEND, so the calls are there.
        check(unsafe {
            inlines::ibv_wr_start(ex);
            (*ex).wr_id = request.wr_id;
            (*ex).wr_flags =
                if request.signaled { IBV_SEND_SIGNALED } else { 0 } | if request.inline { IBV_SEND_INLINE } else { 0 };
            inlines::ibv_wr_send(ex);
            let Sge { addr, length, lkey } = request.piece;
            inlines::ibv_wr_set_sge(ex, lkey, addr, length);
            inlines::ibv_wr_complete(ex)
        })
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if self.destroyer.take().is_some() {
            return;
        }
        // SAFETY: nothing else refers to the queue pair.
        unsafe { (self.pd.context().library().verbs.ibv_destroy_qp)(self.ptr) };
    }
}

/// Returns attributes that are all zero, to be filled and named by a mask.
pub fn no_attributes() -> ibv_qp_attr {
    // SAFETY: every field is a number (or bytes), for which zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn extended_request(pd: &Pd, request: &QpRequest<'_>, cap: ibv_qp_cap) -> ibv_qp_init_attr_ex {
    // SAFETY: numbers and pointers only, for which zero and null are valid.
    let mut init: ibv_qp_init_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
    init.qp_type = request.qp_type;
    init.cap = cap;
    if let Some(xrcd) = request.xrcd {
        init.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
        init.xrcd = xrcd.ptr();
        return init;
    }
    init.comp_mask |= IBV_QP_INIT_ATTR_PD;
    init.pd = pd.ptr();
    init.send_cq = request.send_cq.ptr();
    if request.qp_type != IBV_QPT_XRC_SEND {
        init.recv_cq = request.recv_cq.ptr();
        init.srq = request.srq.map_or(std::ptr::null_mut(), Srq::ptr);
    }
    if request.extended {
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND.into();
    }
    init
}
