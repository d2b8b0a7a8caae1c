//! Bytes of RPC-over-RDMA version 1: the transport header before each message, and the private data by which two ends
//! of a connection announce their inline thresholds.

mod chunk;
mod direction;
mod header;
mod malformed;
mod private_data;
pub(crate) mod xdr;

pub use chunk::{Chunk, ChunkLists, ReadSegment, Segment};
pub use direction::{MessageType, message_type, xid};
pub use header::{Body, Header, HeaderError, RdmaError, VERSION};
pub use malformed::Malformed;
pub use private_data::{PRIVATE_DATA_LEN, PrivateData};
