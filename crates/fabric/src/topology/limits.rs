//! Limits of a description from any source. A description beyond them is refused with the limit's name.

/// Nodes of a fabric: more than there are unicast LIDs (0xBFFF), which run out first.
pub const NODES_MAX: usize = 80_000;
/// External ports of a switch or router; the port number is a byte, 255 is not a port (IBA 14.2.5.3).
pub const PORTS_MAX: u8 = 254;
/// Ports of all nodes together.
pub const PORTS_TOTAL_MAX: usize = 4_000_000;
/// Bytes of a NodeDescription (IBA 14.2.5.2).
pub const DESCRIPTION_LEN: usize = 64;
/// Bytes of a node's name, as `weft cable cut NAME:PORT` takes it.
pub const NAME_LEN_MAX: usize = 128;
/// Bytes of an adapter's name on its host: those of a verbs device (`IB_DEVICE_NAME_MAX`, with a NUL).
pub const ADAPTER_LEN_MAX: usize = 63;
/// Adapters of a generated host.
pub const RAILS_MAX: u8 = 16;
/// Size of a topology file in bytes: an ibnetdiscover dump of the largest possible fabric is half of that.
pub const FILE_LEN_MAX: usize = 256 << 20;
/// The longest latency of a cable, in nanoseconds: half the way around the earth.
pub const LATENCY_NS_MAX: u32 = 100_000_000;
