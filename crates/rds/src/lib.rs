//! Reliable Datagram Sockets (RDS) over RDMA, as Linux's rds_rdma speaks them (`Documentation/networking/rds.rst`,
//! `net/rds/rds.h`, `net/rds/ib.h`). Values in, values out: the owner of the queue pairs feeds received frames and events of
//! the connection manager, and carries out the actions that come out. Time is passed in.
//!
//! - [`wire`]: the header of a frame, its extensions, RDMA CM's private data, congestion maps;
//! - [`Connection`]: all datagrams between two addresses: order, acknowledgements, retransmission after a reconnect;
//! - [`Node`]: a host: sockets with their ports, connections, congestion of ports, ping;
//! - [`RdmaOperation`]: READs and WRITEs that accompany messages;
//! - [`local`]: what a program's library and the service say to each other.
#![forbid(unsafe_code)]

mod connection;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod local;
mod node;
mod rdma;
pub mod wire;

pub use connection::{
    Breach, Connection, ConnectionEvent, ConnectionInput, ConnectionState, Delivery, Outgoing, QueuedMessage,
    SequenceNumbers,
};
pub use node::{
    Action, Datagram, InfoKind, InfoTable, Node, NodeConfig, NodeCounters, OutgoingFrame, Pair, RequestDecision,
    SendError, SendExtras, SocketError, SocketKey, SocketOptions,
};
pub use rdma::{Cookie, Direction, Notification, OperationId, RdmaOperation, RdmaOptions, RdmaStatus};
