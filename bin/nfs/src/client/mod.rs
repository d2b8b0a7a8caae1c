//! NFSv3 client over RDMA.
//!
//! - [`Transport`] is a thread with the connection to the server; it connects again and repeats calls;
//! - [`Nfs`] has the procedures of NFSv3, as blocking calls of any thread, and WRITE as one that does not block;
//! - `mount_protocol` asks the server for the first handle.

mod attributes;
mod engine;
mod errors;
pub mod fuzzing;
mod inbox;
mod message;
mod mount_protocol;
mod nfs;
mod options;
mod procedures;
mod read_write;
mod transport;

pub use attributes::{Attributes, FileKind};
pub use message::Handle;
pub use mount_protocol::{MountService, mount_port, root_handle};
pub use nfs::Nfs;
pub use options::TransportOptions;
pub use procedures::{Created, Entry, FsStat};
pub use read_write::{ReadResult, Stable, WriteDone, WriteResult, WriteServer};
pub use transport::Transport;
