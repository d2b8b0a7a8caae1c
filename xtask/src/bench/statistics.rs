//! Statistics of several turns: the median and the spread. A mean would let one disturbed turn dominate.

use serde::Serialize;

/// The figures of all turns of one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Figures, in the order of measurement.
    pub turns: Vec<f64>,
}

impl Sample {
    /// Summarises turns; `None` without any turn.
    pub fn of(turns: &[f64]) -> Option<Sample> {
        let mut sorted = turns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Sample { median: median_of_sorted(&sorted), min, max, turns: turns.to_vec() })
    }
}

/// Returns the middle value, or the mean of the two in the middle.
fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], sorted[middle]) } else { sorted[middle] }
}

/// A bound for a figure or a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    /// Whether `value` meets the bound; NaN does not.
    pub fn kept(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }

    /// Returns the sign and the bound, formatted by `show`.
    pub fn words(self, show: impl Fn(f64) -> String) -> String {
        match self {
            Bound::AtLeast(bound) => format!("≥ {}", show(bound)),
            Bound::AtMost(bound) => format!("≤ {}", show(bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_turn_does_not_move_the_median() {
        let sample = Sample::of(&[3.0, 0.1, 3.2]).expect("three turns");
        assert_eq!((sample.median, sample.min, sample.max), (3.0, 0.1, 3.2));
        assert_eq!(sample.turns, [3.0, 0.1, 3.2]);
    }

    #[test]
    fn of_an_even_number_of_turns_the_middle_is_between_two() {
        assert_eq!(Sample::of(&[4.0, 1.0, 2.0, 3.0]).expect("four turns").median, 2.5);
        assert_eq!(Sample::of(&[7.0]).expect("one turn").median, 7.0);
        assert_eq!(Sample::of(&[]), None);
    }

    #[test]
    fn bounds_include_themselves_and_exclude_what_is_no_number() {
        assert!(Bound::AtLeast(0.9).kept(0.9) && !Bound::AtLeast(0.9).kept(0.89));
        assert!(Bound::AtMost(1.15).kept(1.15) && !Bound::AtMost(1.15).kept(1.16));
        assert!(!Bound::AtLeast(0.0).kept(f64::NAN) && !Bound::AtMost(9.0).kept(f64::NAN));
        assert_eq!(Bound::AtLeast(0.9).words(|v| format!("{v}")), "≥ 0.9");
    }
}
