//! Configuration of a process's adapter.

use std::ops::Range;

/// Parameters of an [`crate::Hca`] that never change.
#[derive(Clone, Debug, Default)]
pub struct HcaConfig {
    /// The process's slot: queue pair numbers are `slot << 14 | index`.
    pub slot: u32,
    /// Seed of keys and numbers: 256 bits of the operating system's randomness in production, fixed in tests.
    pub seed: [u64; 4],
    /// Whether the process may use privileged values (controlled Q_Keys).
    pub privileged: bool,
    /// Host addresses behind the null region: the implementation of `Memory` reads zeros from them and discards writes.
    /// Empty: there is no null region.
    pub null_memory: Range<u64>,
    /// Seed of strict mode, in which completion queues promise no more than the specification does; `None`: off.
    pub strict: Option<u64>,
}
