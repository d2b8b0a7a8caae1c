//! The Ethernet network of virtual hosts: a bridge of the kernel's, and cables from it to the hosts' interfaces. A cable
//! without limits is a veth pair, and frames never leave the kernel; one with a rate, a delay or losses is a pair of TAPs,
//! between which a process of Weft's carries the frames (`shaper`).

mod line;
mod network;
mod port;
mod shaper;
mod switch;

pub use network::{EthernetNetwork, is_up};
pub use port::{CableLimits, EthernetPort};
pub(crate) use switch::Switch;
