//! Memory of a call: the owner registers it, and makes its keys invalid.

use std::ops::Range;

/// Memory that a call offers to the responder, and the access to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OfferedMemory {
    /// A range of the call's message, for READs.
    Call(Range<usize>),
    /// Memory for a result, for WRITEs.
    Result {
        /// Index among [`EligibleData::results`](crate::EligibleData::results).
        index: usize,
        /// Bytes.
        len: usize,
    },
    /// Memory for the whole reply, for WRITEs.
    Reply {
        /// Bytes.
        len: usize,
    },
}

impl OfferedMemory {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            OfferedMemory::Call(range) => range.len(),
            OfferedMemory::Result { len, .. } | OfferedMemory::Reply { len } => *len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Registered memory: key and address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredMemory {
    /// R_Key, or STag. No two registrations in use have the same.
    pub handle: u32,
    /// Address of the first byte.
    pub address: u64,
}

/// The owner cannot register memory now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("memory for the call's chunks cannot be registered")]
pub struct RegistrationFailed;

/// Registration of one call's memory by the owner.
pub trait Registration {
    /// Registers memory of the call `xid` for remote access of the kind that it needs, and no other.
    fn register(&mut self, xid: u32, memory: OfferedMemory) -> Result<RegisteredMemory, RegistrationFailed>;

    /// Makes a key invalid. When this returns, the peer can no longer reach the memory.
    fn invalidate(&mut self, handle: u32);
}
