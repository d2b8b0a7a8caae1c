//! Quality of tables, judged from the tables alone: reachability of every LID, link loads of all-to-all traffic,
//! collisions in shift permutations, and credit loops. Engine tests and the preview use it; it
//! is independent of all engines.

mod bisection;
mod checks;
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

pub use checks::{Checks, SHIFTS_MAX};
pub use credits::Channel;
pub use reach::{Broken, Load, Reach, Why};
pub use shift::Shift;
pub(super) use shift::by_switches;

/// Quality of tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// The engine.
    pub engine: &'static str,
    /// Reachability and path lengths.
    pub reach: Reach,
    /// Link loads between switches when every end port sends to every LID of the others.
    pub load: Load,
    /// Results of shift permutations.
    pub shift: Shift,
    /// Number of VLs that the tables need.
    pub lanes: u8,
    /// Channels that form a credit loop, if there is one.
    pub credit_loop: Option<Vec<Channel>>,
}

impl Quality {
    /// Whether every path arrives and there is no credit loop.
    pub fn is_sound(&self) -> bool {
        self.reach.broken == 0 && self.credit_loop.is_none()
    }
}

/// The heading of the table whose rows [`Quality`] prints.
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

/// The LIDs that some switch cannot reach, in order.
pub fn reaches(graph: &Graph, tables: &Tables) -> Vec<u16> {
    reach::missing(&net::Net::new(graph, tables))
}

/// Returns channels that form a credit loop, if there is one.
pub fn credit_loop(graph: &Graph, tables: &Tables, parallel: &dyn Parallel) -> Option<Vec<Channel>> {
    credits::credit_loop(&net::Net::new(graph, tables), &Checks::default(), parallel)
}

/// Mean bandwidth share of a path in `draws` random bisections.
pub fn bisection_share(graph: &Graph, tables: &Tables, draws: usize, parallel: &dyn Parallel) -> f64 {
    bisection::bisection(&net::Net::new(graph, tables), draws, parallel)
}

/// Checks tables.
pub fn check(graph: &Graph, tables: &Tables, checks: &Checks, parallel: &dyn Parallel) -> Quality {
    let net = net::Net::new(graph, tables);
    let (reach, load) = reach::reach(&net, parallel);
    let shift = shift::shifts(&net, checks, parallel);
    let credit_loop = credits::credit_loop(&net, checks, parallel);
    Quality { engine: tables.engine, reach, load, shift, lanes: tables.lane_count(), credit_loop }
}
