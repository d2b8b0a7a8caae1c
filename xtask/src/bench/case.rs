//! A case: what of ours is measured, beside whom, and what is wanted of it. All take turns in the same run.

use super::program::Program;
use super::room::{Place, Room};
use super::row::{Outcome, RivalRow, Row};
use super::statistics::{Bound, Sample};

/// One measure of ours with its peers.
pub struct Case {
    /// What a reader calls it, and `--filter` looks in.
    pub name: &'static str,
    pub place: Place,
    pub ours: &'static dyn Program,
    pub rivals: &'static [Rival],
    /// What the figure itself is to be.
    pub aim: Option<Bound>,
}

/// A peer or a limit of a case.
pub struct Rival {
    pub program: &'static dyn Program,
    /// What the ratio ours/theirs is to be.
    pub wanted: Option<Bound>,
}

impl Rival {
    /// Whose figure is told, and no more.
    pub const fn told(program: &'static dyn Program) -> Rival {
        Rival { program, wanted: None }
    }

    /// Of whose figure ours is to be a multiple at least.
    pub const fn at_least(bound: f64, program: &'static dyn Program) -> Rival {
        Rival { program, wanted: Some(Bound::AtLeast(bound)) }
    }

    /// Of whose figure ours is to be a multiple at most.
    pub const fn at_most(bound: f64, program: &'static dyn Program) -> Rival {
        Rival { program, wanted: Some(Bound::AtMost(bound)) }
    }
}

/// A program with what its turns brought.
struct Contender {
    program: &'static dyn Program,
    turns: Vec<f64>,
    failure: Option<String>,
}

impl Contender {
    fn new(program: &'static dyn Program) -> Contender {
        Contender { program, turns: Vec::new(), failure: None }
    }

    /// Takes its turn unless it failed before: a failure rarely mends itself, and takes long.
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
    /// Ours and every peer in turns.
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

    /// The row of a place that cannot be entered.
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
