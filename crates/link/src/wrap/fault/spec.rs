//! What a person writes to ask for faults: `loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7`.

use std::fmt;

use weft_verbs::Duration;

/// Which faults, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultSpec {
    /// Packets of a million that are lost.
    pub loss_ppm: u32,
    /// Packets of a million that are overtaken by later ones.
    pub reorder_ppm: u32,
    /// Packets of a million that come twice.
    pub dup_ppm: u32,
    /// Packets of a million of which a bit is flipped.
    pub corrupt_ppm: u32,
    /// How long every packet is held.
    pub delay: Duration,
    /// Where the dice start.
    pub seed: u64,
}

/// The longest delay that can be asked for.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// Why a specification is none.
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
    /// From what a person wrote. An empty text asks for no faults.
    ///
    /// # Errors
    /// The first part that is not understood, and why.
    pub fn parse(text: &str) -> Result<FaultSpec, FaultSpecError> {
        let mut spec = FaultSpec::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| FaultSpecError(format!("\"{part}\" has no value: write {part}=...")))?;
            let (key, value) = (key.trim(), value.trim());
            let wrong = |why: &str| FaultSpecError(format!("{key}={value}: {why}"));
            match key {
                "loss" => spec.loss_ppm = share(value).map_err(wrong)?,
                "reorder" => spec.reorder_ppm = share(value).map_err(wrong)?,
                "dup" => spec.dup_ppm = share(value).map_err(wrong)?,
                "corrupt" => spec.corrupt_ppm = share(value).map_err(wrong)?,
                "delay" => spec.delay = time(value).map_err(wrong)?,
                "seed" => {
                    spec.seed = value.parse().map_err(|_| wrong("a seed is a whole number of 64 bits"))?;
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

    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == FaultSpec { seed: self.seed, ..FaultSpec::default() }
    }
}

/// `1%`, `0.1%`, or a fraction such as `0.01`, as parts of a million.
fn share(text: &str) -> Result<u32, &'static str> {
    const WHY: &str = "a share is a percentage such as 1% or 0.1%, or a fraction such as 0.01";
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 10_000.0),
        None => (text, 1_000_000.0),
    };
    let value: f64 = number.parse().map_err(|_| WHY)?;
    let ppm = value * scale;
    if !(0.0..=1_000_000.0).contains(&ppm) {
        return Err("a share lies between 0% and 100%");
    }
    Ok(ppm.round() as u32)
}

/// `10ns`, `20us`, `1ms`, `0.5s`.
fn time(text: &str) -> Result<Duration, &'static str> {
    const WHY: &str = "a time is a number with a unit, ns, us, ms or s, such as 1ms";
    let (number, nanoseconds) = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))
        .ok_or(WHY)?;
    let value: f64 = number.trim().parse().map_err(|_| WHY)?;
    let nanoseconds = value * nanoseconds;
    if !(0.0..=DELAY_MAX.as_nanos() as f64).contains(&nanoseconds) {
        return Err("a delay lies between 0 and 60s");
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_specification_is_understood() {
        let spec = FaultSpec::parse("loss=1%, reorder=2%,dup=0.01,corrupt=0.1%,delay=1ms,seed=7").unwrap();
        let want = FaultSpec {
            loss_ppm: 10_000,
            reorder_ppm: 20_000,
            dup_ppm: 10_000,
            corrupt_ppm: 1_000,
            delay: Duration::from_millis(1),
            seed: 7,
        };
        assert_eq!(spec, want);
        assert!(FaultSpec::parse("").unwrap().is_none());
        assert!(FaultSpec::parse("seed=9").unwrap().is_none());
        assert!(!spec.is_none());
    }

    #[test]
    fn errors_name_the_part_and_the_mend() {
        for (text, part) in [
            ("loss", "loss=..."),
            ("loss=x", "loss=x"),
            ("loss=101%", "0% and 100%"),
            ("loss=-1%", "0% and 100%"),
            ("loss=NaN", "0% and 100%"),
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
