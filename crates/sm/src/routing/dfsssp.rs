//! The paths of `sssp`, assigned to VLs so that they cannot deadlock (Domke, Hoefler, Nagel: "Deadlock-Free Oblivious
//! Routing for Arbitrary Topologies").

use crate::tables::Tables;

use super::lanes::assign;
use super::net::Net;
use super::trees::by_target;
use super::{Engine, Request, RouteError};

/// `dfsssp`.
pub const ENGINE: Engine = Engine {
    name: "dfsssp",
    about: "the shortest ways, weighed against each other, on lanes free of credit loops",
    run,
};

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let far = net.distances(request.parallel);
    let trees = by_target(&net, &far, &|_, _| true);
    let lanes_max = net.lanes_max(request);
    let assigned = assign(&net, &far, &trees, lanes_max).map_err(|left| RouteError {
        engine: ENGINE.name,
        why: format!(
            "{left} paths would close credit loops on each of {lanes_max} lanes; allow more lanes (max_op_vls), or use nue, \
             which needs no certain number"
        ),
    })?;
    let mut tables = net.tables(ENGINE.name, request.graph, trees.iter());
    (tables.service_levels, tables.lanes) = assigned.levels(&net, request.graph);
    Ok(tables)
}
