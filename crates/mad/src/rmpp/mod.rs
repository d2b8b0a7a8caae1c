//! Multi-packet transfers (IBA 13.6) as two state machines, which know segments and windows and nothing of time.

mod receiver;
mod sender;

pub use receiver::{Received, Receiver};
pub use sender::{AckOutcome, Sender, TransferError};

use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::vendor::VendorMad;
use weft_wire::mad::{MAD_LEN, Mad, MadHeader};

/// Where the multi-packet header stands.
const HEADER_AT: usize = MadHeader::LEN;
/// Where what a segment's payload length counts begins: the header that the class puts into each segment counts too.
const PAYLOAD_AT: usize = HEADER_AT + RmppHeader::LEN;

/// The multi-packet header of a datagram.
pub fn header(mad: &Mad) -> RmppHeader {
    VendorMad::ref_from_mad(mad).rmpp
}

/// Write the multi-packet header of a datagram.
pub fn set_header(mad: &mut Mad, header: RmppHeader) {
    VendorMad::mut_from_mad(mad).rmpp = header;
}

/// The datagram of these bytes: zeros where they end, and without what is too much.
pub fn first_mad(bytes: &[u8]) -> Mad {
    let mut whole = [0; MAD_LEN];
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    zerocopy::transmute!(whole)
}

#[cfg(test)]
mod tests;
