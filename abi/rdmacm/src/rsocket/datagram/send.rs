//! Sending datagrams: to the peer's queue pair if it is known, over UDP until then.

use libc::{c_int, iovec};
use std::net::SocketAddr;

use super::Datagram;
use super::core::{Core, PEERS_MAX, Peer};
use super::queue_pair::QueuePair;
use super::udp;
use crate::rsocket::gather::Gather;
use crate::rsocket::proto::datagram::{SLOT_BYTES, UdpOp, udp_header};
use crate::rsocket::wait;

impl Datagram {
    /// Sends the content of `buffers` as one message, to `to` or to the default peer.
    ///
    /// # Safety
    /// Each buffer's bytes must be readable.
    pub(crate) unsafe fn send(&self, buffers: &[iovec], flags: c_int, to: Option<SocketAddr>) -> Result<usize, c_int> {
        let nonblocking = self.nonblocking(flags);
        let _alone = if nonblocking { self.sending.try_lock().ok_or(libc::EAGAIN)? } else { self.sending.lock() };
        let mut core = self.lock();
        let peer = to.map(udp::plain).or(core.connected).ok_or(libc::EDESTADDRREQ)?;
        self.start(&mut core)?;
        self.reach(&mut core, peer, PEERS_MAX)?;
        // SAFETY: the caller upholds the contract.
        let mut from = unsafe { Gather::new(buffers) };
        let bytes = from.left();
        if bytes > core.data_max(peer) {
            return Err(libc::EMSGSIZE);
        }
        if !core.reachable(peer) {
            drop(core);
            return self.send_udp_data(&mut from, peer, nonblocking).map(|()| bytes);
        }
        drop(core);
        let (mut core, ()) = wait::until(&self.core, nonblocking, |core| core.can_send(peer).then_some(()))?;
        core.send(&mut from, peer)?;
        Ok(bytes)
    }

    /// Ensures that there is a queue pair on the path to `peer` and that the peer is remembered, unless `limit` peers
    /// already are.
    pub(super) fn reach(&self, core: &mut Core, peer: SocketAddr, limit: usize) -> Result<(), c_int> {
        if core.closed {
            return Err(libc::EBADF);
        }
        if core.peers.contains_key(&peer) {
            return Ok(());
        }
        if core.peers.len() >= limit {
            return Err(libc::ENOBUFS);
        }
        let source = udp::source(&self.socket, peer)?;
        let queue = match core.queues.iter().position(|queue| queue.source == source) {
            Some(queue) => queue,
            None => {
                let queue = QueuePair::new(&self.service, self.key, source, &mut core.options)?;
                core.queues.push(queue);
                // Sleeping threads do not watch the new queue pair yet.
                core.wakers.wake();
                core.queues.len() - 1
            }
        };
        core.peers.insert(peer, Peer { queue, reachable: None, resolving: None });
        Ok(())
    }

    /// Sends data over UDP.
    fn send_udp_data(&self, from: &mut Gather<'_>, peer: SocketAddr, nonblocking: bool) -> Result<(), c_int> {
        let mut packet = self.lock().udp_head(UdpOp::Data, peer)?;
        while let Some(part) = from.some() {
            packet.extend_from_slice(part);
        }
        loop {
            match udp::send(&self.socket, &packet, peer) {
                Err(libc::EAGAIN) if !nonblocking => {
                    let writable = libc::pollfd { fd: self.fd(), events: libc::POLLOUT, revents: 0 };
                    wait::sleep(&mut [writable], None)?;
                }
                other => return other,
            }
        }
    }

    /// Announces our queue pair to a peer.
    pub(super) fn send_udp_control(&self, core: &Core, peer: SocketAddr) {
        if let Ok(packet) = core.udp_head(UdpOp::Control, peer) {
            // A peer that does not receive it asks again.
            let _ = udp::send(&self.socket, &packet, peer);
        }
    }
}

impl Core {
    fn queue(&self, peer: SocketAddr) -> Option<&QueuePair> {
        self.queues.get(self.peers.get(&peer)?.queue)
    }

    fn data_max(&self, peer: SocketAddr) -> usize {
        self.queue(peer).map_or(SLOT_BYTES, QueuePair::data_max)
    }

    fn reachable(&self, peer: SocketAddr) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.reachable.is_some())
    }

    fn can_send(&self, peer: SocketAddr) -> bool {
        self.queue(peer).is_none_or(QueuePair::can_send)
    }

    fn send(&mut self, from: &mut Gather<'_>, peer: SocketAddr) -> Result<(), c_int> {
        let known = self.peers.get(&peer).ok_or(libc::EBADF)?;
        let queue = self.queues.get_mut(known.queue).ok_or(libc::EBADF)?;
        let (handle, qpn) = known.reachable.as_ref().ok_or(libc::EAGAIN)?;
        queue.send(from, handle, *qpn)
    }

    /// Builds the header of a message over UDP.
    fn udp_head(&self, op: UdpOp, peer: SocketAddr) -> Result<Vec<u8>, c_int> {
        let queue = self.queue(peer).ok_or(libc::EBADF)?;
        Ok(udp_header(op, queue.number(), queue.source.ip()).bytes().to_vec())
    }
}
