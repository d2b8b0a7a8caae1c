//! Binding and listening: `rdma_bind_addr` and `rdma_listen` as Linux's `cma.c` does them.

use std::net::IpAddr;

use super::address::{Family, PortSpace, SockAddr, SockAddrIb};
use super::command::IdNumber;
use super::connect::errno_of;
use super::errno::{EACCES, EADDRNOTAVAIL, EINVAL, ENODEV, ENOENT, EPROTONOSUPPORT, Errno};
use super::id::{Attachment, Id, State, service_id};
use super::limits::BACKLOG_MAX;
use super::ports::PRIVILEGED_PORTS_END;
use super::service::Service;

/// Bits of an `AF_IB` service id that give its port space (`RDMA_IB_IP_PS_MASK`).
const IB_PORT_SPACE_MASK: u64 = 0xffff_ffff_ffff_0000;

impl Service {
    /// `rdma_bind_addr`; also for `rdma_resolve_addr`, which knows the peer's address already.
    pub(super) fn bind(&mut self, number: IdNumber, addr: SockAddr, dst: Option<SockAddr>) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        if id.state != State::Idle {
            return Err(EINVAL);
        }
        let bound_if = scope_of(addr)?.unwrap_or(id.bound_if);
        let attachment = if addr.is_any() { None } else { Some(self.local_device(id, addr, bound_if)?) };
        let id = self.ids.change(number).ok_or(ENOENT)?;
        let before = (id.src, id.dst, id.bound_if, id.options.afonly);
        id.src = Some(addr);
        id.dst = dst.or(id.dst);
        id.bound_if = attachment.map_or(bound_if, |found| found.ifindex);
        if !id.options.afonly_set {
            id.options.afonly = addr.family() == Family::Inet;
        }
        if let Err(errno) = self.take_port(number) {
            if let Some(id) = self.ids.change(number) {
                (id.src, id.dst, id.bound_if, id.options.afonly) = before;
            }
            return Err(errno);
        }
        if let Some(id) = self.ids.change(number) {
            id.state = State::AddrBound;
            id.attachment = attachment;
        }
        Ok(())
    }

    /// Returns the device of a local address: EADDRNOTAVAIL if the host does not have the address, ENODEV if it is on
    /// no device.
    fn local_device(&self, id: &Id, addr: SockAddr, ifindex: u32) -> Result<Attachment, Errno> {
        let ip: IpAddr = addr.ip();
        match self.devices.by_ip(ip, ifindex) {
            // RoCE has no IPoIB.
            Some(_) if id.port_space == PortSpace::Ipoib => Err(EINVAL),
            Some(found) => Ok(found),
            None if matches!(addr, SockAddr::Ib(_)) || self.devices.is_local(ip) => Err(ENODEV),
            None => Err(EADDRNOTAVAIL),
        }
    }

    /// Takes the port that the local address names, or any free one.
    fn take_port(&mut self, number: IdNumber) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let src = id.src.ok_or(EINVAL)?;
        let (port_space, src) = port_space_of(id, src).ok_or(EPROTONOSUPPORT)?;
        let port = match src.port() {
            0 => {
                let random = self.rng.next_u32();
                self.ports.take_any(&self.ids, port_space, number, random)?
            }
            port => {
                if port < PRIVILEGED_PORTS_END && !self.may_take_privileged_ports(id.client) {
                    return Err(EACCES);
                }
                self.ports.take(&self.ids, port_space, number, port)?;
                port
            }
        };
        let id = self.ids.change(number).ok_or(ENOENT)?;
        id.port = Some((port_space, port));
        id.src = Some(with_bound_port(src, port));
        Ok(())
    }

    /// `rdma_listen`. An unbound id is bound to the IPv4 wildcard first.
    pub(super) fn listen(&mut self, number: IdNumber, backlog: i32) -> Result<(), Errno> {
        if self.ids.look(number).ok_or(ENOENT)?.state != State::AddrBound {
            self.bind(number, SockAddr::any(Family::Inet), None)?;
        }
        let id = self.ids.look(number).ok_or(ENOENT)?;
        if id.options.reuseaddr {
            // A listener needs its address alone: sharing is possible only while no id listens.
            let (port_space, port) = id.port.ok_or(EINVAL)?;
            self.ports.check(&self.ids, port_space, number, port, Some(false))?;
        }
        let service_id = id.src.map(|src| id.service_id(src)).ok_or(EINVAL)?;
        let service = self.ib.listen(service_id, u64::MAX).map_err(errno_of)?;
        let id = self.ids.change(number).ok_or(ENOENT)?;
        id.service = Some(service);
        id.options.reuseaddr = false;
        id.state = State::Listen;
        id.backlog = match u32::try_from(backlog) {
            Ok(wanted @ 1..=BACKLOG_MAX) => wanted,
            _ => BACKLOG_MAX,
        };
        Ok(())
    }
}

/// Returns the interface of a link-local address, which must name one.
fn scope_of(addr: SockAddr) -> Result<Option<u32>, Errno> {
    match addr {
        SockAddr::V6 { addr, scope_id, .. } if addr.is_unicast_link_local() => match scope_id {
            0 => Err(EINVAL),
            scope => Ok(Some(scope)),
        },
        _ => Ok(None),
    }
}

/// Returns the port space of an id's local address, and the address with its complete service id: an `AF_IB` address
/// selects the port space by its service id (`cma_select_ib_ps`).
fn port_space_of(id: &Id, src: SockAddr) -> Option<(PortSpace, SockAddr)> {
    let SockAddr::Ib(ib) = src else { return Some((id.port_space, src)) };
    let mask = ib.sid_mask & IB_PORT_SPACE_MASK;
    let wanted = ib.sid & mask;
    let spaces = [PortSpace::Ib, PortSpace::Tcp, PortSpace::Udp];
    let chosen = spaces.into_iter().find(|space| {
        let may = id.port_space == PortSpace::Ib || id.port_space == *space;
        may && wanted == service_id(*space, 0) & mask
    })?;
    let sid = service_id(chosen, src.port());
    Some((chosen, SockAddr::Ib(SockAddrIb { sid, sid_mask: ib.sid_mask | IB_PORT_SPACE_MASK, ..ib })))
}

/// Returns the local address with its assigned port; for `AF_IB` the mask then covers the whole service id.
fn with_bound_port(src: SockAddr, port: u16) -> SockAddr {
    match src.with_port(port) {
        SockAddr::Ib(ib) => SockAddr::Ib(SockAddrIb { sid_mask: u64::MAX, ..ib }),
        other => other,
    }
}
