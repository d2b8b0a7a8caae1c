//! Multicast: who is in which group, the trees along which groups are sent, and the tables that follow from them.

mod build;
mod group;
mod mlids;
#[cfg(test)]
mod tests;
mod tree;

pub use group::{Group, Groups, Member, guid_of, order, prefix_of};
pub use mlids::{MLID_FIRST, MLID_LAST, Mlids};
pub use tree::{Forest, PortMask, Request, Seat, Tree, Wanted, trees};
