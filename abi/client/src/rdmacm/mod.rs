//! The RDMA connection manager for the tools: safe objects over a `librdmacm` that is loaded at run time, Weft's or the
//! system's. Works like [`crate::verbs`], and with its queue pairs and completion queues.
//!
//! An id keeps its event channel alive, and objects on the id's device keep the id alive. Each event is copied and
//! acknowledged as soon as it is taken, so that an id can be dropped at any time.

mod address;
mod addrinfo;
mod calls;
mod channel;
mod event;
mod id;
mod id_key;
mod library;
mod socket;

pub use address::{LookupError, SockAddr, lookup};
pub use addrinfo::{AddrInfo, Hints};
pub use channel::{EventChannel, readable};
pub use event::{Event, PeerParam, UdParam};
pub use id::{BareQp, CmId, ConnParam};
pub use id_key::IdKey;
pub use library::CmLibrary;
pub use socket::{Socket, SocketCalls};
