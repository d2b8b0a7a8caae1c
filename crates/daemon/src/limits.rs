//! The daemon's limits: what one user or one hostile program can make it keep.

use std::time::Duration;

/// Slots of the pool at first. Each has two sockets that lie in flight (`anchor`), and the kernel lets a user have only as
/// many descriptors in flight as one process may have open, over all of the user's daemons.
pub const POOL_SLOTS_INITIAL: u32 = 16;

/// Up to this size the pool grows rather than reuse a slot that has not rested.
pub const POOL_SLOTS_RESTED: u32 = 64;

/// How long a slot of a small pool rests before it is reused.
pub const SLOT_REST: Duration = Duration::from_secs(5);

/// How long a slot stays its last user's: packets to the dead process and programs that hold its sockets are gone then.
pub const SLOT_QUARANTINE: Duration = Duration::from_secs(60);

/// Slots that only root may take.
pub const SLOTS_FOR_ROOT: u32 = 64;

/// Up to this quota a user also leaves as many slots to the others as it takes.
pub const SLOTS_FAIR_MAX: u32 = 256;

/// Slots that the pool can grow to: all that a QP number can name.
pub const POOL_SLOTS_MAX: u32 = weft_ipc::SLOTS_MAX;

/// Processes with a slot that one user may have; root may have all.
pub const SLOTS_PER_USER_MAX: u32 = 256;

/// Connections that one user may have; root may have all.
pub const CONNECTIONS_PER_USER_MAX: u32 = 768;

/// Connections of all users.
pub const CONNECTIONS_MAX: usize = 4096;

/// Connections taken before the clients that are there get a turn.
pub const CONNECTIONS_PER_TURN: usize = 64;

/// Messages read from one client before the others get a turn.
pub const MESSAGES_PER_TURN: usize = 16;

/// Messages waiting for one client that does not read them; one more and it is dropped. Events about one device take
/// one place, and who does not read its answers is not asked for more questions, so no program of ours comes near.
pub const OUTBOX_MESSAGES_MAX: usize = 1280;

/// Interfaces that are followed.
pub const NETDEVS_MAX: usize = 4096;

/// Addresses of one interface that are followed.
pub const ADDRESSES_PER_NETDEV_MAX: usize = 1024;

/// How long a daemon that nobody needs stays.
pub const IDLE_EXIT: Duration = Duration::from_secs(10);

/// How long it stays after `weft down`.
pub const DOWN_EXIT: Duration = Duration::from_millis(100);

/// How long a daemon that finds the port held by programs that outlived its predecessor waits for the first of them.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(3);

/// How long after that the others have to show up before their slots are free. On a crowded machine a program may not run for
/// seconds, and one that comes too late loses its place.
pub const RECOVERY_GRACE: Duration = Duration::from_secs(20);

/// How long a new daemon leaves it to others to go on with the pool of another user.
pub const STAND_BACK: Duration = Duration::from_secs(1);

/// Sockets bound to the port from which on they are taken for a pool that outlived its daemon.
pub const SURVIVING_SOCKETS_MIN: usize = 16;

/// Event channels of the connection manager that one user may have; root may have all. Each is two descriptors.
pub const CM_CHANNELS_PER_USER_MAX: usize = 16 << 10;

/// Pairs of lanes that one process may have asked for and whose other end has not come for them.
pub const PAIRS_UNFETCHED_MAX: usize = 256;

/// The part of the daemon's descriptors that pairs which were not fetched by both ends may take, in eighths; a pair
/// between two users is five.
pub const PAIRS_DESCRIPTOR_EIGHTHS: u64 = 1;

/// The part of the daemon's descriptors that event channels may take, in eighths.
pub const CM_CHANNELS_DESCRIPTOR_EIGHTHS: u64 = 6;

/// Packets that wait at the last switch for room in one program's cable.
pub const CABLE_QUEUE_PACKETS_MAX: usize = 4096;

/// Bytes of them.
pub const CABLE_QUEUE_BYTES_MAX: usize = 4 << 20;
