//! Direct connections between processes of one host. A process that accepts them publishes itself once it has a slot; a
//! process that wants one asks for the other's slot, and both get the same pair of rings. The daemon makes everything
//! that the two share, so that no process's descriptors ever enter it, except those that it made and gets back after a
//! restart.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// A process's offer to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Publication {
    /// Number that no other process of this slot ever has.
    pub generation: u64,
    /// Whether peers of the same user may access its memory: it needs a key directory and an arena.
    pub shares: bool,
    /// Whether it brings back what a dead daemon made: doorbell, and key directory and arena if it shares memory.
    pub brings: bool,
}

/// Reply to a publication. Descriptors come in this order: doorbell, key directory, arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PublishGrant {
    /// Whether a key directory and an arena came.
    pub shares: bool,
}

/// A connected peer. Descriptors come in this order: pair, doorbell, bell, process, key directory and arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerGrant {
    /// Generation that the peer published.
    pub generation: u64,
    /// Whether the peer rings this process by a bell of its own instead of the common doorbell.
    pub has_bell: bool,
    /// Whether a descriptor of the process (pidfd) came.
    pub has_process: bool,
    /// Whether it shares memory with this process: key directory and arena came.
    pub shares: bool,
}

/// A process's own descriptors for peers to connect with.
#[derive(Debug)]
pub struct Published {
    /// Doorbell that wakes this process.
    pub doorbell: OwnedFd,
    /// Memory for the key directory and the arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}

/// A connected peer process.
#[derive(Debug)]
pub struct PeerMet {
    /// Generation that the peer published.
    pub generation: u64,
    /// The pair of rings.
    pub pair: OwnedFd,
    /// Doorbell that wakes the peer.
    pub doorbell: OwnedFd,
    /// Bell by which the peer wakes this process, if not by this process's doorbell.
    pub bell: Option<OwnedFd>,
    /// Descriptor of the process (pidfd).
    pub process: Option<OwnedFd>,
    /// The peer's key directory and arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}
