//! RPC-over-RDMA version 1 (RFC 8166), the transport of NFS over RDMA. Values in, values out: the owner of a queue pair
//! feeds received SENDs and completions, and posts the operations that come out.
//!
//! - [`wire`]: transport headers with their chunk lists, and RDMA CM's private data (RFC 8797);
//! - [`nfs`]: the data of NFS calls and replies that chunks may carry (RFC 8267);
//! - [`Responder`]: the server's end of a connection;
//! - [`Requester`]: the client's end.
#![forbid(unsafe_code)]

mod backchannel;
mod eligible;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod nfs;
mod operation;
mod requester;
mod responder;
pub mod wire;

pub use backchannel::BackchannelError;
pub use eligible::EligibleData;
pub use fault::PeerFault;
pub use operation::{RemoteRead, RemoteWrite, SendPlan};
pub use requester::{
    CallError, OfferedMemory, RegisteredMemory, Registration, RegistrationFailed, ReplyBody, Requester,
    RequesterConfig, RequesterEvent,
};
pub use responder::{
    Assembly, CallId, ReplyError, ReplyPlan, ReplyRefusal, Responder, ResponderAction, ResponderConfig,
};
