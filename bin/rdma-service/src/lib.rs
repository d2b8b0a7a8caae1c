//! Parts that services on RDMA share (`weft nfs`, `weft nvme`, `weft srp`), made of librdmacm and verbs alone.
//!
//! - [`Endpoint`] is a connection's queue pair with its receives and sends; [`Pool`] has registered memory for data;
//! - [`Lender`] lends registered memory to the peer, each [`Loan`] under a key of its own;
//! - [`Transfers`] moves the data of a connection's commands, for services whose operations take registered memory;
//! - [`Store`] is the file or block device behind a disk;
//! - [`listen`] opens a port, [`listen_to_service`] a service identifier on InfiniBand;
//! - [`Workers`] are threads that do work which may wait for a disk, so that one thread can drive all connections;
//!   [`TurnBudget`] bounds the work that this thread does itself;
//! - [`Statistics`] counts for the line at a connection's end;
//! - [`ending_signals`] are those that end a service;
//! - [`ActiveConnection`] is an initiator's connection, with the memory that its commands lend; [`ReadData`] stays in that memory until
//!   it is sent or copied;
//! - [`detached`] keeps a process in the background, and [`registry`] lets others find it;
//! - [`nbd`] offers disks to programs of this machine.
#![forbid(unsafe_code)]

mod active;
pub mod detached;
mod endpoint;
mod event_failure;
mod identifier;
mod lending;
pub mod limits;
mod listener;
pub mod nbd;
mod pool;
mod read_data;
pub mod registry;
mod signals;
mod statistics;
mod store;
mod transfers;
mod turn_budget;
mod workers;

pub use active::{ActiveConnection, ConnectionRequest, LentMemory, LoanName, Received};
pub use endpoint::{Broken, Completed, Endpoint, EndpointConfig, Work};
pub use event_failure::event_failure;
pub use identifier::identifier;
pub use lending::{EndedLoan, Lender, Loan};
pub use listener::{channel, listen, listen_to_service, service_id};
pub use pool::{Pool, size_class};
pub use read_data::ReadData;
pub use signals::ending_signals;
pub use statistics::{Statistics, size_text};
pub use store::{Data, Geometry, Store};
pub use transfers::{Direction, Piece, TransferError, Transferred, Transfers};
pub use turn_budget::TurnBudget;
pub use workers::Workers;
