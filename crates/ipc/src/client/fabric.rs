//! Requests about the InfiniBand fabric.

use super::Client;
use crate::fabric::{FabricPort, FabricReply, FabricRequest, FabricStamp, FabricStatus, HostPrograms, PortCursor};
use crate::limits::{FABRIC_BYTES_MAX, FABRIC_HOSTS_MAX, FABRIC_PART_BYTES_MAX, HOST_NAME_BYTES_MAX};
use crate::printable::printable;
use crate::{Request, RequestError, Response};

impl Client {
    /// Sends a request about the fabric.
    pub fn fabric(&mut self, request: FabricRequest) -> Result<FabricReply, RequestError> {
        match self.request(Request::Fabric(request))? {
            Response::Fabric(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Brings up the fabric that these bytes describe; `packets` selects packet mode (every packet travels hop by hop),
    /// `ipoib_connected` connected mode for the hosts' IPoIB interfaces.
    pub fn fabric_up(
        &mut self,
        description: &[u8],
        seed: u64,
        packets: bool,
        ipoib_connected: bool,
    ) -> Result<(), RequestError> {
        for part in description.chunks(FABRIC_PART_BYTES_MAX) {
            self.fabric(FabricRequest::Describe(part.to_vec()))?;
        }
        let length = u32::try_from(description.len()).map_err(|_| RequestError::Protocol)?;
        self.fabric(FabricRequest::Up { length, seed, packets, ipoib_connected }).map(drop)
    }

    /// Returns the status of the fabric, if there is one.
    pub fn fabric_status(&mut self) -> Result<Option<FabricStatus>, RequestError> {
        let FabricReply::Status(status) = self.fabric(FabricRequest::Status)? else {
            return Err(RequestError::Protocol);
        };
        Ok(status.map(|mut status| {
            status.title = printable(&status.title);
            status.managers.iter_mut().for_each(|manager| manager.node = printable(&manager.node));
            *status
        }))
    }

    /// Returns the hosts that have programs.
    pub fn fabric_hosts(&mut self) -> Result<Vec<HostPrograms>, RequestError> {
        let mut all: Vec<HostPrograms> = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let FabricReply::Hosts { hosts, more } = self.fabric(FabricRequest::Hosts { offset })? else {
                return Err(RequestError::Protocol);
            };
            let last = !more || hosts.is_empty();
            let sane = hosts.into_iter().filter(|entry| entry.host.len() <= HOST_NAME_BYTES_MAX);
            all.extend(sane.map(|entry| HostPrograms { host: printable(&entry.host), ..entry }));
            if last || all.len() > FABRIC_HOSTS_MAX {
                return Ok(all);
            }
        }
    }

    /// Returns the ports of the fabric that have a cable or counted something: the first `most` of them, and whether
    /// there are more.
    pub fn fabric_ports(&mut self, most: usize) -> Result<(Vec<FabricPort>, bool), RequestError> {
        let (mut all, mut cursor): (Vec<FabricPort>, _) = (Vec::new(), PortCursor::default());
        loop {
            let FabricReply::Ports { ports, next } = self.fabric(FabricRequest::Ports { from: cursor })? else {
                return Err(RequestError::Protocol);
            };
            all.extend(ports.into_iter().map(printable_port));
            // A page whose cursor does not advance would repeat forever.
            let next = next.filter(|next| *next > cursor);
            match next {
                Some(next) if all.len() <= most => cursor = next,
                _ => {
                    let more = next.is_some() || all.len() > most;
                    all.truncate(most);
                    return Ok((all, more));
                }
            }
        }
    }

    /// Returns the stamp of the fabric's present state; `None` if there is no fabric.
    pub fn fabric_stamp(&mut self) -> Result<Option<FabricStamp>, RequestError> {
        match self.fabric(FabricRequest::Stamp)? {
            FabricReply::Stamp(stamp) => Ok(stamp),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Returns the bytes of a snapshot of the fabric.
    pub fn fabric_picture(&mut self) -> Result<Vec<u8>, RequestError> {
        self.fabric_parts(|offset| FabricRequest::Picture { offset })
    }

    /// Returns the bytes of the state of the fabric's nodes and cables.
    pub fn fabric_live_state(&mut self) -> Result<Vec<u8>, RequestError> {
        self.fabric_parts(|offset| FabricRequest::LiveState { offset })
    }

    /// Returns the bytes of the counters of the fabric's cables.
    pub fn fabric_traffic(&mut self) -> Result<Vec<u8>, RequestError> {
        self.fabric_parts(|offset| FabricRequest::Traffic { offset })
    }

    fn fabric_parts(&mut self, request: impl Fn(u32) -> FabricRequest) -> Result<Vec<u8>, RequestError> {
        let mut all = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let FabricReply::Part { bytes, more } = self.fabric(request(offset))? else {
                return Err(RequestError::Protocol);
            };
            let last = !more || bytes.is_empty();
            all.extend(bytes);
            if all.len() > FABRIC_BYTES_MAX {
                return Err(RequestError::Protocol);
            }
            if last {
                return Ok(all);
            }
        }
    }
}

fn printable_port(mut port: FabricPort) -> FabricPort {
    port.node = printable(&port.node);
    if let Some(peer) = &mut port.peer {
        peer.node = printable(&peer.node);
    }
    port
}
