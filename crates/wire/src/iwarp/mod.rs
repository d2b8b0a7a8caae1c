//! iWARP: the frames that negotiate a connection, the frames of its stream, and the headers inside them. A message of
//! RDMAP (RFC 5040, extended by RFC 7306) is cut into segments of DDP (RFC 5041); each segment is one FPDU of MPA
//! (RFC 5044, negotiated as in RFC 6581) in a TCP stream:
//!
//! ```text
//!   | ULPDU length 2 | DDP and RDMAP header 14.. | payload | pad 0..3 | CRC32C 4 |     a marker every 512 bytes
//! ```

mod atomic;
mod control;
mod fpdu;
mod negotiation;
mod opcode;
mod read;
mod segment;
mod tagged;
mod terminate;
mod untagged;

pub use atomic::{AtomicKind, AtomicRequest, AtomicResponse, ImmediateData};
pub use control::Control;
pub use fpdu::{
    CRC_LEN, LENGTH_LEN, MARKER_INTERVAL, MARKER_LEN, MULPDU_MAX, MULPDU_MIN, Marker, body_len, fpdu_len, mulpdu,
    pad_len,
};
pub use negotiation::{
    Enhanced, FRAME_LEN_MAX, FrameKind, HEADER_LEN as FRAME_HEADER_LEN, MpaError, MpaFlags, NegotiationFrame,
    PRIVATE_DATA_MAX, RtrKinds,
};
pub use opcode::{Queue, RdmapOpcode, RdmapOpcodeInfo};
pub use read::ReadRequest;
pub use segment::{Body, HEADER_LEN_MAX, Header, HeaderError, SegmentHeader};
pub use tagged::Tagged;
pub use terminate::{CopiedHeaders, TERMINATE_LEN_MAX, TermError, Terminate, TerminateOrder};
pub use untagged::Untagged;
