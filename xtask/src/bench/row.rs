//! Results of cases.

use super::case::Case;
use super::room::Place;
use super::statistics::{Bound, Sample};
use super::unit::Unit;
use serde::Serialize;

/// A case's result.
#[derive(Serialize)]
pub struct Row {
    pub name: &'static str,
    pub place: Place,
    pub unit: Unit,
    pub command: String,
    pub ours: Outcome,
    /// Goal for the figure itself, in words.
    pub aim: Option<String>,
    /// Whether it is reached; unknown if nothing was measured.
    pub aim_kept: Option<bool>,
    pub rivals: Vec<RivalRow>,
}

/// A peer's part of the result.
#[derive(Serialize)]
pub struct RivalRow {
    pub name: String,
    pub command: String,
    pub theirs: Outcome,
    /// Ratio ours/theirs of the medians.
    pub ratio: Option<f64>,
    pub wanted: Option<String>,
    pub kept: Option<bool>,
}

/// Result of a program's turns.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Sample),
    NotInstalled { package: &'static str },
    Failed { why: String },
}

impl Outcome {
    /// Returns the figures, if there are any.
    pub fn sample(&self) -> Option<&Sample> {
        if let Outcome::Measured(sample) = self { Some(sample) } else { None }
    }
}

impl Row {
    /// Creates a row; judges the figure by the case's goal.
    pub fn new(case: &Case, ours: Outcome, rivals: Vec<RivalRow>, seconds: u32) -> Row {
        let unit = case.ours.unit();
        let aim_kept = case.aim.zip(ours.sample()).map(|(aim, sample)| aim.kept(sample.median));
        Row {
            name: case.name,
            place: case.place,
            unit,
            command: case.ours.command(seconds),
            aim: case.aim.map(|aim| aim.words(|figure| unit.show(figure))),
            aim_kept,
            ours,
            rivals,
        }
    }

    /// Returns the number of goals, and the number not reached. An unmeasured goal counts as not reached, but a peer
    /// that is not installed sets no goal.
    pub fn goals(&self) -> (usize, usize) {
        let aims = self.aim.iter().map(|_| self.aim_kept);
        let installed = |rival: &&RivalRow| !matches!(rival.theirs, Outcome::NotInstalled { .. });
        let ratios =
            self.rivals.iter().filter(|rival| rival.wanted.is_some()).filter(installed).map(|rival| rival.kept);
        let all: Vec<_> = aims.chain(ratios).collect();
        (all.len(), all.iter().filter(|kept| **kept != Some(true)).count())
    }
}

impl RivalRow {
    /// Creates a peer's part; judges the ratio.
    pub fn new(name: String, command: String, wanted: Option<Bound>, ours: &Outcome, theirs: Outcome) -> RivalRow {
        let ratio = ours.sample().zip(theirs.sample()).map(|(ours, theirs)| ours.median / theirs.median);
        let kept = wanted.zip(ratio).map(|(wanted, ratio)| wanted.kept(ratio));
        RivalRow { name, command, theirs, ratio, wanted: wanted.map(|w| w.words(|bound| format!("{bound}"))), kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(turns: &[f64]) -> Outcome {
        Outcome::Measured(Sample::of(turns).expect("a turn"))
    }

    #[test]
    fn the_ratio_is_of_the_medians() {
        let wanted = Some(Bound::AtLeast(1.5));
        let rival = |theirs| RivalRow::new("qperf".into(), "qperf".into(), wanted, &measured(&[9.0, 2.0, 3.0]), theirs);
        let slower = rival(measured(&[2.0, 2.0, 50.0]));
        assert_eq!((slower.ratio, slower.kept, slower.wanted.as_deref()), (Some(1.5), Some(true), Some("≥ 1.5")));
        let faster = rival(measured(&[2.5]));
        assert_eq!((faster.ratio, faster.kept), (Some(1.2), Some(false)));
        let missing = rival(Outcome::NotInstalled { package: "qperf" });
        assert_eq!((missing.ratio, missing.kept), (None, None));
    }

    #[test]
    fn what_failed_is_a_goal_missed_and_what_is_not_installed_none() {
        let rival =
            |theirs| RivalRow::new(String::new(), String::new(), Some(Bound::AtMost(1.0)), &measured(&[1.0]), theirs);
        let row = Row {
            name: "case",
            place: Place::SameHost,
            unit: Unit::Microseconds,
            command: String::new(),
            ours: measured(&[1.0]),
            aim: Some("≤ 2 µs".into()),
            aim_kept: Some(true),
            rivals: vec![
                rival(measured(&[1.0])),
                rival(measured(&[0.5])),
                rival(Outcome::Failed { why: "died".into() }),
                rival(Outcome::NotInstalled { package: "ucx-utils" }),
            ],
        };
        assert_eq!(row.goals(), (4, 2));
    }
}
