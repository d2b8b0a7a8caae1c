//! Forward error correction of links: the modes that a port's hardware supports at each speed, those that its manager
//! enabled, and the one that both ends select. It has no cost here and corrects nothing: the error rate set for a cable
//! is the rate after correction.

use crate::topology::Speed;
use weft_wire::mad::subn::{FecMode, FecModes};

/// Speeds that PortInfoExtended has FEC modes for, with the modes that hardware of that speed supports.
const SPEEDS: [(Speed, FecModes); 4] = [
    (Speed::Fdr, FecModes::NONE.union(FecModes::FIRE_CODE)),
    (Speed::Edr, FecModes::NONE.union(FecModes::RS_528)),
    // PAM-4 signalling needs FEC.
    (Speed::Hdr, FecModes::RS_544),
    (Speed::Ndr, FecModes::RS_544),
];

/// FEC modes of one port, in the order of [`SPEEDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fec {
    enabled: [FecModes; SPEEDS.len()],
    /// Mode in use on the link.
    pub active: FecMode,
}

impl Fec {
    /// Creates the state after power-on: every supported mode is enabled.
    pub fn new(speed: Speed) -> Fec {
        Fec { enabled: Fec::supported(speed), active: FecMode::NONE }
    }

    /// Returns the modes that a port of this speed supports: at FDR, EDR, HDR, NDR.
    pub fn supported(hardware: Speed) -> [FecModes; SPEEDS.len()] {
        SPEEDS.map(|(speed, modes)| if speed <= hardware { modes } else { FecModes::empty() })
    }

    /// Returns the enabled modes: at FDR, EDR, HDR, NDR.
    pub fn enabled(&self) -> [FecModes; SPEEDS.len()] {
        self.enabled
    }

    /// Enables modes from the next training on; an empty set keeps the current ones. Returns `false` if a port of this
    /// speed does not support some of them.
    #[must_use]
    pub fn enable(&mut self, hardware: Speed, asked: [FecModes; SPEEDS.len()]) -> bool {
        let mut valid = true;
        for ((enabled, asked), supported) in self.enabled.iter_mut().zip(asked).zip(Fec::supported(hardware)) {
            match asked {
                none if none.is_empty() => {}
                some if supported.contains(some) => *enabled = some,
                _ => valid = false,
            }
        }
        valid
    }

    /// Returns the mode that two ends have in common at a speed.
    pub fn common(&self, other: &Fec, speed: Speed) -> Option<FecMode> {
        match SPEEDS.iter().position(|(of, _)| *of == speed) {
            Some(place) => (self.enabled[place] & other.enabled[place]).least(),
            None if speed > Speed::Ndr => Some(FecMode::RS_544),
            None => Some(FecMode::NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_on_what_costs_least() {
        let (mut a, b) = (Fec::new(Speed::Ndr), Fec::new(Speed::Edr));
        assert_eq!(a.common(&b, Speed::Edr), Some(FecMode::NONE));
        assert_eq!(a.common(&b, Speed::Hdr), None, "one of them has not that speed");
        assert_eq!(a.common(&a, Speed::Ndr), Some(FecMode::RS_544));
        assert_eq!((a.common(&b, Speed::Qdr), a.common(&a, Speed::Xdr)), (Some(FecMode::NONE), Some(FecMode::RS_544)));
        let only_rs = [FecModes::empty(), FecModes::RS_528, FecModes::empty(), FecModes::empty()];
        assert!(a.enable(Speed::Ndr, only_rs));
        assert_eq!(a.common(&b, Speed::Edr), Some(FecMode::RS_528));
        assert!(!a.enable(Speed::Ndr, [FecModes::RS_544; 4]), "not at every speed");
        assert_eq!(a.enabled()[..2], [FecModes::NONE | FecModes::FIRE_CODE, FecModes::RS_528], "those stay");
    }
}
