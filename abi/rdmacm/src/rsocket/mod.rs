//! rsockets: the socket calls over RDMA, as `rsocket(7)` describes them, with the protocol of rdma-core's peers.
//!
//! - [`proto`]: the protocol as values.
//! - [`stream`] and [`datagram`]: the two kinds of sockets.
//! - [`service`]: the thread that reads events of the connection manager, so that calls only wait for state.
//! - [`wait`] and [`wake`]: waiting for one rsocket; [`poll`] waits for many, [`repoll`] waits for a set ([`interests`]).
//! - [`calls`]: the exported functions.

pub(crate) mod address;
pub(crate) mod calls;
pub(crate) mod cm_id;
pub(crate) mod completions;
pub(crate) mod datagram;
pub(crate) mod event;
pub(crate) mod gather;
pub(crate) mod index;
pub(crate) mod interests;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod poll;
#[allow(dead_code, reason = "its tests use all of it")]
pub(crate) mod proto;
pub(crate) mod repoll;
pub(crate) mod select;
pub(crate) mod service;
pub(crate) mod stream;
pub(crate) mod verbs;
pub(crate) mod wait;
pub(crate) mod wake;

use std::path::Path;
use std::sync::OnceLock;

use proto::config::{Config, DIRECTORY};

/// Returns the administrator's settings, read once.
pub(crate) fn settings() -> &'static Config {
    static SETTINGS: OnceLock<Config> = OnceLock::new();
    SETTINGS.get_or_init(|| Config::read(Path::new(DIRECTORY)))
}
