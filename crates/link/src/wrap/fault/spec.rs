//! The specification of faults: `loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7`.

use std::fmt;

use weft_verbs::Duration;

use crate::units::{share_ppm, time};

/// The faults to inject, and their rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultSpec {
    /// Lost packets per million.
    pub loss_ppm: u32,
    /// Packets per million that later ones overtake.
    pub reorder_ppm: u32,
    /// Duplicated packets per million.
    pub dup_ppm: u32,
    /// Packets per million with a flipped bit.
    pub corrupt_ppm: u32,
    /// Delay of every packet.
    pub delay: Duration,
    /// Datagrams (UD) per million that later packets overtake, beside `reorder_ppm`. No text requests it.
    pub late_datagrams_ppm: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The longest accepted delay.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// The reason why a specification is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultSpecError(String);

impl fmt::Display for FaultSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; a fault specification reads like loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7",
            self.0
        )
    }
}

impl std::error::Error for FaultSpecError {}

impl FaultSpec {
    /// Parses a specification. An empty text requests no faults.
    ///
    /// # Errors
    /// The first part that does not parse, and the reason.
    pub fn parse(text: &str) -> Result<FaultSpec, FaultSpecError> {
        let mut spec = FaultSpec::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| FaultSpecError(format!("\"{part}\" has no value: write {part}=...")))?;
            let (key, value) = (key.trim(), value.trim());
            let wrong = |why: String| FaultSpecError(format!("{key}={value}: {why}"));
            match key {
                "loss" => spec.loss_ppm = share_ppm(value).map_err(wrong)?,
                "reorder" => spec.reorder_ppm = share_ppm(value).map_err(wrong)?,
                "dup" => spec.dup_ppm = share_ppm(value).map_err(wrong)?,
                "corrupt" => spec.corrupt_ppm = share_ppm(value).map_err(wrong)?,
                "delay" => spec.delay = time(value, DELAY_MAX).map_err(wrong)?,
                "seed" => {
                    spec.seed = value.parse().map_err(|_| wrong("a seed is a whole number of 64 bits".to_owned()))?;
                }
                _ => {
                    return Err(FaultSpecError(format!(
                        "\"{key}\" is no fault: there are loss, reorder, dup, corrupt, delay and seed"
                    )));
                }
            }
        }
        Ok(spec)
    }

    /// Returns how many packets per million like this one (BTH first) later ones overtake.
    pub(super) fn late_ppm(&self, ib: &[u8]) -> u32 {
        const DATAGRAM: u8 = 0b011;
        match ib.first() {
            Some(opcode) if opcode >> 5 == DATAGRAM => self.reorder_ppm.saturating_add(self.late_datagrams_ppm),
            _ => self.reorder_ppm,
        }
    }

    /// Whether no faults are requested.
    pub fn is_none(&self) -> bool {
        *self == FaultSpec { seed: self.seed, ..FaultSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_specification_is_understood() {
        let spec = FaultSpec::parse("loss=1%, reorder=2%,dup=10000ppm,corrupt=0.1%,delay=1ms,seed=7").unwrap();
        let want = FaultSpec {
            loss_ppm: 10_000,
            reorder_ppm: 20_000,
            dup_ppm: 10_000,
            corrupt_ppm: 1_000,
            late_datagrams_ppm: 0,
            delay: Duration::from_millis(1),
            seed: 7,
        };
        assert_eq!(spec, want);
        assert!(FaultSpec::parse("").unwrap().is_none());
        assert!(FaultSpec::parse("seed=9").unwrap().is_none());
        assert!(!spec.is_none());
    }

    #[test]
    fn errors_name_the_part_and_the_fix() {
        for (text, part) in [
            ("loss", "loss=..."),
            ("loss=x", "loss=x"),
            ("loss=1", "loss=1: a share needs its unit; write 1% or 1ppm"),
            ("dup=0.01", "needs its unit"),
            ("loss=101%", "0% and 100%"),
            ("loss=-1%", "0% and 100%"),
            ("loss=NaN", "a number with a unit"),
            ("lost=1%", "\"lost\" is no fault"),
            ("delay=5", "unit"),
            ("delay=100s", "60s"),
            ("delay=infs", "60s"),
            ("seed=-1", "whole number"),
        ] {
            let error = FaultSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("loss=1%"), "{text}: {error}");
        }
    }
}
