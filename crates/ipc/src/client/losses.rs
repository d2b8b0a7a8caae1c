//! Reports about undeliverable packets.

use super::Client;
use crate::{KeyViolation, LostPackets, Request, RequestError, Response};

impl Client {
    /// Reports packets sent over closed paths.
    pub fn lost_packets(&mut self, lost: Vec<LostPackets>) -> Result<(), RequestError> {
        self.tell_fabric(Request::LostPackets(lost))
    }

    /// Reports packets with a wrong key.
    pub fn key_violations(&mut self, violations: Vec<KeyViolation>) -> Result<(), RequestError> {
        self.tell_fabric(Request::KeyViolations(violations))
    }

    fn tell_fabric(&mut self, request: Request) -> Result<(), RequestError> {
        match self.request(request)? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }
}
