//! Registers of the selected ports.

use crate::Fabric;
use crate::counters::{Counter, Split, View};
use crate::topology::NodeKind;
use weft_wire::mad::{Attribute, Status};

/// Selected ports and one set of their registers.
pub(super) struct Bank<'a> {
    pub(super) fabric: &'a mut Fabric,
    pub(super) places: std::ops::RangeInclusive<u32>,
    pub(super) view: View,
}

impl Bank<'_> {
    /// Returns the sum over the ports.
    pub(super) fn read(&self, counter: Counter) -> u64 {
        let of = |place| self.fabric.ports[place as usize].counters.register(self.view, counter);
        self.places.clone().map(of).fold(0, u64::saturating_add)
    }

    pub(super) fn kind(&self) -> NodeKind {
        self.fabric.ports[*self.places.start() as usize].kind
    }

    pub(super) fn read_part(&self, split: Split, part: usize) -> u64 {
        let of = |place| self.fabric.ports[place as usize].counters.part_register(split, part);
        self.places.clone().map(of).fold(0, u64::saturating_add)
    }

    pub(super) fn write_part(&mut self, split: Split, part: usize, value: u64) {
        for place in self.places.clone() {
            self.fabric.ports[place as usize].counters.set_part_register(split, part, value);
        }
    }

    pub(super) fn write(&mut self, counter: Counter, value: u64) {
        let view = self.view;
        for place in self.places.clone() {
            let counters = &mut self.fabric.ports[place as usize].counters;
            counters.set_register(view, counter, value);
        }
    }
}

/// Writes an attribute as the answer.
pub(super) fn answer<A: Attribute>(data: &mut [u8], attribute: &A) -> Result<(), Status> {
    data.fill(0);
    attribute.write(data);
    Ok(())
}
