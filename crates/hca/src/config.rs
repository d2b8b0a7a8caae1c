//! What a process's adapter is made with.

use std::ops::Range;

/// Parameters of an [`crate::Hca`] that never change.
#[derive(Clone, Debug, Default)]
pub struct HcaConfig {
    /// The process's slot: queue pair numbers are `slot << 14 | index`.
    pub slot: u32,
    /// Seed of keys and numbers: 256 bits of the operating system's randomness in life, fixed in tests.
    pub seed: [u64; 4],
    /// Whether the process may use what is reserved to the privileged (controlled Q_Keys).
    pub privileged: bool,
    /// Host addresses that stand behind the null region: whoever implements `Memory` reads zeros from them and
    /// forgets what is written there. Empty: there is no null region.
    pub null_memory: Range<u64>,
}
