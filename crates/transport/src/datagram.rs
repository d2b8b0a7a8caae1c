//! A datagram before it takes a form: the adapter chooses its route, and only then a packet or a frame is built.

use weft_verbs::{Qpn, UdTarget};
use weft_wire::packet::HeaderBuf;
use weft_wire::{Bth, Headers};

use crate::frame::Outgoing;

/// A datagram about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Number of the sending queue pair.
    pub src_qpn: Qpn,
    /// Its port.
    pub port_num: u8,
    /// Its destination.
    pub target: &'a UdTarget,
    /// Base transport header, with the P_Key of the sending queue pair.
    pub bth: Bth,
    /// Extended headers.
    pub ext: &'a Headers,
    /// Payload: inline bytes or checked memory.
    pub payload: Outgoing<'a>,
}

impl Datagram<'_> {
    /// Returns the payload's bytes.
    pub fn payload_len(&self) -> u32 {
        self.payload.len() as u32
    }

    /// Writes BTH and extended headers.
    pub fn header(&self) -> HeaderBuf {
        HeaderBuf::write(self.bth, self.ext, self.payload_len() as usize)
    }
}
