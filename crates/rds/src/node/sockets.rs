//! Sockets by key and by address.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::socket::{Socket, SocketError, SocketKey};
use crate::limits::SOCKETS_MAX;

/// First port that a socket gets which asks for none in particular; 1 is that of probes (`RDS_FLAG_PROBE_PORT`).
const FIRST_PORT: u16 = 2;

/// Sockets of a host.
#[derive(Debug)]
pub struct Sockets {
    sockets: BTreeMap<SocketKey, Socket>,
    addresses: BTreeMap<(Ipv4Addr, u16), SocketKey>,
    next_port: u16,
}

impl Sockets {
    /// Creates an empty table; ports begin where `seed` says.
    pub fn new(seed: u64) -> Sockets {
        let next_port = (seed as u16).max(FIRST_PORT);
        Sockets { sockets: BTreeMap::new(), addresses: BTreeMap::new(), next_port }
    }

    /// Returns all.
    pub fn iter(&self) -> impl Iterator<Item = (SocketKey, &Socket)> {
        self.sockets.iter().map(|(key, socket)| (*key, socket))
    }

    /// Returns a socket.
    pub fn get(&self, key: SocketKey) -> Option<&Socket> {
        self.sockets.get(&key)
    }

    /// Returns a socket.
    pub fn get_mut(&mut self, key: SocketKey) -> Option<&mut Socket> {
        self.sockets.get_mut(&key)
    }

    /// Returns the socket at an address.
    pub fn at(&self, address: SocketAddrV4) -> Option<SocketKey> {
        self.addresses.get(&(*address.ip(), address.port())).copied()
    }

    /// Whether a socket has an address with this IP address.
    pub fn has_address(&self, ip: Ipv4Addr) -> bool {
        self.addresses.range((ip, 0)..=(ip, u16::MAX)).next().is_some()
    }

    /// Adds a socket.
    pub fn open(&mut self, key: SocketKey) -> Result<(), SocketError> {
        if self.sockets.len() >= SOCKETS_MAX {
            return Err(SocketError::TooMany);
        }
        self.sockets.insert(key, Socket::default());
        Ok(())
    }

    /// Removes a socket.
    pub fn close(&mut self, key: SocketKey) -> Option<Socket> {
        let socket = self.sockets.remove(&key)?;
        if let Some(address) = socket.options.bound {
            self.addresses.remove(&(*address.ip(), address.port()));
        }
        Some(socket)
    }

    /// Gives a socket its address.
    pub fn bind(&mut self, key: SocketKey, address: SocketAddrV4) -> Result<SocketAddrV4, SocketError> {
        let port = match address.port() {
            0 => self.free_port(*address.ip())?,
            port => port,
        };
        let socket = self.sockets.get_mut(&key).ok_or(SocketError::Unknown)?;
        if socket.options.bound.is_some() {
            return Err(SocketError::Bound);
        }
        if self.addresses.contains_key(&(*address.ip(), port)) {
            return Err(SocketError::InUse);
        }
        let address = SocketAddrV4::new(*address.ip(), port);
        socket.options.bound = Some(address);
        self.addresses.insert((*address.ip(), port), key);
        Ok(address)
    }

    fn free_port(&mut self, ip: Ipv4Addr) -> Result<u16, SocketError> {
        for _ in 0..=u16::MAX {
            let port = self.next_port;
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.addresses.contains_key(&(ip, port)) {
                return Ok(port);
            }
        }
        Err(SocketError::InUse)
    }
}
