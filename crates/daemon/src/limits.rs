//! The daemon's limits: how much one user or one hostile program can make it store.

use std::time::Duration;

/// Initial slots of the pool. Each has two sockets in flight (`anchor`), and the kernel limits a user's descriptors in
/// flight, over all of the user's daemons, to the number that one process may have open.
pub const POOL_SLOTS_INITIAL: u32 = 16;

/// Up to this size the pool grows rather than reuse a slot that has not rested.
pub const POOL_SLOTS_RESTED: u32 = 64;

/// How long a slot of a small pool rests before it is reused.
pub const SLOT_REST: Duration = Duration::from_secs(5);

/// How long a slot stays reserved for its last user: by then packets to the dead process, and programs that hold its
/// sockets, are gone.
pub const SLOT_QUARANTINE: Duration = Duration::from_secs(60);

/// Slots that only root may take.
pub const SLOTS_FOR_ROOT: u32 = 64;

/// Up to this quota a user also leaves as many slots to others as it takes.
pub const SLOTS_FAIR_MAX: u32 = 256;

/// Maximum size of the pool: all slots that a QP number can name.
pub const POOL_SLOTS_MAX: u32 = weft_ipc::SLOTS_MAX;

/// Processes with a slot that one user may have; root may have all.
pub const SLOTS_PER_USER_MAX: u32 = 256;

/// Connections that one user may have; root may have all. A process has up to three, and the keeper of its view one.
pub const CONNECTIONS_PER_USER_MAX: u32 = 1024;

/// Connections of all users: five with their quota leave a quota's quarter to the others.
pub const CONNECTIONS_MAX: usize = 5376;

/// Connections accepted before existing clients get a turn.
pub const CONNECTIONS_PER_TURN: usize = 64;

/// Messages read from one client before the others get a turn.
pub const MESSAGES_PER_TURN: usize = 16;

/// Messages waiting for one client that does not read them; one more and the daemon drops it. Events about one device
/// count once, and the daemon reads no requests of a client that does not read its answers, so Weft's own programs stay
/// far below.
pub const OUTBOX_MESSAGES_MAX: usize = 1280;

/// Interfaces that the daemon follows.
pub const NETDEVS_MAX: usize = 4096;

/// Addresses of one interface that the daemon follows.
pub const ADDRESSES_PER_NETDEV_MAX: usize = 1024;

/// How long an unused daemon stays.
pub const IDLE_EXIT: Duration = Duration::from_secs(10);

/// How long an unused daemon stays after `weft down`.
pub const DOWN_EXIT: Duration = Duration::from_millis(100);

/// If programs that outlived a predecessor hold the port, how long a new daemon waits for the first of them.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(3);

/// How long the daemon then waits for the other survivors before it frees their slots. On a crowded machine a program
/// may not run for seconds, and one that returns too late loses its slot.
pub const RECOVERY_GRACE: Duration = Duration::from_secs(20);

/// How long a new daemon waits for others to take over the pool of another user.
pub const STAND_BACK: Duration = Duration::from_secs(1);

/// Minimum number of sockets bound to the port that count as a pool that outlived its daemon.
pub const SURVIVING_SOCKETS_MIN: usize = 16;

/// Event channels of the connection manager that one user may have; root may have all. Each takes two descriptors.
pub const CM_CHANNELS_PER_USER_MAX: usize = 16 << 10;

/// Pairs of rings that one process may have requested while the other end has not fetched them.
pub const PAIRS_UNFETCHED_MAX: usize = 256;

/// Share of the daemon's descriptors, in eighths, for pairs that not both ends have fetched. A pair between two users
/// takes five.
pub const PAIRS_DESCRIPTOR_EIGHTHS: u64 = 1;

/// Share of the daemon's descriptors, in eighths, for event channels.
pub const CM_CHANNELS_DESCRIPTOR_EIGHTHS: u64 = 6;

/// Packets that crossed the switches and wait for the daemon's own interfaces.
pub const DAEMON_QUEUE_PACKETS_MAX: usize = 4096;

/// Packets that wait at the last switch for room in one program's packet channel.
pub const CHANNEL_QUEUE_PACKETS_MAX: usize = 4096;

/// Bytes of these packets.
pub const CHANNEL_QUEUE_BYTES_MAX: usize = 4 << 20;

/// Captures at once.
pub const CAPTURES_MAX: usize = 16;

/// Bytes of captured packets that wait for one capture's reader; more are dropped from it.
pub const CAPTURE_QUEUE_BYTES_MAX: usize = 16 << 20;

/// Longest packet of a kernel: an IPv6 header with the longest payload.
pub const IP_PACKET_BYTES_MAX: usize = 40 + 0xffff;
