//! The QoS policy (`qos-policy.conf`): service levels and limits of paths. Rules match path queries by source and
//! destination, partition, service and class; the first match sets the level.

mod bound;
mod parse;
mod ulp;

pub use bound::{Bound, Question};
pub use parse::parse;

/// Ranges of numbers, both ends included.
pub type Ranges = Vec<(u64, u64)>;

/// A valid policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Groups of ports.
    pub groups: Vec<PortGroup>,
    /// Levels.
    pub levels: Vec<QosLevel>,
    /// Rules in the order in which they match.
    pub rules: Vec<MatchRule>,
    /// Index of the level for paths without a matching rule.
    pub default: usize,
}

/// A group of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortGroup {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// PortGUIDs.
    pub guids: Ranges,
    /// Ports by node description and port number.
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

/// Service level and limits of a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosLevel {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// Service level.
    pub sl: Option<u8>,
    /// Highest MTU, as a code.
    pub mtu_limit: Option<u8>,
    /// Highest rate, as a code.
    pub rate_limit: Option<u8>,
    /// Packet lifetime, as a code.
    pub packet_life: Option<u8>,
    /// P_Keys without the membership bit.
    pub pkeys: Ranges,
    /// Path bits: the low bits of the LIDs.
    pub path_bits: Ranges,
}

/// A rule that assigns a level to path queries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchRule {
    /// Line of the rule.
    pub line: u32,
    /// Its purpose.
    pub about: String,
    /// Indexes of groups, one of which must contain the source; empty for any source.
    pub sources: Vec<usize>,
    /// Indexes of groups, one of which must contain the destination; empty for any destination.
    pub destinations: Vec<usize>,
    /// The rule matches if either the source or the destination is in its groups.
    pub either: bool,
    /// QoS classes; empty for any.
    pub classes: Ranges,
    /// ServiceIDs; empty for any.
    pub services: Ranges,
    /// P_Keys without the membership bit; empty for any.
    pub pkeys: Ranges,
    /// Index of the level.
    pub level: usize,
}

/// Whether a number is in any of the ranges.
pub(super) fn contains(ranges: &Ranges, number: u64) -> bool {
    ranges.iter().any(|(low, high)| (*low..=*high).contains(&number))
}

#[cfg(test)]
mod tests;
