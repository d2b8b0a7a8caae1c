//! Class-independent handling of management datagrams: a port's agents and their pending requests, RMPP, datagram
//! addresses, timeout encoding, and retransmission.
#![forbid(unsafe_code)]

mod address;
mod agent;
pub mod limits;
pub mod port;
mod retry;
pub mod rmpp;
mod sa_client;
mod timeout;

pub use address::GmpAddress;
pub use agent::{AgentId, AgentSpec, RegisterError, Wanted, is_response};
pub use port::{Delivery, Peer, Port, Send, SendError};
pub use retry::{Due, Retry};
pub use sa_client::{SaClient, SaError};
pub use timeout::exponent_to_duration;

/// A management datagram as bytes, header and data.
pub type MadBytes = [u8; weft_wire::mad::MAD_LEN];
