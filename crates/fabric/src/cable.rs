//! A cable and its state.

use crate::topology::{self, Speed, Width};
use weft_verbs::Instant;

/// A cable, plugged or not.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    /// Indexes of the ports at its ends.
    pub ends: [u32; 2],
    pub plugged: bool,
    /// Largest width that it carries.
    pub width: Option<Width>,
    /// Highest speed that it carries.
    pub speed: Option<Speed>,
    pub latency_ns: u32,
    /// Packets damaged, per million.
    pub errors_ppm: u32,
    /// Management datagrams lost, per million.
    pub drop_ppm: u32,
    /// When its link's training ends.
    pub trained_at: Option<Instant>,
    /// When it is plugged in again.
    pub rejoined_at: Option<Instant>,
}

impl Cable {
    /// Returns whether it has latency, or damages or loses packets.
    pub fn is_rough(&self) -> bool {
        self.latency_ns | self.errors_ppm | self.drop_ppm != 0
    }

    pub fn new(ends: [u32; 2], spec: &topology::Cable) -> Cable {
        Cable {
            ends,
            plugged: true,
            width: spec.width,
            speed: spec.speed,
            latency_ns: spec.latency_ns,
            errors_ppm: spec.errors_ppm,
            drop_ppm: 0,
            trained_at: None,
            rejoined_at: None,
        }
    }
}
