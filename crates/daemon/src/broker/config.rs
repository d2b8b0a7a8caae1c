//! Configuration of the broker.

use std::time::Duration;

/// Configuration of the broker.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Process ID of the daemon.
    pub pid: u32,
    /// User ID of the daemon.
    pub uid: u32,
    /// Abstract name at which it listens.
    pub socket_name: String,
    /// Whether that ID stands for this user alone.
    pub uid_is_ours_alone: bool,
    /// Identifier that stays the same while the network namespace lives.
    pub namespace: u64,
    /// Maximum number of slots per user.
    pub slots_per_user_max: u32,
    /// How long a free slot stays reserved for its last user.
    pub slot_quarantine: Duration,
    /// Maximum number of connections per user.
    pub connections_per_user_max: u32,
    /// How long an unused daemon stays; `None` is forever.
    pub idle_exit: Option<Duration>,
    /// Whether programs that outlived a predecessor hold the port.
    pub survivors: bool,
}
