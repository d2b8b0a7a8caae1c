//! Processes of this user in the background that hold disks of a target: each has a directory with a lock that its process
//! holds, what others need to know, and the socket for NBD. A process that was killed loses the lock; the next one takes its
//! place.

mod claim;
mod directory;
mod registered;

pub use claim::{Claim, Registry};
pub use registered::Registered;
