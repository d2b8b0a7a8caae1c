//! Options of `weft daemon`.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits;

/// Options of a daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long an unused daemon stays; `None` is forever.
    pub idle_exit: Option<Duration>,
    /// Processes with a slot that one user may have.
    pub slots_per_user_max: u32,
    /// How long a free slot stays reserved for its last user; only tests change it.
    pub slot_quarantine: Duration,
    /// Connections that one user may have.
    pub connections_per_user_max: u32,
    /// Destination of its log.
    pub log: LogTarget,
    /// Faults to inject into the packets of queue pair 1, in the syntax of `WEFT_FAULT`.
    pub fault: String,
    /// Capture of the packets of queue pair 1, in the syntax of `WEFT_PCAP`; empty for none.
    pub capture: String,
    /// Abstract name to listen on; only tests change it.
    pub socket_name: String,
}

/// Destination of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTarget {
    /// Nowhere.
    None,
    /// Standard error, for `--foreground`.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            idle_exit: Some(limits::IDLE_EXIT),
            slots_per_user_max: limits::SLOTS_PER_USER_MAX,
            slot_quarantine: limits::SLOT_QUARANTINE,
            connections_per_user_max: limits::CONNECTIONS_PER_USER_MAX,
            log: std::env::var_os("WEFT_DAEMON_LOG").map_or(LogTarget::None, |path| LogTarget::File(path.into())),
            fault: std::env::var("WEFT_FAULT").unwrap_or_default(),
            capture: std::env::var("WEFT_PCAP").unwrap_or_default(),
            socket_name: weft_ipc::SOCKET_NAME.to_owned(),
        }
    }
}
