//! The link of a virtual host whose packets cross the fabric hop by hop: InfiniBand packets, LRH to VCRC, over a packet
//! channel to the switches in the daemon (`packet_channel.rs`).

pub(crate) mod fuzzing;
mod packet_channel;
mod packet_ring;
mod port;

pub use packet_channel::{ProcessEnd, ProcessFds, SwitchEnd};
pub use packet_ring::PortName;
pub use port::HopsLink;
pub use weft_shm::Broken;
