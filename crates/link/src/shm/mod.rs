//! Other processes of this host through shared memory: [`Host`] is the transport's [`SameHost`] on real memory.
//!
//! ```text
//! board   one for each process: its keys, its queue pairs, whose memory it is copying now; its peers read it
//! pair    one for each two processes that met: a lane each way, a ring of frames
//!
//! push ───▶ lane::Writer ──▶ [pair] ──▶ lane::Reader ──▶ next_frame, place
//! write_direct: board::announce ─▶ BoardView::find_key, find_qp ─▶ copy (pages shared) or Kernel (process_vm_writev)
//! revoke_key:   board: entry gone ─▶ wait until no peer's board says that it copies from us, or its process is dead
//! ```
//!
//! Everything in shared memory has one writer. What another process wrote is bytes from outside: each word is loaded
//! once, checked, and then used; our own positions stand in memory of our own.
//!
//! [`SameHost`]: weft_transport::SameHost

mod board;
mod copy;
mod direct;
mod frame;
pub(crate) mod fuzzing;
mod host;
mod kernel;
mod lane;
mod layout;
mod peer;
mod revoke;
mod same_host;
#[cfg(test)]
mod tests;
mod view;

pub use board::board_file;
pub use host::{Host, HostConfig};
pub use layout::{BOARD_BYTES, PAIR_BYTES};
pub use peer::{PeerConfig, find_board};
