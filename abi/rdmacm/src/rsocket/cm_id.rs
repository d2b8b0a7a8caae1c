//! An owned identifier of the connection manager. All identifiers of rsockets share the channel of the service thread,
//! so none of these calls waits for the network.

use libc::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use weft_abi_types::{
    IBV_TRANSPORT_IWARP, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, ibv_context, ibv_device_attr, ibv_pd,
    ibv_qp, ibv_qp_init_attr, ibv_sa_path_rec, rdma_cm_id, rdma_conn_param, rdma_event_channel, rdma_port_space,
};

use super::address::Address;
use super::options::{QUEUE_MAX, QUEUE_MIN};
use crate::connect::{rdma_accept, rdma_connect, rdma_disconnect, rdma_reject};
use crate::create::{rdma_create_id, rdma_destroy_id};
use crate::errors::{errno, verbs};
use crate::option::rdma_set_option;
use crate::qp::rdma_create_qp;
use crate::route::{rdma_bind_addr, rdma_listen, rdma_resolve_addr, rdma_resolve_route};
use crate::verbs::ibv_query_device;

/// An identifier.
#[derive(Debug)]
pub(crate) struct CmId(NonNull<rdma_cm_id>);

// SAFETY: any thread may use an identifier.
unsafe impl Send for CmId {}

fn done(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(errno()) }
}

impl CmId {
    /// Creates an identifier; its events carry `key`.
    pub(crate) fn create(
        channel: *mut rdma_event_channel,
        key: u64,
        port_space: rdma_port_space,
    ) -> Result<CmId, c_int> {
        let mut id: *mut rdma_cm_id = null_mut();
        // SAFETY: the service's channel, and a place for the identifier. The context is a number, never followed.
        done(unsafe { rdma_create_id(channel, &mut id, key as *mut c_void, port_space) })?;
        NonNull::new(id).map(CmId).ok_or(libc::ENOMEM)
    }

    /// Takes ownership of the identifier of a connection request.
    pub(crate) fn adopt(id: NonNull<rdma_cm_id>) -> CmId {
        CmId(id)
    }

    /// Sets the key of its events.
    pub(crate) fn set_key(&self, key: u64) {
        // SAFETY: our identifier; only the service thread reads the context, and it is the one that calls this.
        unsafe { (*self.raw()).context = key as *mut c_void };
    }

