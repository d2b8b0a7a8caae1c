//! Requests about management datagrams.

use std::time::Instant;

use weft_ipc::Refusal;
use weft_ipc::umad::UmadRequest;

use super::Broker;
use super::session::Outcome;
use crate::host::Host;
use crate::slots::ClientId;

impl Broker {
    pub(super) fn umad_request(
        &mut self,
        _now: Instant,
        _id: ClientId,
        _request: UmadRequest,
        _host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        Err(self.umad.refuse())
    }
}
