//! Bounds of an interface: what a peer may make it keep, and how often it asks.

use weft_verbs::Duration;

/// Neighbours, as Linux's `gc_thresh3`.
pub const NEIGHBOURS_MAX: usize = 1024;
/// Multicast groups.
pub const GROUPS_MAX: usize = 256;
/// Paths to ports.
pub const PATHS_MAX: usize = 1024;
/// Routes.
pub const ROUTES_MAX: usize = 1024;
/// IP multicast groups of the kernel.
pub const MEMBERSHIPS_MAX: usize = 256;
/// Sources that a program selected within a group.
pub const SOURCES_MAX: usize = 64;
/// Packets that wait for one neighbour, path or group.
pub const HELD_MAX: usize = 16;

/// Their bytes: a few of connected mode's longest.
pub const HELD_BYTES_MAX: usize = 256 << 10;
/// Segments of a packet that the kernel has not cut: 64 KiB of 32 bytes. Linux's smallest have 36 (`tcp_min_snd_mss`, with
/// timestamps).
pub const SEGMENTS_MAX: usize = (64 << 10) / 32;

/// Connections for sending.
pub const OUTGOING_MAX: usize = NEIGHBOURS_MAX;
/// Connections for receiving, of all peers together.
pub const INCOMING_MAX: usize = 1024;
/// Connections for receiving from one port: one in use, and some whose end the peer could not report.
pub const INCOMING_PER_PEER_MAX: usize = 4;

/// Time for which a peer that refused a connection gets datagrams.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Time without a packet after which a connection for sending ends: Linux forgets an unused neighbour after twice the
/// `gc_interval` of its neighbours.
pub const OUTGOING_IDLE: Duration = Duration::from_secs(60);
/// Time without a packet after which a connection for receiving ends, as Linux's `IPOIB_CM_RX_TIMEOUT`.
pub const INCOMING_IDLE: Duration = Duration::from_secs(512);
/// Interval of looking for idle connections.
pub const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Time for which a neighbour's address counts as confirmed.
pub const REACHABLE: Duration = Duration::from_secs(30);
/// Interval of the requests for a neighbour's address.
pub const ASK_EVERY: Duration = Duration::from_secs(1);
/// Requests without a reply after which a neighbour is unreachable.
pub const ASKS_MAX: u8 = 3;
/// Time until a refused join is repeated; each refusal doubles it.
pub const JOIN_AGAIN: Duration = Duration::from_secs(1);
/// Longest such time.
pub const JOIN_AGAIN_MAX: Duration = Duration::from_secs(16);
/// Time for which a destination without a path stays unreachable.
pub const NO_PATH: Duration = Duration::from_secs(1);
