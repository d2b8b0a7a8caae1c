//! Requests about the IPoIB interfaces of the program's host.

use super::Client;
use crate::ipoib::{IpoibInterface, IpoibNeighbour};
use crate::limits::{IPOIB_INTERFACES_MAX, IPOIB_NEIGHBOURS_MAX};
use crate::{Request, RequestError, Response, valid_netdev_name};

impl Client {
    /// Returns the IPoIB interfaces of the program's host; none while its network does not exist.
    pub fn ipoib_interfaces(&mut self) -> Result<Vec<IpoibInterface>, RequestError> {
        match self.request(Request::IpoibInterfaces)? {
            Response::IpoibInterfaces(all)
                if all.len() <= IPOIB_INTERFACES_MAX && all.iter().all(|one| valid_netdev_name(&one.name)) =>
            {
                Ok(all)
            }
            _ => Err(RequestError::Protocol),
        }
    }

    /// Returns the neighbours of an interface.
    pub fn ipoib_neighbours(&mut self, ifindex: u32) -> Result<Vec<IpoibNeighbour>, RequestError> {
        let mut all: Vec<IpoibNeighbour> = Vec::new();
        loop {
            let after = all.last().map(|last| last.ip);
            let Response::IpoibNeighbours(page) = self.request(Request::IpoibNeighbours { ifindex, after })? else {
                return Err(RequestError::Protocol);
            };
            if page.is_empty() || all.len() > IPOIB_NEIGHBOURS_MAX {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Makes the interface of another partition of a port.
    pub fn add_ipoib_child(&mut self, parent: &str, pkey: u16, name: Option<&str>) -> Result<(), RequestError> {
        let name = name.map(str::to_owned);
        self.done(Request::AddIpoibChild { parent: parent.to_owned(), pkey, name })
    }

    /// Removes such an interface.
    pub fn delete_ipoib_child(&mut self, parent: &str, pkey: u16) -> Result<(), RequestError> {
        self.done(Request::DeleteIpoibChild { parent: parent.to_owned(), pkey })
    }
}
