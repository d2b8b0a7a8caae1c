//! A case: a program of ours, its peers, and the goals. All take turns in the same run.

use super::program::Program;
use super::room::{Place, Room};
use super::row::{Outcome, RivalRow, Row};
use super::statistics::{Bound, Sample};

/// One measure of ours with its peers.
pub struct Case {
    /// Name for readers; `--filter` searches it.
    pub name: &'static str,
    pub place: Place,
    pub ours: &'static dyn Program,
    pub rivals: &'static [Rival],
    /// Goal for the figure itself.
    pub aim: Option<Bound>,
}

/// A peer or a limit of a case.
pub struct Rival {
    pub program: &'static dyn Program,
    /// Goal for the ratio ours/theirs.
    pub wanted: Option<Bound>,
}

impl Rival {
    /// Shows a program's figure without a goal.
    pub const fn told(program: &'static dyn Program) -> Rival {
        Rival { program, wanted: None }
    }

    /// Sets the goal that our figure is at least this multiple of the program's.
    pub const fn at_least(bound: f64, program: &'static dyn Program) -> Rival {
        Rival { program, wanted: Some(Bound::AtLeast(bound)) }
    }

    /// Sets the goal that our figure is at most this multiple of the program's.
    pub const fn at_most(bound: f64, program: &'static dyn Program) -> Rival {
        Rival { program, wanted: Some(Bound::AtMost(bound)) }
    }
}

/// A program with the results of its turns.
struct Contender {
    program: &'static dyn Program,
    turns: Vec<f64>,
    failure: Option<String>,
}

impl Contender {
    fn new(program: &'static dyn Program) -> Contender {
        Contender { program, turns: Vec::new(), failure: None }
    }

    /// Takes its turn unless it failed before: a failure rarely goes away, and takes long.
    fn take_turn(&mut self, room: &Room) {
        if self.failure.is_some() || self.program.missing().is_some() {
            return;
        }
        match self.program.measure(room) {
            Ok(figure) => self.turns.push(figure),
            Err(error) => {
                eprintln!("{}: {error:#}", self.program.name());
                self.failure = Some(format!("{error:#}"));
            }
        }
    }

    fn outcome(&self) -> Outcome {
        match (self.program.missing(), &self.failure, Sample::of(&self.turns)) {
            (Some(package), ..) => Outcome::NotInstalled { package },
            (_, Some(why), _) => Outcome::Failed { why: why.clone() },
            (_, _, Some(sample)) => Outcome::Measured(sample),
            (_, _, None) => Outcome::Failed { why: "no turn was taken".to_owned() },
        }
    }
}

impl Case {
    /// Runs ours and every peer in turns.
    pub fn hold(&self, room: &Room, turns: usize) -> Row {
        let rivals = self.rivals.iter().map(|rival| Contender::new(rival.program));
        let mut contenders: Vec<_> = std::iter::once(Contender::new(self.ours)).chain(rivals).collect();
        for _ in 0..turns {
            contenders.iter_mut().for_each(|contender| contender.take_turn(room));
        }
        let mut outcomes = contenders.iter().map(Contender::outcome);
        let ours = outcomes.next().unwrap_or(Outcome::Failed { why: "nothing was measured".to_owned() });
        self.row(ours, outcomes.collect(), room.seconds)
    }

    /// Returns the row of a place that cannot be set up.
    pub fn impossible(&self, why: &str, seconds: u32) -> Row {
        let failed = || Outcome::Failed { why: why.to_owned() };
        self.row(failed(), self.rivals.iter().map(|_| failed()).collect(), seconds)
    }

    fn row(&self, ours: Outcome, theirs: Vec<Outcome>, seconds: u32) -> Row {
        let rivals = self.rivals.iter().zip(theirs).map(|(rival, outcome)| {
            RivalRow::new(rival.program.name(), rival.program.command(seconds), rival.wanted, &ours, outcome)
        });
        let rivals = rivals.collect();
        Row::new(self, ours, rivals, seconds)
    }
}
