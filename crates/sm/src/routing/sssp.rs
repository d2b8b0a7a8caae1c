//! Single-source shortest paths (Hoefler, Schneider, Lumsdaine: "Optimized Routing for Large-Scale InfiniBand Networks"):
//! every destination takes the shortest ways that those before it have left emptiest. Credit loops can arise wherever the
//! fabric has rings; `dfsssp` puts the same paths on lanes.

use crate::tables::Tables;

use super::net::Net;
use super::trees::by_target;
use super::{Engine, Request, RouteError};

/// `sssp`.
pub const ENGINE: Engine = Engine {
    name: "sssp",
    about: "the shortest ways, weighed against each other; rings of switches can block themselves",
    run,
};

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let trees = by_target(&net, &net.distances(request.parallel), &|_, _| true);
    Ok(net.tables(ENGINE.name, request.graph, trees.iter()))
}