    /// Whether its device is an iWARP adapter.
    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: the context of an identifier's device lives as long as the identifier, and its device longer.
        self.context().is_some_and(|context| unsafe { (*(*context).device).transport_type == IBV_TRANSPORT_IWARP })
    }

    /// Returns the raw identifier, for calls without a wrapper here.
    pub(crate) fn raw(&self) -> *mut rdma_cm_id {
        self.0.as_ptr()
    }

    pub(crate) fn bind(&self, address: &Address) -> Result<(), c_int> {
        // SAFETY: our identifier, and an address that lives through the call.
        done(unsafe { rdma_bind_addr(self.raw(), address.raw().cast_mut()) })
    }

    pub(crate) fn listen(&self, backlog: c_int) -> Result<(), c_int> {
        // SAFETY: our identifier.
        done(unsafe { rdma_listen(self.raw(), backlog) })
    }

    pub(crate) fn resolve_addr(&self, source: Option<&Address>, peer: &Address, limit_ms: c_int) -> Result<(), c_int> {
        let source = source.map_or(null_mut(), |address| address.raw().cast_mut());
        // SAFETY: our identifier, and addresses that live through the call.
        done(unsafe { rdma_resolve_addr(self.raw(), source, peer.raw().cast_mut(), limit_ms) })
    }

    pub(crate) fn resolve_route(&self, limit_ms: c_int) -> Result<(), c_int> {
        // SAFETY: our identifier.
        done(unsafe { rdma_resolve_route(self.raw(), limit_ms) })
    }

    /// Sets the path instead of resolving it.
    pub(crate) fn set_path(&self, path: &mut [u8]) -> Result<(), c_int> {
        self.set_option(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path)
    }

    /// Sets an option whose value is a number.
    pub(crate) fn set_number(&self, name: c_int, value: c_int) -> Result<(), c_int> {
        self.set_option(RDMA_OPTION_ID, name, &mut value.to_ne_bytes())
    }

    /// Sets an option whose value is one byte.
    pub(crate) fn set_byte(&self, name: c_int, value: u8) -> Result<(), c_int> {
        self.set_option(RDMA_OPTION_ID, name, &mut [value])
    }

    fn set_option(&self, level: c_int, name: c_int, value: &mut [u8]) -> Result<(), c_int> {
        // SAFETY: our identifier, and a value that lives through the call.
        done(unsafe { rdma_set_option(self.raw(), level, name, value.as_mut_ptr().cast(), value.len()) })
    }

    pub(crate) fn create_qp(&self, attr: &mut ibv_qp_init_attr) -> Result<*mut ibv_qp, c_int> {
        // SAFETY: our identifier with its device, and attributes that live through the call.
        unsafe {
            done(rdma_create_qp(self.raw(), null_mut(), attr))?;
            Ok((*self.raw()).qp)
        }
    }

    pub(crate) fn connect(&self, param: &mut rdma_conn_param, private: &[u8]) -> Result<(), c_int> {
        param.private_data = private.as_ptr().cast();
        param.private_data_len = u8::try_from(private.len()).map_err(|_| libc::EINVAL)?;
        // SAFETY: our identifier, and data that lives through the call.
        done(unsafe { rdma_connect(self.raw(), param) })
    }

    pub(crate) fn accept(&self, param: &mut rdma_conn_param, private: &[u8]) -> Result<(), c_int> {
        param.private_data = private.as_ptr().cast();
        param.private_data_len = u8::try_from(private.len()).map_err(|_| libc::EINVAL)?;
        // SAFETY: our identifier, and data that lives through the call.
        done(unsafe { rdma_accept(self.raw(), param) })
    }

    pub(crate) fn reject(&self) {
        // SAFETY: our identifier. If this fails, the connecting peer times out.
        let _ = unsafe { rdma_reject(self.raw(), std::ptr::null(), 0) };
    }

    pub(crate) fn disconnect(&self) {
        // SAFETY: our identifier. The call fails for one that is not connected, which is fine.
        let _ = unsafe { rdma_disconnect(self.raw()) };
    }

    /// Returns the device's context, once there is one.
    pub(crate) fn context(&self) -> Option<*mut ibv_context> {
        // SAFETY: our identifier.
        let context = unsafe { (*self.raw()).verbs };
        (!context.is_null()).then_some(context)
    }

    /// Returns the maximum queue length of its device.
    pub(crate) fn queue_limit(&self) -> Result<u16, c_int> {
        let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: an open context, and a place for the attributes, for all of which zero is a value.
        let limit = unsafe {
            verbs(ibv_query_device(self.context().ok_or(libc::ENODEV)?, attr.as_mut_ptr()))?;
            attr.assume_init().max_qp_wr
        };
        Ok(u32::try_from(limit).unwrap_or(0).clamp(QUEUE_MIN.into(), QUEUE_MAX) as u16)
    }

    /// Returns the protection domain, once there is a device.
    pub(crate) fn pd(&self) -> Option<*mut ibv_pd> {
        // SAFETY: our identifier.
        let pd = unsafe { (*self.raw()).pd };
        (!pd.is_null()).then_some(pd)
    }

    pub(crate) fn port_num(&self) -> u8 {
        // SAFETY: our identifier.
        unsafe { (*self.raw()).port_num }
    }

    /// Returns our address.
    pub(crate) fn source(&self) -> Address {
        // SAFETY: our identifier; its addresses have room for every family.
        unsafe { Address::copy((&raw const (*self.raw()).route.addr.src).cast()) }
    }

    /// Returns the peer's address.
    pub(crate) fn destination(&self) -> Address {
        // SAFETY: as above.
        unsafe { Address::copy((&raw const (*self.raw()).route.addr.dst).cast()) }
    }

    /// Returns our GID and the peer's, once they are resolved.
    pub(crate) fn gids(&self) -> ([u8; 16], [u8; 16]) {
        // SAFETY: our identifier; any bytes are a valid GID.
        unsafe {
            let addr = &raw const (*self.raw()).route.addr.ibaddr;
            ((*addr).sgid.raw, (*addr).dgid.raw)
        }
    }

    /// Returns the paths to the peer, once they are resolved.
    pub(crate) fn paths(&self) -> Vec<ibv_sa_path_rec> {
        // SAFETY: our identifier; it states the number of records.
        unsafe {
            let route = &raw const (*self.raw()).route;
            let count = usize::try_from((*route).num_paths).unwrap_or(0);
            if (*route).path_rec.is_null() {
                Vec::new()
            } else {
                (0..count).map(|i| *(*route).path_rec.add(i)).collect()
            }
        }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: our identifier, not used again. Its events are acknowledged as soon as they are read.
        unsafe { rdma_destroy_id(self.raw()) };
    }
}
