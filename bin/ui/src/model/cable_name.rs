//! Names of cables.

use weft_fabric::topology::{LiveCable, Topology};

/// Returns the name of a cable: its two ends.
pub fn spell(topology: &Topology, cable: &LiveCable) -> String {
    format!("{} - {}", topology.spell(cable.ends[0]), topology.spell(cable.ends[1]))
}
