//! Partitions: the parser turns `partitions.conf` into a [`Config`]; a subnet turns that into a [`Plan`] of P_Key
//! tables and groups; [`check`] reports the effects of a changed file before anything is sent.

mod check;
mod config;
mod groups;
mod keys;
mod parse;
mod piece;
mod plan;
mod resolve;

pub use check::{Report, check};
pub use config::{Config, DEFAULT_KEY, GroupFlags, IPOIB_QKEY, Member, Membership, Rule, Who};
pub use keys::{FULL, Keys};
pub use parse::parse;
pub use plan::{BROADCAST, Enforced, Group, Plan};
pub use resolve::Partition;

#[cfg(test)]
mod tests;
