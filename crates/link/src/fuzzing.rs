//! What the fuzzers do with memory that other processes write: see [`weft_wire::fuzzing`].

pub use crate::hops::fuzzing::packet_rings;
pub use crate::shm::fuzzing::shared_memory;
