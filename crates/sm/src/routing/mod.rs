//! Routing engines: pure functions from a graph to tables, one file each, one line in [`ENGINES`] each.

mod auto;
pub mod chain;
mod dfsssp;
mod dor;
mod dragonfly;
#[cfg(test)]
mod figures;
pub mod file;
mod ftree;
#[cfg(test)]
mod irregular;
mod kept;
mod lanes;
mod lash;
pub mod levels;
pub mod links;
#[cfg(test)]
mod matrix;
mod minhop;
mod moves;
mod net;
mod nue;
pub mod order;
mod patch;
mod polish;
pub mod quality;
#[cfg(test)]
mod record;
mod relief;
mod shift_loads;
mod shifts;
pub mod spread;
mod sssp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod torus;
mod trees;
mod updn;
pub mod ways;
pub mod work;

use crate::graph::Graph;
use crate::parallel::Parallel;
use crate::tables::Tables;

/// What the administrator says of routing; names as in opensm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingOptions {
    /// GUIDs of root switches, for `updn`, `dnup` and `ftree` (`root_guid_file`).
    pub root_guids: Vec<u64>,
    /// GUIDs of compute nodes, for `ftree` (`cn_guid_file`).
    pub cn_guids: Vec<u64>,
    /// GUIDs of I/O nodes, for `ftree` (`io_guid_file`).
    pub io_guids: Vec<u64>,
    /// How often a path to an I/O node may go the wrong way (`max_reverse_hops`).
    pub max_reverse_hops: u8,
    /// Roots reach each other too (`connect_roots`).
    pub connect_roots: bool,
    /// Ports in the order in which they are routed (`guid_routing_order_file`); others follow.
    pub guid_routing_order: Vec<u64>,
    /// Do not take the order of the file alone, for `guid_routing_order_no_scatter`.
    pub guid_routing_order_no_scatter: bool,
    /// Choose among equal ports at random, with this seed; 0: by load alone (`scatter_ports`).
    pub scatter_ports: u32,
    /// Shift the order of ports by switch (`port_shifting`).
    pub port_shifting: bool,
    /// Seek ports of remote switches first (`remote_guid_sorting`).
    pub remote_guid_sorting: bool,
    /// Data lanes that engines may use (`max_op_vls` as a number of lanes).
    pub lanes_max: u8,
    /// The first lane of `lash` (`lash_start_vl`).
    pub lash_start_vl: u8,
    /// `lash` does not need to be told (`do_mesh_analysis`).
    pub do_mesh_analysis: bool,
    /// Lanes of `nue`, 0: all (`nue_max_num_vls`).
    pub nue_max_num_vls: u8,
    /// `nue` counts switches as destinations too (`nue_include_switches`).
    pub nue_include_switches: bool,
    /// Dimensions of ports in `dor` and hop weights (`dimn_ports_file`): switch GUID, ports in order.
    pub dimn_ports: Vec<(u64, Vec<u8>)>,
    /// Text of `torus_config`.
    pub torus_config: String,
    /// Text of the tables that `file` loads (`lfts_file`).
    pub lfts_file: String,
}

impl Default for RoutingOptions {
    fn default() -> RoutingOptions {
        RoutingOptions {
            root_guids: Vec::new(),
            cn_guids: Vec::new(),
            io_guids: Vec::new(),
            max_reverse_hops: 0,
            connect_roots: false,
            guid_routing_order: Vec::new(),
            guid_routing_order_no_scatter: false,
            scatter_ports: 0,
            port_shifting: false,
            remote_guid_sorting: false,
            lanes_max: 8,
            lash_start_vl: 0,
            do_mesh_analysis: false,
            nue_max_num_vls: 1,
            nue_include_switches: false,
            dimn_ports: Vec::new(),
            torus_config: String::new(),
            lfts_file: String::new(),
        }
    }
}

/// What an engine is asked.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// What the administrator says.
    pub options: &'a RoutingOptions,
    /// Processors.
    pub parallel: &'a dyn Parallel,
    /// Tables of the same fabric before a change, of which as much as possible is to stay; graphs may differ.
    pub previous: Option<Previous<'a>>,
}

/// What was routed before.
#[derive(Clone, Copy)]
pub struct Previous<'a> {
    /// The fabric as it was.
    pub graph: &'a Graph,
    /// Its tables.
    pub tables: &'a Tables,
}

impl<'a> Request<'a> {
    /// A request that knows nothing of tables before.
    pub fn new(graph: &'a Graph, options: &'a RoutingOptions, parallel: &'a dyn Parallel) -> Request<'a> {
        Request { graph, options, parallel, previous: None }
    }
}

/// Why an engine has no tables for a fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{engine}: {why}")]
pub struct RouteError {
    /// The engine.
    pub engine: &'static str,
    /// What it misses, and what to do.
    pub why: String,
}

/// An engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Its name in `routing_engine`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Computes tables.
    pub run: fn(&Request<'_>) -> Result<Tables, RouteError>,
}

/// Every engine.
pub const ENGINES: &[Engine] = &[
    minhop::ENGINE, //
    dor::ENGINE,
    sssp::ENGINE,
    dfsssp::ENGINE,
    lash::ENGINE,
    dragonfly::ENGINE,
    torus::ENGINE,
    updn::UPDN,
    updn::DNUP,
    ftree::ENGINE,
    file::ENGINE,
    auto::ENGINE,
    nue::ENGINE,
];

/// The engine of this name.
pub fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}
