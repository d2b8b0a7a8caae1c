//! What takes processors rather than datagrams: whoever runs the manager gives them, on threads or not.

use std::sync::Arc;

use crate::graph::Graph;
use crate::multicast::{self, Forest, Wanted};
use crate::parallel::Parallel;
use crate::routing::chain::{self, Chain};
use crate::routing::{Previous, Request, RoutingOptions};
use crate::tables::Tables;

/// Work that the manager waits for.
#[must_use = "the manager waits until it is run and told of by `Manager::handle_job`"]
pub struct Job(pub(crate) Work);

pub(crate) enum Work {
    Route(Box<Route>),
    Trees(Box<Trees>),
}

/// Tables are to be computed.
pub(crate) struct Route {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub options: RoutingOptions,
    pub engines: Chain,
    /// What is in force, of which as much as possible is to stay.
    pub previous: Option<(Arc<Graph>, Arc<Tables>)>,
}

/// Multicast trees are to be grown.
pub(crate) struct Trees {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub wanted: Vec<Wanted>,
    pub deaf: Vec<u32>,
    pub previous: Arc<Forest>,
}

/// What came of it.
pub struct JobDone(pub(crate) Done);

pub(crate) enum Done {
    Routed(Routed),
    Grown { number: u64, forest: Forest },
}

/// What the engines have.
pub(crate) struct Routed {
    pub number: u64,
    pub graph: Arc<Graph>,
    pub routed: chain::Routed,
}

impl Job {
    /// Do it.
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
        let request =
            multicast::Request { graph: &self.graph, wanted: &self.wanted, deaf: &self.deaf, previous: &self.previous };
        Done::Grown { number: self.number, forest: multicast::trees(&request) }
    }
}
