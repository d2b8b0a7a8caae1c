//! Fuzz targets for memory that other processes write. See [`weft_wire::fuzzing`].

pub use crate::hops::fuzzing::packet_rings;
pub use crate::shm::fuzzing::shared_memory;
