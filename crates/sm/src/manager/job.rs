//! What takes processors rather than datagrams: whoever runs the manager gives them, on threads or not.

use std::sync::Arc;

use crate::graph::Graph;
use crate::parallel::Parallel;
use crate::routing::{Engine, Previous, Request, RouteError, RoutingOptions};
use crate::tables::Tables;

/// Work that the manager waits for.
#[must_use = "the manager waits until it is run and told of by `Manager::handle_job`"]
pub struct Job {
    pub(crate) number: u64,
    pub(crate) graph: Arc<Graph>,
    pub(crate) options: RoutingOptions,
    pub(crate) engines: Vec<Engine>,
    /// What is in force, of which as much as possible is to stay.
    pub(crate) previous: Option<(Arc<Graph>, Arc<Tables>)>,
}

/// What came of it.
pub struct JobDone {
    pub(crate) number: u64,
    pub(crate) graph: Arc<Graph>,
    pub(crate) tables: Option<Tables>,
    pub(crate) failed: Vec<RouteError>,
}

impl Job {
    /// Do it: the first engine that has tables has the last word.
    pub fn run(self, parallel: &dyn Parallel) -> JobDone {
        let mut failed = Vec::new();
        let previous = self.previous.as_ref().map(|(graph, tables)| Previous { graph, tables });
        let request = Request { graph: &self.graph, options: &self.options, parallel, previous };
        let mut tables = None;
        for engine in &self.engines {
            match (engine.run)(&request) {
                Ok(found) => {
                    tables = Some(found);
                    break;
                }
                Err(error) => failed.push(error),
            }
        }
        JobDone { number: self.number, graph: self.graph, tables, failed }
    }
}
