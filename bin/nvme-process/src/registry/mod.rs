//! Controllers of this user's processes in the background: each has a directory with a lock that its process holds, what
//! others need to know, and the socket for NBD. A process that was killed loses the lock; the next one takes its place.

mod claim;
mod directory;
mod state;

pub use claim::{Claim, Registry};
pub use state::{ControllerState, NamespaceState, nbd_uri};
