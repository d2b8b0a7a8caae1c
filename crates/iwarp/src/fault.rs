//! Reasons to give up a stream, found below DDP.

use weft_wire::iwarp::{HeaderError, TermError};

/// Fault of a received stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamFault {
    /// A CRC is wrong.
    #[error("wrong CRC")]
    Crc,
    /// A marker does not point to the beginning of its FPDU.
    #[error("a marker and the ULPDU length disagree")]
    Marker,
    /// A header is malformed.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl StreamFault {
    /// Returns the error that a TERMINATE reports.
    pub fn term_error(self) -> TermError {
        match self {
            StreamFault::Crc => TermError::MPA_CRC,
            StreamFault::Marker => TermError::MPA_MARKER,
            StreamFault::Header(HeaderError::DdpVersion { tagged: true }) => TermError::TAGGED_VERSION,
            StreamFault::Header(HeaderError::DdpVersion { tagged: false }) => TermError::UNTAGGED_VERSION,
            StreamFault::Header(HeaderError::RdmapVersion) => TermError::RDMAP_VERSION,
            StreamFault::Header(HeaderError::Opcode) => TermError::OPCODE,
            // The specifications have no code for a segment that is too short for its header.
            StreamFault::Header(HeaderError::Length) => TermError::DDP_CATASTROPHE,
        }
    }
}
