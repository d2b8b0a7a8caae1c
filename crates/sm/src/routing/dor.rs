//! Dimension-order routing: of the shortest paths, the one through the lowest port. On a mesh or a hypercube with
//! uniformly cabled ports, paths traverse the dimensions in order, which cannot close a credit loop. On a torus they
//! can: use `torus-2QoS`. `dimn_ports_file` sets the port order if the cabling does not.

use crate::routing::work::map;
use crate::tables::{NO_PATH, Tables};

use super::net::{FAR, Net};
use super::{Engine, Request, RouteError};

/// `dor`.
pub const ENGINE: Engine = Engine {
    name: "dor",
    about: "the shortest ways through the lowest ports: dimension order; free of credit loops on meshes and hypercubes",
    run,
};

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let far = net.distances(request.parallel);
    let mut tables = Tables::empty(ENGINE.name, request.graph);
    let length = tables.lfts.first().map_or(0, Vec::len);
    tables.lfts = map(request.parallel, net.switch_count(), |switch| row(request, &net, &far, switch, length));
    Ok(tables)
}

/// The forwarding table of a switch.
fn row(request: &Request<'_>, net: &Net, far: &[Vec<u16>], switch: usize, length: usize) -> Vec<u8> {
    let order = order(request, net, switch);
    let mut loads = vec![0u32; net.of(switch).len()];
    let mut lft = vec![NO_PATH; length];
    for target in &net.targets {
        lft[usize::from(target.lid)] = if target.switch as usize == switch {
            target.port
        } else {
            next(net, &far[target.switch as usize], switch, &order, &mut loads).unwrap_or(NO_PATH)
        };
    }
    lft
}

/// The channels of a switch in dimension order.
fn order(request: &Request<'_>, net: &Net, switch: usize) -> Vec<usize> {
    let guid = request.graph.switches[switch].guid;
    let told = request.options.dimn_ports.iter().find(|(of, _)| *of == guid).map_or(&[][..], |(_, ports)| ports);
    let mut order: Vec<usize> = net.of(switch).collect();
    let place = |port: u8| told.iter().position(|told| *told == port).unwrap_or(told.len());
    order.sort_by_key(|channel| (place(net.channels[*channel].port), net.channels[*channel].port));
    order
}

/// The port to a destination: the least loaded cable to the first neighbor, in dimension order, that is nearer.
fn next(net: &Net, far: &[u16], switch: usize, order: &[usize], loads: &mut [u32]) -> Option<u8> {
    let nearer = |channel: &&usize| {
        let way = net.channels[**channel];
        far[switch] != FAR && u32::from(far[way.to as usize]) + u32::from(way.weight) == u32::from(far[switch])
    };
    let neighbour = net.channels[*order.iter().find(nearer)?].to;
    let start = net.of(switch).start;
    let cables = order.iter().filter(nearer).filter(|channel| net.channels[**channel].to == neighbour);
    let cable = *cables.min_by_key(|channel| loads[**channel - start])?;
    loads[cable - start] += 1;
    Some(net.channels[cable].port)
}
