//! RMPP, multi-packet transfers (IBA 13.6), as two state machines over segments and windows, without time.

mod receiver;
mod sender;

pub use receiver::{Received, Receiver};
pub use sender::{AckOutcome, Sender, TransferError};

use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::vendor::VendorMad;
use weft_wire::mad::{MAD_LEN, Mad, MadHeader};

/// Offset of the RMPP header.
const HEADER_AT: usize = MadHeader::LEN;
/// Offset from which a segment's payload length counts. It includes the header that the class puts into each segment.
const PAYLOAD_AT: usize = HEADER_AT + RmppHeader::LEN;

/// Returns the RMPP header of a datagram.
pub fn header(mad: &Mad) -> RmppHeader {
    VendorMad::ref_from_mad(mad).rmpp
}

/// Writes the RMPP header of a datagram.
pub fn set_header(mad: &mut Mad, header: RmppHeader) {
    VendorMad::mut_from_mad(mad).rmpp = header;
}

/// Makes a datagram of these bytes, padded with zeros or cut off.
pub fn first_mad(bytes: &[u8]) -> Mad {
    let mut whole = [0; MAD_LEN];
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    zerocopy::transmute!(whole)
}

#[cfg(test)]
mod tests;
