//! Identifiers: one end of a connection, or a listener.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use libc::c_int;
use weft_abi_types::{
    IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_PD,
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
    RDMA_OPTION_ID_TOS, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_state, rdma_cm_id,
    rdma_cm_join_mc_attr_ex, rdma_cm_mc_join_flags, rdma_conn_param, rdma_port_space,
};

use super::{CmLibrary, EventChannel, IdKey, SockAddr};
use crate::verbs::{Context, Pd, Qp, QpRequest, check, no_attributes};

/// An id, shared by its clones; destroyed with the last.
#[derive(Clone, Debug)]
pub struct CmId(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    channel: RefCell<EventChannel>,
    ptr: *mut rdma_cm_id,
}

/// Parameters of a connection, as `struct rdma_conn_param`.
#[derive(Clone, Debug, Default)]
pub struct ConnParam {
    /// Private data for the peer.
    pub private_data: Vec<u8>,
    /// Maximum number of READs and atomics that this side answers at a time.
    pub responder_resources: u8,
    /// Maximum number of READs and atomics that this side has outstanding.
    pub initiator_depth: u8,
    /// Retries after a missing answer.
    pub retry_count: u8,
    /// Retries after RNR NAKs: the peer has no receive posted.
    pub rnr_retry_count: u8,
    /// Queue pair number, if the queue pair is not the id's own.
    pub qp_num: u32,
}

impl ConnParam {
    fn raw(&self) -> rdma_conn_param {
        rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).unwrap_or(u8::MAX),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 0,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: 0,
            qp_num: self.qp_num,
        }
    }
}

impl CmId {
    /// Creates an id.
    pub fn new(channel: &EventChannel, port_space: rdma_port_space) -> io::Result<CmId> {
        let mut ptr = std::ptr::null_mut();
        let create = channel.library().calls.rdma_create_id;
        // SAFETY: the channel is alive and stays so as long as the id.
        check(unsafe { create(channel.ptr(), &mut ptr, std::ptr::null_mut(), port_space) })?;
        // SAFETY: just made.
        Ok(unsafe { CmId::adopt(channel, ptr) })
    }

    /// # Safety
    /// The id belongs to the channel, and nothing else destroys it.
    pub(super) unsafe fn adopt(channel: &EventChannel, ptr: *mut rdma_cm_id) -> CmId {
        CmId(Rc::new(Inner { channel: RefCell::new(channel.clone()), ptr }))
    }

    /// The key that its events carry.
    pub fn key(&self) -> IdKey {
        IdKey::of(self.0.ptr)
    }

    /// The library of the id.
    pub fn library(&self) -> CmLibrary {
        self.0.channel.borrow().library()
    }

