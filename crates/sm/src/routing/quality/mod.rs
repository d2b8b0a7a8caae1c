//! How good tables are, judged from nothing but themselves: whether every LID is reached from everywhere, what every link
//! carries when all send to all, how often shift permutations collide, and whether packets can block each other in a
//! circle. Engines are tested with it, a preview prints it, and it knows nothing of how any engine works.

mod bisection;
mod credits;
mod net;
mod reach;
mod shift;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::graph::Graph;
use crate::parallel::Parallel;
use crate::tables::Tables;

pub use credits::Channel;
pub use reach::{Broken, Load, Reach, Why};
pub use shift::Shift;
pub(super) use shift::by_switches;

/// Shift permutations that are tried at most, unless more are asked for.
pub const SHIFTS_MAX: usize = 512;

/// What is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Shift permutations to try at most, evenly chosen; 0: none.
    pub shifts: usize,
    /// The order in which ends stand for shifts, by place; empty: by the switches that they hang on, as a walk along the
    /// cables of a tree meets them, or by their GUIDs elsewhere. A number that no end has is a gap: nobody sends there.
    pub order: Vec<u32>,
    /// Whether paths to switches count for credit loops too.
    pub to_switches: bool,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { shifts: SHIFTS_MAX, order: Vec::new(), to_switches: true }
    }
}

/// How good tables are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// The engine.
    pub engine: &'static str,
    /// Whether paths arrive, and how long they are.
    pub reach: Reach,
    /// What links between switches carry when every end sends to every LID of the others.
    pub load: Load,
    /// Shift permutations.
    pub shift: Shift,
    /// Lanes that the tables need.
    pub lanes: u8,
    /// Channels whose packets wait for each other in a circle, if there are such.
    pub credit_loop: Option<Vec<Channel>>,
}

impl Quality {
    /// Whether every path arrives and none can be blocked by itself.
    pub fn is_sound(&self) -> bool {
        self.reach.broken == 0 && self.credit_loop.is_none()
    }
}

/// The heading of the table of which [`Quality`] prints lines.
pub const HEADING: &str = "| engine | a2a max | max/mean | unused links | shift worst link, mean | \
    conflict-free shifts % | hops | VLs | credit-loop free |";

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (load, shift) = (&self.load, &self.shift);
        write!(f, "| {} | {} | {:.2} | {} ", self.engine, load.max, load.max_over_mean(), load.unused)?;
        write!(f, "| {:.2} | {:.0} | {:.2} ", shift.worst_mean, shift.free_share * 100.0, self.reach.hops_mean)?;
        write!(f, "| {} | {} |", self.lanes, if self.credit_loop.is_none() { "yes" } else { "NO" })
    }
}

/// The LIDs that are not reached from every switch, in order.
pub fn reaches(graph: &Graph, tables: &Tables) -> Vec<u16> {
    reach::missing(&net::Net::new(graph, tables))
}

/// Channels whose packets wait for each other in a circle, if there are such.
pub fn credit_loop(graph: &Graph, tables: &Tables, parallel: &dyn Parallel) -> Option<Vec<Channel>> {
    credits::credit_loop(&net::Net::new(graph, tables), &Checks::default(), parallel)
}

/// The mean share of the bandwidth that a path has in random bisections, of which so many are drawn.
pub fn bisection_share(graph: &Graph, tables: &Tables, draws: usize, parallel: &dyn Parallel) -> f64 {
    bisection::bisection(&net::Net::new(graph, tables), draws, parallel)
}

/// Judges tables.
pub fn check(graph: &Graph, tables: &Tables, checks: &Checks, parallel: &dyn Parallel) -> Quality {
    let net = net::Net::new(graph, tables);
    let (reach, load) = reach::reach(&net, parallel);
    let shift = shift::shifts(&net, checks, parallel);
    let credit_loop = credits::credit_loop(&net, checks, parallel);
    Quality { engine: tables.engine, reach, load, shift, lanes: tables.lane_count(), credit_loop }
}
