//! Single-source shortest paths (Hoefler, Schneider, Lumsdaine: "Optimized Routing for Large-Scale InfiniBand
//! Networks"): every destination takes the shortest paths that earlier ones have loaded least. Credit loops can occur
//! if the fabric has rings; `dfsssp` assigns the same paths to VLs.

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
