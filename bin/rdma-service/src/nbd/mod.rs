//! NBD server on a Unix socket, for initiators in user space: each namespace or unit that they use is an export. The owner's
//! loop waits for the server's descriptor, executes the requests that come out, and hands the results in.

mod bridge;
mod client;
mod server;
mod uri;

pub use bridge::{Bridge, DiskDriver, DiskRequest, DiskResult};
pub use server::{NbdRequest, NbdServer, RequestName};
pub use uri::nbd_uri;
