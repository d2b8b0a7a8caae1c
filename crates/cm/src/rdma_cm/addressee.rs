//! Programs that datagrams come from or are for. Faults that a program asked for affect these datagrams alone.

use weft_mad::{GmpAddress, MadBytes};

use super::address::PortSpace;
use super::client::ClientId;
use super::id::State;
use super::service::Service;
use crate::ib::Addressee;

impl Service {
    /// Returns the program that a datagram is for: the owner of the connection that it names, or of the newest listener
    /// on the port of the requested service.
    pub fn addressee(&self, from: &GmpAddress, mad: &MadBytes) -> Option<ClientId> {
        let number = match self.ib.addressee(from, mad)? {
            Addressee::Connection(conn) => *self.owners.get(&conn)?,
            Addressee::Service(service_id) => {
                let port_space = PortSpace::from_number((service_id >> 16) as u16)?;
                let mut owners = self.ports.owners(port_space, service_id as u16);
                owners.find(|owner| self.ids.look(*owner).is_some_and(|id| id.state == State::Listen))?
            }
        };
        self.ids.look(number).map(|id| id.client)
    }

    /// Returns the program that sends a datagram: the owner of the connection that it belongs to.
    pub fn sender(&self, mad: &MadBytes) -> Option<ClientId> {
        let number = *self.owners.get(&self.ib.sender(mad)?)?;
        self.ids.look(number).map(|id| id.client)
    }

    /// Returns whether an administrator changed the defaults of new ids on any device.
    pub fn has_settings(&self) -> bool {
        self.devices.any_settings()
    }
}
