//! The link of a virtual host whose packets cross the fabric hop by hop: InfiniBand packets, LRH to VCRC, over a cable
//! to the switches in the daemon (`ring.rs`).

mod cable;
pub(crate) mod fuzzing;
mod packet_ring;
mod ring;

pub use cable::HopsLink;
pub use packet_ring::PortName;
pub use ring::{ProcessEnd, ProcessFds, SwitchEnd};
pub use weft_shm::Broken;
