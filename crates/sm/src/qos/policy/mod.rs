//! The policy (`qos-policy.conf`): which paths have which service level and limits. Rules match questions for paths by who
//! asks for whom, by partition, by service and by class; the first that matches tells the level.

mod bound;
mod parse;
mod ulp;

pub use bound::{Bound, Question};
pub use parse::parse;

/// Ranges of numbers, both ends in.
pub type Ranges = Vec<(u64, u64)>;

/// A policy without mistakes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Groups of ports.
    pub groups: Vec<PortGroup>,
    /// Levels.
    pub levels: Vec<QosLevel>,
    /// Rules in the order in which they match.
    pub rules: Vec<MatchRule>,
    /// The level of what no rule matches, by its place.
    pub default: usize,
}

/// A group of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortGroup {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// PortGUIDs.
    pub guids: Ranges,
    /// Ports by the node's description and their number.
    pub names: Vec<(String, u8)>,
    /// Members of partitions, by P_Key.
    pub pkeys: Ranges,
    /// Members of partitions, by name.
    pub partitions: Vec<String>,
    /// Every port of adapters.
    pub cas: bool,
    /// Every port 0 of switches.
    pub switches: bool,
    /// Every port of routers.
    pub routers: bool,
    /// The manager's own port.
    pub myself: bool,
}

/// What a path is held to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosLevel {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// Service level.
    pub sl: Option<u8>,
    /// Highest MTU, as a code.
    pub mtu_limit: Option<u8>,
    /// Highest rate, as a code.
    pub rate_limit: Option<u8>,
    /// Packet lifetime, as a code.
    pub packet_life: Option<u8>,
    /// P_Keys without the bit of membership.
    pub pkeys: Ranges,
    /// Low bits of the LIDs.
    pub path_bits: Ranges,
}

/// Which questions have which level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchRule {
    /// Where it stands.
    pub line: u32,
    /// What it is for.
    pub about: String,
    /// Groups that the source is in one of, by place; empty for any source.
    pub sources: Vec<usize>,
    /// Groups that the destination is in one of, by place; empty for any destination.
    pub destinations: Vec<usize>,
    /// It is enough that either the source or the destination is in its group.
    pub either: bool,
    /// Classes of service; empty for any.
    pub classes: Ranges,
    /// Services; empty for any.
    pub services: Ranges,
    /// P_Keys without the bit of membership; empty for any.
    pub pkeys: Ranges,
    /// The level, by its place.
    pub level: usize,
}

/// Whether a number is in one of some ranges.
pub(super) fn contains(ranges: &Ranges, number: u64) -> bool {
    ranges.iter().any(|(low, high)| (*low..=*high).contains(&number))
}

#[cfg(test)]
mod tests;
