//! Port spaces: the owners of ports, and when ids may share a port. The rules are those of Linux's `cma.c`: an address
//! is free if every owner of the port either has a different address or, like the new id, permits sharing.

use std::collections::BTreeMap;

use super::address::{PortSpace, SockAddr};
use super::command::IdNumber;
use super::errno::{EADDRINUSE, EADDRNOTAVAIL, Errno};
use super::id::{Id, Ids};

/// Default range of ports for port 0, unless the host sets another (`net.ipv4.ip_local_port_range`).
const LOCAL_PORTS: (u16, u16) = (32768, 60999);

/// First port that needs no privilege.
pub const PRIVILEGED_PORTS_END: u16 = 1024;

/// The owners of all ports.
#[derive(Debug)]
pub struct Ports {
    owners: BTreeMap<(PortSpace, u16), Vec<IdNumber>>,
    range: (u16, u16),
    last_used: u16,
}

impl Default for Ports {
    fn default() -> Ports {
        Ports { owners: BTreeMap::new(), range: LOCAL_PORTS, last_used: 0 }
    }
}

impl Ports {
    /// Sets the range of ports for port 0; ignores a reversed range.
    pub fn set_range(&mut self, low: u16, high: u16) {
        if low != 0 && low <= high {
            self.range = (low, high);
        }
    }

    /// Returns the owners of a port, newest first.
    pub fn owners(&self, port_space: PortSpace, port: u16) -> impl Iterator<Item = IdNumber> + '_ {
        self.owners.get(&(port_space, port)).into_iter().flatten().rev().copied()
    }

    /// Returns the owners of all ports of connected services.
    pub fn listeners(&self) -> impl Iterator<Item = IdNumber> + '_ {
        let of_tcp = (PortSpace::Tcp, 0)..=(PortSpace::Tcp, u16::MAX);
        self.owners.range(of_tcp).flat_map(|(_, owners)| owners).copied()
    }

    /// Gives an id the port of its local address, or refuses it.
    pub fn take(&mut self, ids: &Ids, port_space: PortSpace, number: IdNumber, port: u16) -> Result<(), Errno> {
        self.check(ids, port_space, number, port, None)?;
        self.owners.entry((port_space, port)).or_default().push(number);
        Ok(())
    }

    /// Checks whether an id may have a port, or start to listen on it, for which it must be alone (`reuse` is
    /// `Some(false)`).
    pub fn check(
        &self,
        ids: &Ids,
        port_space: PortSpace,
        number: IdNumber,
        port: u16,
        reuse: Option<bool>,
    ) -> Result<(), Errno> {
        let Some(newcomer) = ids.look(number) else { return Err(EADDRNOTAVAIL) };
        let reuse = reuse.unwrap_or(newcomer.options.reuseaddr);
        for owner in self.owners(port_space, port).filter(|owner| *owner != number) {
            let Some(owner) = ids.look(owner) else { continue };
            conflict(newcomer, reuse, owner)?;
        }
        Ok(())
    }

    /// Gives an id any free port, searching from a random start.
    pub fn take_any(&mut self, ids: &Ids, port_space: PortSpace, number: IdNumber, random: u32) -> Result<u16, Errno> {
        let Some(newcomer) = ids.look(number) else { return Err(EADDRNOTAVAIL) };
        let (low, high) = self.range;
        let count = u32::from(high - low) + 1;
        let start = random % count;
        for step in 0..count {
            let offset = (start + step) % count;
            let port = low + u16::try_from(offset).unwrap_or(0);
            // A port that was just closed may still have packets in the network.
            if port == self.last_used && count > 1 {
                continue;
            }
            let owners = self.owners(port_space, port).filter_map(|owner| ids.look(owner));
            if owners.into_iter().all(|owner| differs(newcomer, owner)) {
                self.owners.entry((port_space, port)).or_default().push(number);
                self.last_used = port;
                return Ok(port);
            }
        }
        Err(EADDRNOTAVAIL)
    }

    /// Returns whether no id holds a port.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Takes a port from an id.
    pub fn release(&mut self, port_space: PortSpace, port: u16, number: IdNumber) {
        if let Some(owners) = self.owners.get_mut(&(port_space, port)) {
            owners.retain(|owner| *owner != number);
            if owners.is_empty() {
                self.owners.remove(&(port_space, port));
            }
        }
    }
}

/// Checks whether an owner keeps a new id from binding the same explicit port.
fn conflict(newcomer: &Id, reuse: bool, owner: &Id) -> Result<(), Errno> {
    let (Some(addr), Some(owned)) = (newcomer.src, owner.src) else { return Ok(()) };
    if reuse && owner.options.reuseaddr {
        return Ok(());
    }
    if newcomer.options.afonly && owner.options.afonly && addr.family() != owned.family() {
        return Ok(());
    }
    if addr.is_any() || owned.is_any() {
        return Err(EADDRNOTAVAIL);
    }
    if same_address(addr, owned) { Err(EADDRINUSE) } else { Ok(()) }
}

/// Returns whether two ids with the same automatically chosen port differ in their other known addresses and ports.
fn differs(newcomer: &Id, owner: &Id) -> bool {
    let pair = |a: Option<SockAddr>, b: Option<SockAddr>| match (a, b) {
        (Some(a), Some(b)) => !a.is_any() && !b.is_any() && !same_address(a, b),
        _ => false,
    };
    let port = |addr: Option<SockAddr>| addr.map_or(0, |addr| addr.port());
    let (dport, owner_dport) = (port(newcomer.dst), port(owner.dst));
    (dport != 0 && owner_dport != 0 && dport != owner_dport)
        || pair(newcomer.src, owner.src)
        || pair(newcomer.dst, owner.dst)
}

/// Returns whether two addresses are the same, ports aside.
pub fn same_address(a: SockAddr, b: SockAddr) -> bool {
    match (a, b) {
        (SockAddr::V6 { addr: x, scope_id: scope_x, .. }, SockAddr::V6 { addr: y, scope_id: scope_y, .. }) => {
            x == y && (!y.is_unicast_link_local() || scope_x == scope_y)
        }
        (SockAddr::V4 { addr: x, .. }, SockAddr::V4 { addr: y, .. }) => x == y,
        (SockAddr::Ib(x), SockAddr::Ib(y)) => x.gid == y.gid,
        _ => false,
    }
}