    fn calls(&self) -> &'static super::calls::Calls {
        self.library().calls
    }

    /// The device, once an address has been bound or resolved; `ENODEV` before.
    pub fn context(&self) -> io::Result<Context> {
        // SAFETY: the id is alive.
        let ptr = unsafe { (*self.0.ptr).verbs };
        if ptr.is_null() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: the library keeps the device open as long as the id exists.
        Ok(unsafe { Context::from_opener(self.library().verbs(), ptr, Box::new(self.clone())) })
    }

    /// Port number on the device.
    pub fn port_num(&self) -> u8 {
        // SAFETY: the id is alive.
        unsafe { (*self.0.ptr).port_num }
    }

    /// `rdma_bind_addr`.
    pub fn bind(&self, addr: &SockAddr) -> io::Result<()> {
        // SAFETY: id and address are alive; the same holds for all calls below.
        check(unsafe { (self.calls().rdma_bind_addr)(self.0.ptr, addr.ptr()) })
    }

    /// The address of the peer, once there is one.
    pub fn peer_addr(&self) -> Option<SockAddr> {
        // SAFETY: the id is alive, and its address is one of the union's families, each with its own length.
        unsafe {
            let addr = &raw const (*self.0.ptr).route.addr.dst.addr;
            SockAddr::copy_any(addr)
        }
    }

    /// The local address, once there is one.
    pub fn local_addr(&self) -> Option<SockAddr> {
        // SAFETY: as for `peer_addr`.
        unsafe {
            let addr = &raw const (*self.0.ptr).route.addr.src.addr;
            SockAddr::copy_any(addr)
        }
    }

    /// The local port of the address.
    pub fn local_port(&self) -> u16 {
        // SAFETY: as above.
        u16::from_be(unsafe { (self.calls().rdma_get_src_port)(self.0.ptr) })
    }

    /// `rdma_listen`.
    pub fn listen(&self, backlog: c_int) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_listen)(self.0.ptr, backlog) })
    }

    /// `rdma_resolve_addr`.
    pub fn resolve_addr(&self, src: Option<&SockAddr>, dst: &SockAddr, timeout_ms: c_int) -> io::Result<()> {
        let src = src.map_or(std::ptr::null_mut(), SockAddr::ptr);
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_resolve_addr)(self.0.ptr, src, dst.ptr(), timeout_ms) })
    }

    /// `rdma_resolve_route`.
    pub fn resolve_route(&self, timeout_ms: c_int) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_resolve_route)(self.0.ptr, timeout_ms) })
    }

    /// `rdma_connect`.
    pub fn connect(&self, param: &ConnParam) -> io::Result<()> {
        // SAFETY: as above, and the private data too.
        check(unsafe { (self.calls().rdma_connect)(self.0.ptr, &mut param.raw()) })
    }

    /// `rdma_accept`; without parameters, with those in the peer's request.
    pub fn accept(&self, param: Option<&ConnParam>) -> io::Result<()> {
        let mut raw = param.map(ConnParam::raw);
        let raw = raw.as_mut().map_or(std::ptr::null_mut(), |raw| &raw mut *raw);
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_accept)(self.0.ptr, raw) })
    }

    /// `rdma_reject`, without private data.
    pub fn reject(&self) -> io::Result<()> {
        self.reject_with(&[])
    }

    /// `rdma_reject`, with private data of up to 255 bytes.
    pub fn reject_with(&self, private_data: &[u8]) -> io::Result<()> {
        let len = u8::try_from(private_data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let data = if len == 0 { std::ptr::null() } else { private_data.as_ptr().cast() };
        // SAFETY: as above, and the private data is alive, too.
        check(unsafe { (self.calls().rdma_reject)(self.0.ptr, data, len) })
    }

    /// `rdma_disconnect`.
    pub fn disconnect(&self) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_disconnect)(self.0.ptr) })
    }

    /// `rdma_establish`, for queue pairs that are not the id's own.
    pub fn establish(&self) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_establish)(self.0.ptr) })
    }

    /// `rdma_set_option`: the type of service.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_option(RDMA_OPTION_ID_TOS, tos)
    }

    /// `rdma_set_option`: the local ACK timeout, as IBA codes it.
    pub fn set_ack_timeout(&self, timeout: u8) -> io::Result<()> {
        self.set_option(RDMA_OPTION_ID_ACK_TIMEOUT, timeout)
    }

    fn set_option(&self, option: c_int, mut value: u8) -> io::Result<()> {
        let set = self.calls().rdma_set_option;
        // SAFETY: as above; the value has the size that is passed.
        check(unsafe { set(self.0.ptr, RDMA_OPTION_ID, option, (&raw mut value).cast(), size_of::<u8>()) })
    }

    /// `rdma_join_multicast_ex`; flags are `RDMA_MC_JOIN_FLAG_...`.
    pub fn join(&self, group: &SockAddr, flags: rdma_cm_mc_join_flags) -> io::Result<()> {
        let mut attr = rdma_cm_join_mc_attr_ex {
            comp_mask: RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
            join_flags: flags,
            addr: group.ptr(),
        };
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_join_multicast_ex)(self.0.ptr, &mut attr, std::ptr::null_mut()) })
    }

    /// `rdma_leave_multicast`.
    pub fn leave(&self, group: &SockAddr) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_leave_multicast)(self.0.ptr, group.ptr()) })
    }

    /// `rdma_migrate_id`: its events go to that channel from now on.
    pub fn migrate(&self, channel: &EventChannel) -> io::Result<()> {
        // SAFETY: as above, and the new channel is kept alive too.
        check(unsafe { (self.calls().rdma_migrate_id)(self.0.ptr, channel.ptr()) })?;
        self.0.channel.replace(channel.clone());
        Ok(())
    }

    /// `rdma_init_qp_attr`: the attributes that bring a queue pair that is not the id's own to `state`.
    pub fn init_qp_attr(&self, state: ibv_qp_state) -> io::Result<(ibv_qp_attr, u32)> {
        let mut attr = no_attributes();
        attr.qp_state = state;
        let mut mask = 0;
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_init_qp_attr)(self.0.ptr, &mut attr, &mut mask) })?;
        Ok((attr, mask as u32))
    }

    /// `rdma_create_qp`: the id's own queue pair, whose states the connection manager changes.
    pub fn create_qp(&self, pd: &Pd, request: &QpRequest<'_>) -> io::Result<Qp> {
        let mut init = request.raw();
        // SAFETY: domain and queues are alive, and stay so as long as the queue pair (it holds clones).
        check(unsafe { (self.calls().rdma_create_qp)(self.0.ptr, pd.ptr(), &mut init) })?;
        Ok(self.adopted(pd, request))
    }

    /// Like `create_qp`, for a datagram queue pair that does not receive its own multicast packets.
    pub fn create_qp_deaf_to_itself(&self, pd: &Pd, request: &QpRequest<'_>) -> io::Result<Qp> {
        let plain = request.raw();
        // SAFETY: numbers and pointers only, for which zero and null are valid.
        let mut init: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        init.send_cq = plain.send_cq;
        init.recv_cq = plain.recv_cq;
        init.srq = plain.srq;
        init.cap = plain.cap;
        init.qp_type = plain.qp_type;
        init.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_PD;
        init.pd = pd.ptr();
        init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
        // SAFETY: as for create_qp.
        check(unsafe { (self.calls().rdma_create_qp_ex)(self.0.ptr, &mut init) })?;
        Ok(self.adopted(pd, request))
    }

    fn adopted(&self, pd: &Pd, request: &QpRequest<'_>) -> Qp {
        // SAFETY: the id has a queue pair now, and the guard destroys it.
        unsafe { Qp::adopt(pd, request, (*self.0.ptr).qp, Box::new(BareQp(self.clone()))) }
    }

    /// `rdma_create_qp` with only a type and a depth: the library chooses domain and queues. For callers that need no
    /// more than a connection.
    pub fn create_bare_qp(&self, qp_type: u32, depth: u32) -> io::Result<BareQp> {
        // SAFETY: numbers and pointers only, for which zero and null are valid.
        let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        init.qp_type = qp_type;
        init.cap.max_send_wr = depth;
        init.cap.max_recv_wr = depth;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: as above.
        check(unsafe { (self.calls().rdma_create_qp)(self.0.ptr, std::ptr::null_mut(), &mut init) })?;
        Ok(BareQp(self.clone()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: objects based on the id held a clone of it and are gone, and its events were acknowledged when taken.
        unsafe { (self.channel.borrow().library().calls.rdma_destroy_id)(self.ptr) };
    }
}

/// The queue pair of an id, destroyed when dropped.
#[derive(Debug)]
pub struct BareQp(CmId);

impl Drop for BareQp {
    fn drop(&mut self) {
        // SAFETY: the id is alive and has a queue pair.
        unsafe { (self.0.calls().rdma_destroy_qp)(self.0.0.ptr) };
    }
}
