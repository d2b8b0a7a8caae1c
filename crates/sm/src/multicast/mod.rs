//! Multicast: groups and their members, the spanning trees that carry them, and the switch tables computed from the
//! trees.

mod build;
mod forest;
mod group;
mod mlids;
#[cfg(test)]
mod tests;
mod tree;

pub use forest::trees;
pub use group::{Group, Groups, Member, guid_of, order, prefix_of};
pub use mlids::{MLID_FIRST, MLID_LAST, Mlids};
pub use tree::{Forest, PortMask, Request, Seat, Tree, Wanted};
