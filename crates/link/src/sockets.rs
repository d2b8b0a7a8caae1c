//! The sending sockets. One source port carries packets for only one process of one host (one address and one slot of
//! queue pair numbers): the receiving kernel merges packets of one source port into one buffer and delivers that to the
//! socket of the first packet, so packets of different slots must never share a source port.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use weft_sys::fork;
use weft_sys::roce_port::{self, Family};
use weft_sys::udp;

/// Maximum number of sending sockets of one process. Beyond it, destinations share sockets by hash: still correct, but
/// a receiver may then see packets of two of its processes merged, and drops the misrouted ones.
pub const SOCKETS_MAX: usize = 256;

/// Send buffer size of each socket, if the system allows it.
pub const SEND_BUFFER_BYTES: usize = 8 << 20;

/// A sending socket.
#[derive(Debug)]
pub struct TxSocket {
    /// The descriptor.
    pub fd: OwnedFd,
    /// Its source port.
    pub port: u16,
    /// Whether to let the kernel cut (UDP_SEGMENT); cleared when it refuses.
    pub segments: bool,
    /// The kernel refused a message with segments, and has taken no packet since: the cause may be another.
    pub doubted: bool,
    family: Family,
}

impl Drop for TxSocket {
    fn drop(&mut self) {
        fork::forget(&self.fd);
    }
}

/// All sending sockets.
#[derive(Debug, Default)]
pub struct TxSockets {
    sockets: Vec<TxSocket>,
    by_destination: FxHashMap<(IpAddr, u32), u32>,
    entropy: u64,
}

/// Maximum number of cached destinations; beyond it the cache is cleared (the sockets stay).
const DESTINATIONS_MAX: usize = 16_384;

impl TxSockets {
    /// Makes an empty pool; `entropy` spreads source ports.
    pub fn new(entropy: u64) -> TxSockets {
        TxSockets { entropy, ..TxSockets::default() }
    }

    /// Returns the socket for packets to `slot` at `dst`; makes one if there is none.
    pub fn index(&mut self, dst: IpAddr, slot: u32) -> io::Result<usize> {
        if let Some(&index) = self.by_destination.get(&(dst, slot)) {
            return Ok(index as usize);
        }
        let family = match dst {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        };
        let hash = FxBuildHasher.hash_one((self.entropy, dst, slot));
        let index = if self.sockets.len() < SOCKETS_MAX {
            let (fd, port) = udp::sender(family, (hash >> 32) as u32)?;
            roce_port::enlarge_send_buffer(&fd, SEND_BUFFER_BYTES);
            fork::track(&fd);
            self.sockets.push(TxSocket { fd, port, segments: true, doubted: false, family });
            self.sockets.len() - 1
        } else {
            self.shared(family, hash).ok_or(io::ErrorKind::AddrNotAvailable)?
        };
        if self.by_destination.len() >= DESTINATIONS_MAX {
            self.by_destination.clear();
        }
        self.by_destination.insert((dst, slot), index as u32);
        Ok(index)
    }

    fn shared(&self, family: Family, hash: u64) -> Option<usize> {
        let of_family = |(i, s): (usize, &TxSocket)| (s.family == family).then_some(i);
        let count = self.sockets.iter().enumerate().filter_map(of_family).count();
        let wanted = (hash >> 20) as usize % count.max(1);
        self.sockets.iter().enumerate().filter_map(of_family).nth(wanted)
    }

    /// Returns a socket by its index.
    pub fn get(&mut self, index: usize) -> Option<&mut TxSocket> {
        self.sockets.get_mut(index)
    }
}

impl AsFd for TxSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_port_serves_one_slot_and_the_pool_is_bounded() {
        let mut pool = TxSockets::new(7);
        let host = IpAddr::from([127, 0, 0, 1]);
        let a = pool.index(host, 1).unwrap();
        let b = pool.index(host, 2).unwrap();
        let ports = [a, b].map(|index| pool.get(index).unwrap().port);
        assert_ne!(ports[0], ports[1]);
        assert!(ports.iter().all(|&port| port >= udp::SOURCE_PORT_MIN));
        assert_eq!(pool.index(host, 1).unwrap(), a);
        for slot in 0..600 {
            pool.index(host, slot).unwrap();
        }
        assert_eq!(pool.sockets.len(), SOCKETS_MAX);
    }
}
