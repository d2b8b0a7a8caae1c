//! The state of a sampling.

use weft_verbs::Instant;
use weft_wire::mad::perf::{PortSamplesControl, SampleStatus};

/// Counters of one sampling.
pub(super) const COUNTERS: usize = 15;

/// The latest requested sampling of an agent.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(super) order: PortSamplesControl,
    /// The port that is sampled.
    pub(super) place: u32,
    pub(super) status: SampleStatus,
    /// When the next step is due.
    pub(super) due: Instant,
    /// Counter values at the beginning, then their growth.
    pub(super) counts: [u64; COUNTERS],
}
