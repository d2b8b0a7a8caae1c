//! Other processes of this host through shared memory: [`Host`] is the transport's [`Peers`] on real memory.
//!
//! ```text
//! key directory   one per process: its keys, its queue pairs, the peer whose memory it is copying now; its peers read it
//! pair            one per two processes that met: a ring of frames in each direction
//!
//! push ───▶ frame_ring::Writer ──▶ [pair] ──▶ frame_ring::Reader ──▶ next_frame, place
//! write_direct: KeyDirectory::announce ─▶ KeyDirectoryView::find_key, find_qp ─▶ copy (pages shared) or Kernel (process_vm_writev)
//! revoke_key:   key directory: entry gone ─▶ wait until no peer announces a copy from us in its own, or the peer is dead
//! ```
//!
//! Every word in shared memory has one writer. Words of another process are untrusted input: each is loaded once,
//! checked, and then used. This process's own positions are in private memory.
//!
//! [`Peers`]: weft_transport::Peers

mod copy;
mod direct;
mod frame;
mod frame_ring;
pub(crate) mod fuzzing;
mod host;
mod kernel;
mod key_directory;
mod key_directory_view;
mod layout;
mod peer;
mod peers;
mod revoke;
#[cfg(test)]
mod tests;

pub use host::{Host, HostConfig};
pub use key_directory::directory_file;
pub use layout::{DIRECTORY_BYTES, PAIR_BYTES};
pub use peer::{PeerConfig, find_directory};
