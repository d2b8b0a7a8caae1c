//! Multicast groups that ids have joined: the host is a member (IGMP, MLD) as long as a socket of this process is. The
//! sockets have no port, so the daemon receives no packet of a group; the program's own sockets receive them, once it
//! attaches a queue pair.

use libc::ENOMEM;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use weft_sys::roce_port::{self, Family};

/// Groups of all processes together.
const MEMBERSHIPS_MAX: usize = 1024;

/// The sockets, by interface and group.
#[derive(Debug, Default)]
pub struct Memberships {
    map: BTreeMap<(u32, IpAddr), OwnedFd>,
}

impl Memberships {
    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Joins a group on an interface; returns the errno if that fails.
    pub fn join(&mut self, ifindex: u32, group: IpAddr) -> Result<(), i32> {
        if self.map.contains_key(&(ifindex, group)) {
            return Ok(());
        }
        if self.map.len() >= MEMBERSHIPS_MAX {
            return Err(ENOMEM);
        }
        let family = if group.is_ipv4() { Family::V4 } else { Family::V6 };
        let join = || -> io::Result<OwnedFd> {
            let socket = roce_port::portless(family)?;
            roce_port::join_multicast(&socket, group, ifindex)?;
            Ok(socket)
        };
        let socket = join().map_err(|error| error.raw_os_error().unwrap_or(ENOMEM))?;
        self.map.insert((ifindex, group), socket);
        Ok(())
    }

    /// Leaves a group.
    pub fn leave(&mut self, ifindex: u32, group: IpAddr) {
        self.map.remove(&(ifindex, group));
    }
}
