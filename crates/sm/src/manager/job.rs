//! Jobs that take CPU time rather than MADs: the caller runs them, on threads or not.

use std::sync::Arc;

use crate::graph::Graph;
use crate::multicast::{self, Forest, Wanted};
use crate::parallel::Parallel;
use crate::routing::chain::{self, Chain};
use crate::routing::{Previous, Request, RoutingOptions};
use crate::tables::Tables;

/// A job that the manager waits for.
#[must_use = "the manager waits until it is run and told of by `Manager::handle_job`"]
pub struct Job(pub(crate) Work);

pub(crate) enum Work {
    Route(Box<Route>),
    Trees(Box<Trees>),
}

/// A job that computes forwarding tables.
pub(crate) struct Route {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub options: RoutingOptions,
    pub engines: Chain,
    /// The present tables, which the new ones should change as little as possible.
    pub previous: Option<(Arc<Graph>, Arc<Tables>)>,
}

/// A job that computes multicast trees.
pub(crate) struct Trees {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub wanted: Vec<Wanted>,
    pub without_mft: Vec<u32>,
    pub previous: Arc<Forest>,
}

/// Result of a job.
pub struct JobDone(pub(crate) Done);

pub(crate) enum Done {
    Routed(Routed),
    Grown { number: u64, forest: Forest },
}

/// Result of the routing engines.
pub(crate) struct Routed {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub routed: chain::Routed,
}

impl Job {
    /// Runs the job.
    pub fn run(self, parallel: &dyn Parallel) -> JobDone {
        JobDone(match self.0 {
            Work::Route(route) => Done::Routed(route.run(parallel)),
            Work::Trees(trees) => trees.run(),
        })
    }
}

impl Route {
    fn run(self, parallel: &dyn Parallel) -> Routed {
        let previous = self.previous.as_ref().map(|(graph, tables)| Previous { graph, tables });
        let request = Request { graph: &self.graph, options: &self.options, parallel, previous };
        let routed = self.engines.route(&request);
        Routed { number: self.number, graph: self.graph, routed }
    }
}

impl Trees {
    fn run(self) -> Done {
        let request = multicast::Request {
            graph: &self.graph,
            wanted: &self.wanted,
            without_mft: &self.without_mft,
            previous: &self.previous,
        };
        Done::Grown { number: self.number, forest: multicast::trees(&request) }
    }
}
