//! Layered shortest paths (Skeie, Lysne, Theiss: "Layered Shortest Path (LASH) Routing in Irregular System Area
//! Networks"): one path between each pair of switches, assigned to a VL so that no VL has a credit loop. If all paths
//! fit on one VL, as in trees, adapters of one switch may also be reached over different links.

use crate::graph::Graph;
use crate::tables::{Lanes, ServiceLevels, Tables};

use super::lanes::{Assigned, LANES_MAX, assign};
use super::net::Net;
use super::trees::{by_switch, by_target};
use super::{Engine, Request, RouteError};

/// `lash`.
pub const ENGINE: Engine =
    Engine { name: "lash", about: "one shortest way between two switches, on lanes free of credit loops", run };

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let far = net.distances(request.parallel);
    let first = request.options.lash_start_vl;
    if first == 0 {
        let trees = by_target(&net, &far, &|_, _| true);
        if assign(&net, &far, &trees, 1).is_ok() {
            return Ok(net.tables(ENGINE.name, request.graph, trees.iter()));
        }
    }
    let trees = by_switch(&net, &far);
    let lanes_max = net.lanes_max(request).saturating_sub(first);
    let refuse = |why: String| RouteError { engine: ENGINE.name, why };
    if lanes_max == 0 {
        return Err(refuse(format!("lash_start_vl is {first}, but the fabric has no such lane")));
    }
    let assigned = assign(&net, &far, &trees, lanes_max).map_err(|left| {
        let hint = "allow more lanes (max_op_vls), or use nue, which needs no certain number";
        refuse(format!("{left} pairs of switches would close credit loops on each of {lanes_max} lanes; {hint}"))
    })?;
    let each = net.targets.iter().map(|target| &trees[target.switch as usize]);
    let mut tables = net.tables(ENGINE.name, request.graph, each);
    (tables.service_levels, tables.lanes) = levels(request.graph, &assigned, first);
    Ok(tables)
}

/// Service levels by pairs of switches, from VL `first` on.
fn levels(graph: &Graph, assigned: &Assigned, first: u8) -> (ServiceLevels, Lanes) {
    let switches = graph.switch_count();
    let mut levels = vec![first; switches * switches];
    for (target, lanes) in assigned.lanes.iter().enumerate() {
        for (source, lane) in lanes.iter().enumerate() {
            levels[source * switches + target] = (lane + first).min(LANES_MAX as u8 - 1);
        }
    }
    (ServiceLevels::BySwitches(levels), Lanes::Identity { count: assigned.count + first })
}
