//! Receiving datagrams, from queue pairs and over UDP.

use libc::{c_int, iovec};
use std::net::SocketAddr;

use super::Datagram;
use super::core::{Core, Received, STRANGERS_MAX};
use super::resolution::Resolution;
use super::udp;
use crate::rsocket::gather::Gather;
use crate::rsocket::proto::datagram::{HEADER_BYTES_MAX, SLOT_BYTES, UdpOp, parse_source, parse_udp};
use crate::rsocket::service::Handler;
use crate::rsocket::wait;

/// Maximum number of UDP packets that the service thread reads before it serves others.
const UDP_BATCH: usize = 64;

impl Datagram {
    /// Receives a message into `buffers`: returns the number of bytes that fit, and the sender.
    ///
    /// # Safety
    /// Each buffer must have room for its bytes.
    pub(crate) unsafe fn receive(&self, buffers: &[iovec], flags: c_int) -> Result<(usize, SocketAddr), c_int> {
        let nonblocking = self.nonblocking(flags);
        {
            let core = self.lock();
            if !core.started {
                return Err(libc::EINVAL);
            }
        }
        let (mut core, found) = wait::until(&self.core, nonblocking, |core| {
            if core.closed { Some(Err(libc::EBADF)) } else { (!core.received.is_empty()).then_some(Ok(())) }
        })?;
        found?;
        // SAFETY: the caller upholds the contract.
        let mut to = unsafe { Gather::new(buffers) };
        let taken = core.copy_first(&mut to)?;
        if flags & libc::MSG_PEEK == 0 {
            core.drop_first();
        }
        Ok(taken)
    }
}

impl Handler for Datagram {
    /// Reads the UDP socket, over which peers announce their queue pairs.
    fn on_readable(&self) {
        let mut packet = [0; SLOT_BYTES + HEADER_BYTES_MAX];
        for _ in 0..UDP_BATCH {
            let Some((bytes, from)) = udp::receive(&self.socket, &mut packet) else { return };
            let Some(message) = packet.get(..bytes).and_then(|packet| parse_udp(packet, from.ip())) else { continue };
            let mut core = self.lock();
            if self.reach(&mut core, from, STRANGERS_MAX).is_err() {
                continue;
            }
            if message.op == UdpOp::Data {
                self.send_udp_control(&core, from);
            }
            if core.needs(from, message.qpn) {
                Resolution::begin(&self.service, &self.me, &mut core, from, message.qpn);
            }
            if message.op == UdpOp::Data {
                core.keep(from, message.data);
                core.wakers.wake();
            }
        }
    }
}

impl Core {
    /// Whether the queue pair that a peer announced must be resolved: it is unknown, and no resolution for the peer is
    /// in progress. Each peer gets one resolution at most, because any host can announce another number with each
    /// packet.
    fn needs(&self, peer: SocketAddr, qpn: u32) -> bool {
        self.peers.get(&peer).is_some_and(|peer| {
            peer.reachable.as_ref().is_none_or(|(_, known)| *known != qpn) && peer.resolving.is_none()
        })
    }

    /// Copies the first message out.
    fn copy_first(&self, to: &mut Gather<'_>) -> Result<(usize, SocketAddr), c_int> {
        match self.received.front().ok_or(libc::EAGAIN)? {
            Received::Udp { source, data } => Ok((to.copy_bytes(data), *source)),
            Received::Slot { queue, slot, bytes } => {
                let message = self.queues.get(*queue).ok_or(libc::EBADF)?.received(*slot, *bytes);
                // The header was checked when the message arrived.
                let (source, data) = parse_source(&message).ok_or(libc::EIO)?;
                Ok((to.copy_bytes(data), source))
            }
        }
    }

    fn drop_first(&mut self) {
        if let Some(Received::Slot { queue, slot, .. }) = self.received.pop_front()
            && let Some(queue) = self.queues.get(queue)
        {
            // A device that refuses a receive refuses everything from now on.
            let _ = queue.post_receive(slot);
        }
    }
}
