//! Fabric discovery: the counterpart of libibnetdisc, which the original tools use.
//!
//! [`discover`](discover()) walks the fabric with directed-route SMPs, [`cache`] stores the result in a file and reads
//! it again (in libibnetdisc's format), and [`ib::names`](crate::ib::names) supplies names.

mod attribute;
pub mod cache;
mod carrier;
pub mod chassis;
mod discover;
mod fabric;
pub mod json;
pub mod link;
pub mod node;
pub mod port;

pub use attribute::{ATTRIBUTE_BYTES, Attribute};
pub use carrier::discover_from;
pub use chassis::Chassis;
pub use discover::{Config, discover};
pub use fabric::Fabric;
pub use node::{Kind, Node, Slot};
pub use port::Port;

/// A port of a fabric: the node's index and the port's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// The node's index in its [`Fabric`].
    pub node: usize,
    /// The port's number.
    pub port: u8,
}
