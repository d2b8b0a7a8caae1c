//! Forward error correction of links: what a port can at each speed by its hardware, what its manager left of that, and
//! what both ends of a link agree on. It costs nothing here, and mends nothing: damage that a cable is told to do is what
//! correction has left over.

use crate::topology::Speed;
use weft_wire::mad::subn::{FecMode, FecModes};

/// Speeds that PortInfoExtended tells modes of, with the modes that hardware of such a speed can.
const SPEEDS: [(Speed, FecModes); 4] = [
    (Speed::Fdr, FecModes::NONE.union(FecModes::FIRE_CODE)),
    (Speed::Edr, FecModes::NONE.union(FecModes::RS_528)),
    // Four levels to a symbol are not read without.
    (Speed::Hdr, FecModes::RS_544),
    (Speed::Ndr, FecModes::RS_544),
];

/// The modes of one port, by the places of [`SPEEDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fec {
    enabled: [FecModes; SPEEDS.len()],
    /// What the link runs with.
    pub active: FecMode,
}

impl Fec {
    /// As power leaves it: whatever the hardware can.
    pub fn new(speed: Speed) -> Fec {
        Fec { enabled: Fec::supported(speed), active: FecMode::NONE }
    }

    /// What a port of this speed can: at FDR, EDR, HDR, NDR.
    pub fn supported(hardware: Speed) -> [FecModes; SPEEDS.len()] {
        SPEEDS.map(|(speed, modes)| if speed <= hardware { modes } else { FecModes::empty() })
    }

    /// What it may use: at FDR, EDR, HDR, NDR.
    pub fn enabled(&self) -> [FecModes; SPEEDS.len()] {
        self.enabled
    }

    /// A manager says what it may use from the next training on; nothing leaves all as it is. `false`: the port of this
    /// speed cannot that.
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

    /// The mode that two ends have in common at a speed.
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
