//! The other processes of this host: none while packets are forced or meeting is impossible, otherwise
//! [`weft_link::shm`]. This module tells it which pages of each key's memory are shared.

use std::collections::BTreeMap;

use weft_link::shm::Host;
use weft_sys::share::Extent;
use weft_transport::Peers;
use weft_transport::frame::{Frame, HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::{Qpn, Sge};

/// The other processes of this host.
#[derive(Debug, Default)]
pub struct HostPeers {
    host: Option<Box<Host>>,
    /// Shared part of the region that is being registered.
    registering: Option<Extent>,
    /// Shared parts of regions, by host address: windows are bound to parts of them.
    extents: BTreeMap<u64, (u32, Extent)>,
    /// Host addresses of these regions, by key.
    addresses: BTreeMap<u32, u64>,
}

impl HostPeers {
    /// Enables meeting processes of the host.
    pub fn set_host(&mut self, host: Host) {
        self.host = Some(Box::new(host));
    }

    /// Returns the shared-memory host, if processes can be met.
    #[inline]
    pub fn host(&mut self) -> Option<&mut Host> {
        self.host.as_deref_mut()
    }

    /// Handles the daemon's message that a process is gone.
    pub fn on_gone(&mut self, slot: u32, generation: u64) {
        if let Some(host) = self.host() {
            host.on_gone(slot, generation);
        }
    }

    /// Sets the shared part of the region about to be registered; `None` afterwards.
    pub fn set_registering(&mut self, extent: Option<Extent>) {
        self.registering = extent;
    }

    /// Publishes regions that became shared after their registration.
    pub fn share_late(&mut self, find: impl Fn(u64, u64) -> Option<Extent>) {
        let mut shared = Vec::new();
        if let Some(host) = &mut self.host {
            host.share_keys(|key, addr, len| {
                let extent = find(addr, len)?;
                shared.push((key, addr, extent));
                Some(extent)
            });
        }
        for (key, addr, extent) in shared {
            self.keep(key, addr, extent);
        }
    }

    fn keep(&mut self, key: u32, addr: u64, extent: Extent) {
        self.extents.insert(addr, (key, extent));
        self.addresses.insert(key, addr);
    }

    fn forget(&mut self, key: u32) {
        if let Some(addr) = self.addresses.remove(&key)
            && self.extents.get(&addr).is_some_and(|(of, _)| *of == key)
        {
            self.extents.remove(&addr);
        }
    }

    fn extent_of(&mut self, key: &KeyView) -> Option<Extent> {
        if let Some(extent) = self.registering {
            self.keep(key.key, key.host, extent);
            return Some(extent);
        }
        let (_, (_, extent)) = self.extents.range(..=key.host).next_back()?;
        Some(*extent).filter(|extent| extent.addr.saturating_add(extent.len) > key.host)
    }
}

impl Peers for HostPeers {
    #[inline]
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        self.host().is_some_and(|host| host.push(peer, frame, payload))
    }

    #[inline]
    fn ring_mark(&self, peer: PeerId) -> u64 {
        self.host.as_deref().map_or(0, |host| host.ring_mark(peer))
    }

    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.host.as_deref().is_none_or(|host| host.is_taken(peer, mark))
    }

    fn has_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.host.as_deref().is_none_or(|host| host.has_taken(peer, mark))
    }

    #[inline]
    fn peer_of_slot(&self, slot: u32) -> Option<PeerId> {
        self.host.as_deref()?.peer_of_slot(slot)
    }

    #[inline]
    fn meet(&mut self, slot: u32) -> Option<PeerId> {
        self.host()?.meet(slot)
    }

    fn is_alive(&self, peer: PeerId) -> bool {
        self.host.as_deref().is_some_and(|host| host.is_alive(peer))
    }

    #[inline]
    fn arrival(&mut self) -> Option<PeerId> {
        self.host()?.arrival()
    }

    #[inline]
    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        self.host()?.next_frame(peer)
    }

    #[inline]
    fn place(&mut self, offset: u32, to: HostRange) {
        if let Some(host) = self.host() {
            host.place(offset, to);
        }
    }

    #[inline]
    fn peek(&self, offset: u32, out: &mut [u8]) {
        if let Some(host) = self.host.as_deref() {
            host.peek(offset, out);
        }
    }

    #[inline]
    fn end_frame(&mut self) {
        if let Some(host) = self.host() {
            host.end_frame();
        }
    }

    fn fetch(&mut self, peer: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        self.host().is_some_and(|host| host.fetch(peer, from, offset, to))
    }

    #[inline]
    fn reach(&self, peer: PeerId) -> Reach {
        self.host.as_deref().map_or(Reach::Ring, |host| host.reach(peer))
    }

    #[inline]
    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        self.host().is_some_and(|host| host.write_direct(at, from))
    }

    fn read_direct(&mut self, at: &Direct, to: &[HostRange]) -> bool {
        self.host().is_some_and(|host| host.read_direct(at, to))
    }

    fn atomic_direct(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        self.host()?.atomic_direct(at, op)
    }

    fn publish_key(&mut self, key: &KeyView) {
        let extent = self.extent_of(key);
        if let Some(host) = self.host() {
            host.publish_shared_key(key, extent);
        }
    }

    fn revoke_key(&mut self, key: u32) {
        self.forget(key);
        if let Some(host) = self.host() {
            host.revoke_key(key);
        }
    }

    fn publish_qp(&mut self, qp: &QpView) {
        if let Some(host) = self.host() {
            host.publish_qp(qp);
        }
    }

    fn revoke_qp(&mut self, qpn: Qpn) {
        if let Some(host) = self.host() {
            host.revoke_qp(qpn);
        }
    }
}
