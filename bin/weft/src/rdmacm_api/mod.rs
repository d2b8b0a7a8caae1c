//! The RDMA connection manager for the tools: safe objects over a `librdmacm` that is loaded at run time, ours or the
//! system's, in the manner of [`crate::verbs_api`], whose queue pairs and completion queues they work with.
//!
//! An id keeps its event channel alive; what stands on the id's device keeps the id alive. An event is copied out and
//! acknowledged as soon as it is taken, so that an id can be dropped at any time.

mod address;
mod addrinfo;
mod calls;
mod channel;
mod event;
mod id;
mod library;
mod socket;

pub use address::{LookupError, SockAddr, lookup};
pub use addrinfo::{AddrInfo, Hints};
pub use channel::{EventChannel, readable};
pub use event::{Event, IdKey, UdParam};
pub use id::{BareQp, CmId, ConnParam};
pub use library::CmLibrary;
pub use socket::{Socket, SocketCalls};
