//! Connections both of whose ends are in this network namespace: each is the other's twin. The addresses of their TCP
//! connection show it, as no two connections of a namespace have the same ones.

use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use super::ConnId;

/// Address of one end. Flow labels differ between the two views of a connection.
type End = (IpAddr, u16, u32);

fn end(addr: SocketAddr) -> End {
    let scope = if let SocketAddr::V6(v6) = addr { v6.scope_id() } else { 0 };
    (addr.ip(), addr.port(), scope)
}

/// Connections that this side makes and whose negotiation has not ended, by their own address and the peer's.
#[derive(Debug, Default)]
pub(super) struct Twins {
    initiators: FxHashMap<(End, End), ConnId>,
}

impl Twins {
    /// Adds a connection of this side's making.
    pub fn insert(&mut self, local: SocketAddr, peer: SocketAddr, id: ConnId) {
        self.initiators.insert((end(local), end(peer)), id);
    }

    /// Removes a connection, unless a later one has its addresses.
    pub fn remove(&mut self, local: SocketAddr, peer: SocketAddr, id: ConnId) {
        let ends = (end(local), end(peer));
        if self.initiators.get(&ends) == Some(&id) {
            self.initiators.remove(&ends);
        }
    }

    /// Returns the twin of a connection that a peer made.
    pub fn of(&self, local: SocketAddr, peer: SocketAddr) -> Option<ConnId> {
        self.initiators.get(&(end(peer), end(local))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn twins_have_each_others_addresses() {
        let (near, far) = (addr("10.0.0.1:40000"), addr("10.0.0.1:7174"));
        let mut twins = Twins::default();
        twins.insert(near, far, ConnId(1));
        assert_eq!(twins.of(far, near), Some(ConnId(1)));
        assert_eq!(twins.of(near, far), None);
        assert_eq!(twins.of(far, addr("10.0.0.1:40001")), None);
        assert_eq!(twins.of(far, addr("10.0.0.2:40000")), None);
    }

    #[test]
    fn a_later_connection_with_the_same_addresses_stays() {
        let (near, far) = (addr("[fe80::1%2]:40000"), addr("[fe80::1%2]:7174"));
        let mut twins = Twins::default();
        twins.insert(near, far, ConnId(1));
        twins.insert(near, far, ConnId(2));
        twins.remove(near, far, ConnId(1));
        assert_eq!(twins.of(far, near), Some(ConnId(2)));
        twins.remove(near, far, ConnId(2));
        assert_eq!(twins.of(far, near), None);
    }
}
