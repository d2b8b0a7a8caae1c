//! MPA, the part of iWARP between TCP's bytes and DDP's segments (RFC 5044, RFC 6581). Values in, values out: the owner
//! of a socket feeds bytes and time, and sends the bytes that come out.
//!
//! - [`Negotiation`]: requests and replies, until both ends agree on [`StreamParams`];
//! - [`FpduReader`]: bytes of the stream, cut anywhere, become headers, payload and ends of segments;
//! - [`FpduWriter`]: a header and payload named elsewhere become an FPDU with markers, padding and CRC.
//!
//! Segments mean nothing here: `weft-transport` executes them for its queue pairs.
#![forbid(unsafe_code)]

mod fault;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod negotiation;
mod params;
mod reader;
mod writer;

pub use fault::StreamFault;
pub use negotiation::{Negotiation, NegotiationError, NegotiationEvent, Offer, Role, State};
pub use params::{Rtr, StreamParams};
pub use reader::{FpduEvent, FpduReader};
pub use writer::{FpduSink, FpduWriter};
