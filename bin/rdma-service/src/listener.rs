//! Listeners of RDMA CM.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use weft_abi_types::{RDMA_PS_IB, RDMA_PS_TCP};
use weft_client::Which;
use weft_client::rdmacm::{CmId, CmLibrary, EventChannel, SockAddr, lookup};
use weft_tool::errno;

use crate::limits::BACKLOG;

/// Opens a channel for events of RDMA CM.
///
/// # Errors
/// The library cannot be loaded, or there is no RDMA device.
pub fn channel(which: Which) -> Result<EventChannel> {
    let library = CmLibrary::load(which)?;
    EventChannel::new(library)
        .map_err(|error| anyhow::anyhow!("{}", errno::text(&error)))
        .context("no RDMA device; `weft status` and `weft link` show Weft's")
}

/// Listens on a port: at one address, or at all.
///
/// # Errors
/// The port is in use, or the address is not of an RDMA device.
pub fn listen(channel: &EventChannel, bind: Option<IpAddr>, port: u16) -> Result<CmId> {
    match bind {
        Some(ip) => listen_at(channel, ip, port),
        // Where IPv6 is off, there is IPv4 alone.
        None => listen_at(channel, Ipv6Addr::UNSPECIFIED.into(), port)
            .or_else(|_| listen_at(channel, Ipv4Addr::UNSPECIFIED.into(), port)),
    }
    .with_context(|| format!("port {port}; choose another with --port, or an address with --bind"))
}

fn listen_at(channel: &EventChannel, ip: IpAddr, port: u16) -> Result<CmId> {
    let text = |error: std::io::Error| anyhow::anyhow!("{ip}: {}", errno::text(&error));
    let listener = CmId::new(channel, RDMA_PS_TCP).map_err(text)?;
    let address =
        lookup(Some(&ip.to_string()), Some(&port.to_string()), 0).map_err(|e| anyhow::anyhow!("{ip}: {e}"))?;
    listener.bind(&address).map_err(text)?;
    listener.listen(BACKLOG).map_err(text)?;
    Ok(listener)
}

/// Returns the service identifier of a number in the port space of InfiniBand's services: the only identifiers at which
/// programs may listen by RDMA CM.
pub fn service_id(number: u16) -> u64 {
    u64::from(RDMA_PS_IB) << 16 | u64::from(number)
}

/// Listens at a service identifier on InfiniBand: at the port with this GID, or at all.
///
/// # Errors
/// The identifier is in use, or no port has the GID.
pub fn listen_to_service(channel: &EventChannel, gid: Option<[u8; 16]>, service_id: u64) -> Result<CmId> {
    let text =
        |error: std::io::Error| anyhow::anyhow!("service identifier {service_id:#018x}: {}", errno::text(&error));
    let listener = CmId::new(channel, RDMA_PS_IB).map_err(text)?;
    listener.bind(&SockAddr::ib_service(0, gid.unwrap_or_default(), service_id)).map_err(text)?;
    listener.listen(BACKLOG).map_err(text)?;
    Ok(listener)
}
