//! Resolution of a peer's address and queue pair number to the address handle for sends, by the connection manager.

use libc::c_int;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use weft_abi_types::{
    IBV_GID_TYPE_ROCE_V2, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_UDP, ibv_ah_attr,
    ibv_gid_entry,
};

use super::Datagram;
use super::core::Core;
use super::queue_pair::Handle;
use crate::rsocket::address::Address;
use crate::rsocket::cm_id::CmId;
use crate::rsocket::event::Event;
use crate::rsocket::service::{Handler, Owner, Service};
use crate::rsocket::verbs::_ibv_query_gid_ex;

/// Time limit of each step.
const STEP_MS: c_int = 2000;
/// Maximum number of GID table entries examined.
const GIDS_MAX: u32 = 256;
/// Hop limit if the path has none.
const HOP_LIMIT_DEFAULT: u8 = 64;

/// The resolution of one peer's handle.
pub(crate) struct Resolution {
    key: u64,
    service: Weak<Service>,
    datagram: Weak<Datagram>,
    peer: SocketAddr,
    qpn: u32,
    /// `None` once the resolution is over.
    id: Mutex<Option<CmId>>,
}

impl Resolution {
    /// Starts the resolution of the path to `qpn` at `peer`. If it fails, the peer's next message over UDP starts it
    /// again.
    pub(super) fn begin(
        service: &Arc<Service>,
        datagram: &Weak<Datagram>,
        core: &mut Core,
        peer: SocketAddr,
        qpn: u32,
    ) {
        let Some(known) = core.peers.get_mut(&peer) else { return };
        let Some(queue) = core.queues.get(known.queue) else { return };
        let mut source = queue.source;
        source.set_port(0);
        let key = service.new_key();
        let Ok(id) = service.create_id(key, RDMA_PS_UDP) else { return };
        let begun = id.resolve_addr(Some(&Address::from(source)), &Address::from(peer), STEP_MS);
        if begun.is_ok() {
            known.resolving = Some(qpn);
            let id = Mutex::new(Some(id));
            let (service_of, datagram) = (Arc::downgrade(service), datagram.clone());
            let resolution = Resolution { key, service: service_of, datagram, peer, qpn, id };
            service.enter(key, Owner::Step(Arc::new(resolution)));
        }
    }
}

impl Handler for Resolution {
    fn on_event(&self, event: Event) -> Option<Event> {
        let mut id = self.id.lock();
        let Some(known) = &*id else { return Some(event) };
        let going_on = match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => known.resolve_route(STEP_MS).is_ok(),
            _ => false,
        };
        if going_on {
            return Some(event);
        }
        let attr = (event.kind == RDMA_CM_EVENT_ROUTE_RESOLVED).then(|| attributes(known)).flatten();
        let over = id.take();
        drop(id);
        if let Some(datagram) = self.datagram.upgrade() {
            datagram.lock().resolved(self.peer, self.qpn, attr);
        }
        if let Some(service) = self.service.upgrade() {
            service.leave(self.key);
        }
        drop(over);
        Some(event)
    }
}

impl Core {
    /// Ends the resolution.
    fn resolved(&mut self, peer: SocketAddr, qpn: u32, attr: Option<ibv_ah_attr>) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        if known.resolving == Some(qpn) {
            known.resolving = None;
        }
        let Some(pd) = self.queues.get(known.queue).and_then(|queue| queue.id.pd()) else { return };
        if let Some(mut attr) = attr
            && let Ok(handle) = Handle::new(pd, &mut attr)
        {
            known.reachable = Some((handle, qpn));
            self.wakers.wake();
        }
    }
}

/// Returns the address attributes of the resolved path.
fn attributes(id: &CmId) -> Option<ibv_ah_attr> {
    // SAFETY: a structure of numbers, for all of which zero is a value.
    let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
    let (mut sgid, mut dgid) = id.gids();
    attr.grh.hop_limit = HOP_LIMIT_DEFAULT;
    if let Some(path) = id.paths().first() {
        // SAFETY: any bytes are a valid GID.
        (sgid, dgid) = unsafe { (path.sgid.raw, path.dgid.raw) };
        attr.grh.flow_label = u32::from_be(path.flow_label);
        attr.grh.traffic_class = path.traffic_class;
        attr.grh.hop_limit = path.hop_limit.max(1);
        attr.dlid = u16::from_be(path.dlid);
        attr.sl = path.sl;
        attr.static_rate = path.rate;
    }
    attr.is_global = 1;
    attr.grh.dgid.raw = dgid;
    attr.grh.sgid_index = gid_index(id, sgid)?;
    attr.port_num = id.port_num();
    Some(attr)
}

/// Returns the port's GID table entry for `gid`: the RoCE v2 one if there are several.
fn gid_index(id: &CmId, gid: [u8; 16]) -> Option<u8> {
    let context = id.context()?;
    let mut found = None;
    for index in 0..GIDS_MAX {
        // SAFETY: a structure of numbers, for all of which zero is a value.
        let mut entry: ibv_gid_entry = unsafe { std::mem::zeroed() };
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: an open context, and a place of that size for the entry; any bytes are a valid GID.
        let same = unsafe {
            _ibv_query_gid_ex(context, id.port_num().into(), index, &mut entry, 0, size) == 0 && entry.gid.raw == gid
        };
        if same {
            let better = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
            if better || found.is_none() {
                found = Some(index as u8);
            }
            if better {
                break;
            }
        }
    }
    found
}
