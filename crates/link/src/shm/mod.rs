//! Other processes of this host through shared memory: [`Host`] is the transport's [`SameHost`] on real memory.
//!
//! ```text
//! board   one per process: its keys, its queue pairs, the peer whose memory it is copying now; its peers read it
//! pair    one per two processes that met: a lane in each direction, a ring of frames
//!
//! push ───▶ lane::Writer ──▶ [pair] ──▶ lane::Reader ──▶ next_frame, place
//! write_direct: board::announce ─▶ BoardView::find_key, find_qp ─▶ copy (pages shared) or Kernel (process_vm_writev)
//! revoke_key:   board: entry gone ─▶ wait until no peer's board announces a copy from us, or the peer is dead
//! ```
//!
//! Every word in shared memory has one writer. Words of another process are untrusted input: each is loaded once,
//! checked, and then used. This process's own positions are in private memory.
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
