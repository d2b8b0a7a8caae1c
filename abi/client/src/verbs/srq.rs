//! Shared receive queues and XRC domains.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use weft_abi_types::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQT_XRC,
    IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_recv_wr, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
    ibv_srq_init_attr_ex, ibv_tm_cap, ibv_xrcd, ibv_xrcd_init_attr, inlines,
};

use super::{Context, Cq, Pd, Sge, check, check_ptr};

/// An XRC domain, shared by its clones.
#[derive(Clone, Debug)]
pub struct Xrcd(Rc<XrcdInner>);

#[derive(Debug)]
struct XrcdInner {
    _context: Context,
    ptr: *mut ibv_xrcd,
}

impl Xrcd {
    /// Opens the XRC domain of `file` (shared by all that open the same file), or a private one.
    pub fn open(context: &Context, file: Option<&std::fs::File>) -> io::Result<Xrcd> {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.map_or(-1, AsRawFd::as_raw_fd),
            oflags: libc::O_CREAT,
        };
        // SAFETY: the context is open and the file too, while the call lasts.
        let ptr = check_ptr(unsafe { inlines::ibv_open_xrcd(context.ptr(), &mut attr) })?;
        Ok(Xrcd(Rc::new(XrcdInner { _context: context.clone(), ptr })))
    }

    pub(super) fn ptr(&self) -> *mut ibv_xrcd {
        self.0.ptr
    }
}

impl Drop for XrcdInner {
    fn drop(&mut self) {
        // SAFETY: objects in the domain held a clone of it and are gone.
        unsafe { inlines::ibv_close_xrcd(self.ptr) };
    }
}

/// Kind of a new shared receive queue.
#[derive(Clone, Copy, Debug)]
pub enum SrqRequest<'a> {
    /// For RC queue pairs.
    Basic,
    /// For the target queue pairs of an XRC domain.
    Xrc {
        /// The XRC domain.
        xrcd: &'a Xrcd,
        /// Completion queue of receives.
        cq: &'a Cq,
    },
}

/// A shared receive queue, shared by its clones.
#[derive(Clone, Debug)]
pub struct Srq(Rc<SrqInner>);

#[derive(Debug)]
struct SrqInner {
    pd: Pd,
    _parents: Option<(Xrcd, Cq)>,
    ptr: *mut ibv_srq,
}

impl Srq {
    /// Creates a queue for up to `max_wr` receives with one scatter/gather entry each.
    pub fn new(pd: &Pd, max_wr: u32, request: SrqRequest<'_>) -> io::Result<Srq> {
        let attr = ibv_srq_attr { max_wr, max_sge: 1, srq_limit: 0 };
        let verbs = pd.context().library().verbs;
        let (ptr, parents) = match request {
            SrqRequest::Basic => {
                let mut init = ibv_srq_init_attr { srq_context: std::ptr::null_mut(), attr };
                // SAFETY: the domain is alive and stays so as long as the queue.
                let ptr = unsafe { (verbs.ibv_create_srq)(pd.ptr(), &mut init) };
                (ptr, None)
            }
            SrqRequest::Xrc { xrcd, cq } => {
                let mut init = ibv_srq_init_attr_ex {
                    srq_context: std::ptr::null_mut(),
                    attr,
                    comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                        | IBV_SRQ_INIT_ATTR_XRCD
                        | IBV_SRQ_INIT_ATTR_CQ
                        | IBV_SRQ_INIT_ATTR_PD,
                    srq_type: IBV_SRQT_XRC,
                    pd: pd.ptr(),
                    xrcd: xrcd.ptr(),
                    cq: cq.ptr(),
                    tm_cap: ibv_tm_cap { max_num_tags: 0, max_ops: 0 },
                };
                // SAFETY: all parents are alive and stay so as long as the queue (it holds clones).
                let ptr = unsafe { inlines::ibv_create_srq_ex(pd.context().ptr(), &mut init) };
                (ptr, Some((xrcd.clone(), cq.clone())))
            }
        };
        Ok(Srq(Rc::new(SrqInner { pd: pd.clone(), _parents: parents, ptr: check_ptr(ptr)? })))
    }

    pub(crate) fn ptr(&self) -> *mut ibv_srq {
        self.0.ptr
    }

    /// The SRQ number, for XRC initiators.
    pub fn number(&self) -> io::Result<u32> {
        let mut number = 0;
        // SAFETY: the queue is alive.
        check(unsafe { inlines::ibv_get_srq_num(self.0.ptr, &mut number) })?;
        Ok(number)
    }

    /// Posts a receive.
    pub fn post_recv(&self, wr_id: u64, piece: Sge) -> io::Result<()> {
        let mut sge = ibv_sge::from(piece);
        let mut wr = ibv_recv_wr { wr_id, next: std::ptr::null_mut(), sg_list: &mut sge, num_sge: 1 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue is alive; request and list are complete and are read during the call only.
        check(unsafe { inlines::ibv_post_srq_recv(self.0.ptr, &mut wr, &mut bad) })
    }
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that receive from it held a clone and are gone.
        unsafe { (self.pd.context().library().verbs.ibv_destroy_srq)(self.ptr) };
    }
}
