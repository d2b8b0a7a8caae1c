//! Tori and meshes of up to three dimensions, as in OpenSM's torus-2QoS: dimension-order routing, with another VL for
//! paths that cross the dateline of a ring, which one bit of the service level for each dimension selects. The VL
//! depends on the service level and the egress port. If a path goes around a missing switch, the hop after the turn
//! that violates dimension order uses further VLs. With eight VLs, service levels 8 to 15 are a second QoS class with
//! its own VLs. Without a torus_config, the geometry is found from the cables.

pub(crate) mod config;
mod find;
mod grid;
mod steps;

use crate::routing::net::Net;
use crate::routing::quality::{Checks, check};
use crate::routing::work::map;
use crate::routing::{Engine, Request, RouteError};
use crate::tables::{Lanes, NO_PATH, ServiceLevels, Tables};

use config::Config;
use config::DIMENSIONS;
use grid::Grid;

/// `torus-2QoS`.
pub const ENGINE: Engine = Engine {
    name: "torus-2QoS",
    about: "tori and meshes in dimension order, datelines on lanes; goes round missing links and a missing switch",
    run,
};

/// VL bit of a path that crosses the dateline.
const DATELINE: u8 = 1;
/// VL bit of the hop after a turn that violates dimension order.
const TURN: u8 = 2;
/// VL bit of the second QoS class.
const SECOND: u8 = 4;
/// Service level bit of the second QoS class.
const SECOND_LEVEL: u8 = 8;

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    routed(request).map_err(|why| RouteError { engine: ENGINE.name, why })
}

fn routed(request: &Request<'_>) -> Result<Tables, String> {
    let config = Config::read(&request.options.torus_config)?;
    let guids: Vec<u64> = request.graph.switches.iter().map(|switch| switch.guid).collect();
    let net = Net::new(request.graph);
    let grid = Grid::new(&net, config.as_ref(), &guids)
        .map_err(|why| format!("this is no torus or mesh that it can route: {why}; use dfsssp or nue"))?;
    let lanes = lanes(net.lanes_max(request));
    let ways = Ways { net: &net, grid: &grid, order: config.map_or_else(Vec::new, |config| config.port_order) };
    let mut tables = Tables::empty(ENGINE.name, request.graph);
    let length = usize::from(request.graph.lid_top()) + 1;
    let rows = map(request.parallel, net.switch_count(), |switch| ways.row(switch as u32, length));
    tables.lfts = rows.into_iter().collect::<Result<_, _>>().map_err(|(from, to)| {
        let name = |switch: u32| request.graph.switches[switch as usize].name.clone();
        format!(
            "too much is missing between {} and {}: a row of switches is in several pieces; use dfsssp or nue meanwhile",
            name(from),
            name(to)
        )
    })?;
    tables.service_levels = ServiceLevels::BySwitches(levels(&grid, net.switch_count()));
    tables.free_levels = SECOND_LEVEL;
    tables.lanes = Lanes::ByPorts { count: lanes, maps: maps(request, &net, &grid, lanes) };
    if !grid.is_whole() || lanes < 2 {
        let checks = Checks { shifts: 0, ..Checks::default() };
        let quality = check(request.graph, &tables, &checks, request.parallel);
        if !quality.is_sound() {
            return Err(format!(
                "what is missing leaves no paths free of credit loops on {lanes} lanes; use dfsssp or nue"
            ));
        }
    }
    Ok(tables)
}

/// Number of VLs to use out of those available.
fn lanes(lanes_max: u8) -> u8 {
    [8, 4, 2].into_iter().find(|lanes| *lanes <= lanes_max).unwrap_or(1)
}

struct Ways<'a> {
    net: &'a Net,
    grid: &'a Grid,
    /// Ports to prefer among cables to the same switch.
    order: Vec<u8>,
}

impl Ways<'_> {
    /// The forwarding table of a switch; `Err` names two switches without a path.
    fn row(&self, switch: u32, length: usize) -> Result<Vec<u8>, (u32, u32)> {
        let mut lft = vec![NO_PATH; length];
        let mut turns = vec![0usize; self.net.switch_count()];
        for target in &self.net.targets {
            let turn = &mut turns[target.switch as usize];
            lft[usize::from(target.lid)] = if target.switch == switch {
                target.port
            } else {
                self.port(switch, target.switch, *turn).ok_or((switch, target.switch))?
            };
            *turn += usize::from(target.end);
        }
        Ok(lft)
    }

    /// The port that leads to a switch: adapters there take turns among parallel cables.
    fn port(&self, from: u32, to: u32, turn: usize) -> Option<u8> {
        let (dimension, up) = self.grid.step(from, to)?;
        let place = self.grid.beside(self.grid.places[from as usize], dimension, up)?;
        let there = self.grid.switch(place)?;
        let ways = &self.net.channels[self.net.of(from as usize)];
        let mut cables: Vec<u8> = ways.iter().filter(|way| way.to == there).map(|way| way.port).collect();
        let rank = |port: u8| self.order.iter().position(|first| *first == port).unwrap_or(self.order.len());
        cables.sort_by_key(|port| (rank(*port), *port));
        let turn = turn.checked_rem(cables.len())?;
        cables.get(turn).copied()
    }
}

/// Service levels by pairs of switches: one bit for each dimension whose dateline is crossed.
fn levels(grid: &Grid, count: usize) -> Vec<u8> {
    let level = |from: u32, to: u32| {
        (0..DIMENSIONS).map(|dimension| u8::from(grid.crosses(from, to, dimension)) << dimension).sum()
    };
    (0..count as u32)
        .flat_map(|from| (0..count as u32).map(move |to| (from, to)))
        .map(|(from, to)| level(from, to))
        .collect()
}

/// VLs by switch and ports.
fn maps(request: &Request<'_>, net: &Net, grid: &Grid, lanes: u8) -> Vec<Vec<[u8; 16]>> {
    let of_switch = |switch: usize| {
        let ports = request.graph.switches[switch].ports.len();
        let mut dimension_of = vec![None; ports];
        for way in &net.channels[net.of(switch)] {
            let (a, b) = (grid.places[switch], grid.places[way.to as usize]);
            dimension_of[usize::from(way.port)] = (0..DIMENSIONS).find(|dimension| a[*dimension] != b[*dimension]);
        }
        let mut map = vec![[0; 16]; ports * ports];
        for (at, map) in map.iter_mut().enumerate() {
            let (into, out) = (dimension_of[at / ports], dimension_of[at % ports]);
            *map = std::array::from_fn(|level| lane(into, out, level as u8) & (lanes - 1));
        }
        map
    };
    (0..net.switch_count()).map(of_switch).collect()
}

/// The VL of a packet by the dimensions of its ingress and egress ports.
fn lane(into: Option<usize>, out: Option<usize>, level: u8) -> u8 {
    let second = if level & SECOND_LEVEL != 0 { SECOND } else { 0 };
    let Some(out) = out else { return second };
    let dateline = if level >> out & 1 != 0 { DATELINE } else { 0 };
    let turn = if into.is_some_and(|into| into > out) { TURN } else { 0 };
    second | dateline | turn
}

#[cfg(test)]
mod tests;
