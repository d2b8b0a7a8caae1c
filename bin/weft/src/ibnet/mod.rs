//! A fabric discovered: what libibnetdisc is to the original tools.
//!
//! [`discover`](discover()) walks the fabric with directed-route SMPs, [`cache`] keeps what it found in a file and
//! reads it again (files are those of libibnetdisc), names are [`ib::names`](crate::ib::names).

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

/// A port of a fabric: the node's number and the port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// The node's number in its [`Fabric`].
    pub node: usize,
    /// The port's number.
    pub port: u8,
}
