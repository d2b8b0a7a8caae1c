//! Transport header (RFC 8166 §4.1):
//!
//! ```text
//! | xid 4 | vers 4 | credits 4 | proc 4 |  proc 0 RDMA_MSG:   chunk lists, and the RPC message behind them
//!                                          proc 1 RDMA_NOMSG: chunk lists; the message is in a chunk
//!                                          proc 3 RDMA_DONE:  nothing; receivers discard it
//!                                          proc 4 RDMA_ERROR: | ERR_VERS 1 | low 4 | high 4 |, or | ERR_CHUNK 2 |
//! ```

use super::chunk::ChunkLists;
use super::malformed::Malformed;
use super::xdr::XdrReader;

/// The version of the protocol.
pub const VERSION: u32 = 1;

const RDMA_MSG: u32 = 0;
const RDMA_NOMSG: u32 = 1;
const RDMA_DONE: u32 = 3;
const RDMA_ERROR: u32 = 4;
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;
/// Bytes of the fields that all headers have.
const FIXED_LEN: usize = 16;

/// Error that a responder reports (RFC 8166 §4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RdmaError {
    /// ERR_VERS: the responder does not speak the version.
    #[error("ERR_VERS: the peer speaks versions {low} to {high} of RPC-over-RDMA")]
    Vers {
        /// Lowest version that it speaks.
        low: u32,
        /// Highest version that it speaks.
        high: u32,
    },
    /// ERR_CHUNK: the responder cannot use the header, or the chunks do not hold the reply.
    #[error("ERR_CHUNK: the peer refuses the chunks")]
    Chunk,
}

/// Reason why bytes are not a header of version 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// The bytes end before the version: there is no request to answer.
    #[error("shorter than a transport header")]
    Short,
    /// The version is another one.
    #[error("version {vers} of RPC-over-RDMA")]
    Version {
        /// Transaction.
        xid: u32,
        /// Version of the header.
        vers: u32,
    },
    /// The body is malformed.
    #[error("{malformed}")]
    Body {
        /// Transaction.
        xid: u32,
        /// The defect.
        malformed: Malformed,
    },
}

impl HeaderError {
    /// Returns the transaction and the error with which a responder answers (RFC 8166 §4.5.1, §4.5.2).
    pub fn answer(&self) -> Option<(u32, RdmaError)> {
        match *self {
            HeaderError::Short => None,
            HeaderError::Version { xid, .. } => Some((xid, RdmaError::Vers { low: VERSION, high: VERSION })),
            HeaderError::Body { xid, .. } => Some((xid, RdmaError::Chunk)),
        }
    }
}

/// Body of a header, by its procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// RDMA_MSG: the RPC message follows the header.
    Msg(ChunkLists),
    /// RDMA_NOMSG: the RPC message is in a chunk.
    NoMsg(ChunkLists),
    /// RDMA_DONE, which the RFC withdrew. Receivers discard it (RFC 8166 §4.6).
    Done,
    /// RDMA_ERROR: the responder could not execute the call, or not return the reply.
    Error(RdmaError),
}

/// Transport header of version 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Transaction: the xid of the RPC message.
    pub xid: u32,
    /// Credits: requested by a call, granted by a reply.
    pub credits: u32,
    /// The rest.
    pub body: Body,
}

impl Header {
    /// Reads the header of a received message. Returns it with its length in bytes; the RPC message follows.
    pub fn parse(message: &[u8]) -> Result<(Header, usize), HeaderError> {
        let mut xdr = XdrReader::new(message);
        let (Some(xid), Some(vers)) = (xdr.u32(), xdr.u32()) else { return Err(HeaderError::Short) };
        if vers != VERSION {
            return Err(HeaderError::Version { xid, vers });
        }
        let (credits, body) = Body::parse(&mut xdr).map_err(|malformed| HeaderError::Body { xid, malformed })?;
        Ok((Header { xid, credits, body }, xdr.at()))
    }

    /// Returns the bytes of the header.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.wire_len());
        let procedure = match self.body {
            Body::Msg(_) => RDMA_MSG,
            Body::NoMsg(_) => RDMA_NOMSG,
            Body::Done => RDMA_DONE,
            Body::Error(_) => RDMA_ERROR,
        };
        put(&mut out, &[self.xid, VERSION, self.credits, procedure]);
        match &self.body {
            Body::Msg(lists) | Body::NoMsg(lists) => lists.write(&mut out),
            Body::Done => {}
            Body::Error(RdmaError::Vers { low, high }) => put(&mut out, &[ERR_VERS, *low, *high]),
            Body::Error(RdmaError::Chunk) => put(&mut out, &[ERR_CHUNK]),
        }
        out
    }

    /// Returns the length of the header in bytes.
    pub fn wire_len(&self) -> usize {
        FIXED_LEN
            + match &self.body {
                Body::Msg(lists) | Body::NoMsg(lists) => lists.wire_len(),
                Body::Done => 0,
                Body::Error(RdmaError::Vers { .. }) => 12,
                Body::Error(RdmaError::Chunk) => 4,
            }
    }
}

impl Body {
    fn parse(xdr: &mut XdrReader<'_>) -> Result<(u32, Body), Malformed> {
        let mut word = || xdr.u32().ok_or(Malformed::Cut);
        let (credits, procedure) = (word()?, word()?);
        let body = match procedure {
            RDMA_MSG => Body::Msg(ChunkLists::parse(xdr)?),
            RDMA_NOMSG => Body::NoMsg(ChunkLists::parse(xdr)?),
            RDMA_DONE => Body::Done,
            RDMA_ERROR => match word()? {
                ERR_VERS => Body::Error(RdmaError::Vers { low: word()?, high: word()? }),
                ERR_CHUNK => Body::Error(RdmaError::Chunk),
                _ => return Err(Malformed::Procedure),
            },
            _ => return Err(Malformed::Procedure),
        };
        Ok((credits, body))
    }
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}

#[cfg(test)]
mod tests;
