//! Requests about the Ethernet network of virtual hosts.

use super::Client;
use crate::ethernet::{EthernetSpec, EthernetStatus};
use crate::{Request, RequestError, Response};

impl Client {
    /// Brings up an Ethernet network.
    pub fn ethernet_up(&mut self, spec: EthernetSpec) -> Result<(), RequestError> {
        self.done(Request::EthernetUp(spec))
    }

    /// Returns the Ethernet network that is up, if there is one.
    pub fn ethernet_status(&mut self) -> Result<Option<EthernetStatus>, RequestError> {
        match self.request(Request::EthernetStatus)? {
            Response::Ethernet(status) if status.is_none_or(|status| status.spec.check().is_ok()) => Ok(status),
            _ => Err(RequestError::Protocol),
        }
    }
}
