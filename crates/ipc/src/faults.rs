//! Faults that a user adds to running programs (`weft fault`): the daemon keeps them, and tells the programs concerned.

use serde::{Deserialize, Serialize};

/// Programs that suffer from a fault, of those that the user may reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultTarget {
    /// All of them.
    All,
    /// The process with this ID, as the daemon sees it.
    Pid(u32),
    /// Programs of this name, those that start later, too.
    Command(String),
}

/// How long the daemon keeps a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultLifetime {
    /// To its own end.
    Daemon,
    /// To the end of the connection that added it: a scenario that was killed leaves nothing behind.
    Connection,
}

/// A request about faults.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultRequest {
    /// Add a fault.
    Add {
        /// One specification in the syntax of `WEFT_FAULT`, of at most [`FAULT_BYTES_MAX`] bytes.
        ///
        /// [`FAULT_BYTES_MAX`]: crate::FAULT_BYTES_MAX
        spec: String,
        /// Programs that suffer from it.
        target: FaultTarget,
        /// How long the daemon keeps it, unless a user removes it.
        lifetime: FaultLifetime,
    },
    /// A page of the faults with numbers above this one.
    List {
        /// The last number of the page before.
        after: u32,
    },
    /// Remove a fault.
    Remove {
        /// Its number.
        number: u32,
    },
    /// Remove all faults that the user may remove.
    RemoveAll,
    /// How often faults have struck in this process, by their numbers, at most [`FAULTS_PER_PROCESS_MAX`]. No reply.
    ///
    /// [`FAULTS_PER_PROCESS_MAX`]: crate::FAULTS_PER_PROCESS_MAX
    Struck(Vec<(u32, u64)>),
}

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FaultEntry {
    /// Its number.
    pub number: u32,
    /// Its specification.
    pub spec: String,
    /// Programs that suffer from it.
    pub target: FaultTarget,
    /// User that added it.
    pub uid: u32,
    /// Number of processes that have it now.
    pub processes: u32,
    /// Number of those on which it has no effect: faults in packets of a process that exchanges data with others of its host
    /// through memory, or is on a fabric.
    pub without_packets: u32,
    /// How often it has struck.
    pub struck: u64,
}

/// The reply to a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultReply {
    /// The fault was added.
    Added(FaultEntry),
    /// A page of faults.
    List {
        /// The faults, by number.
        faults: Vec<FaultEntry>,
        /// Whether more follow.
        more: bool,
    },
    /// Number of faults that were removed.
    Removed(u32),
}
