//! A routing engine: its name, its input and its errors.

use crate::graph::Graph;
use crate::parallel::Parallel;
use crate::tables::Tables;

/// Routing configuration; option names as in opensm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingOptions {
    /// GUIDs of root switches, for `updn`, `dnup` and `ftree` (`root_guid_file`).
    pub root_guids: Vec<u64>,
    /// GUIDs of compute nodes, for `ftree` (`cn_guid_file`).
    pub cn_guids: Vec<u64>,
    /// GUIDs of I/O nodes, for `ftree` (`io_guid_file`).
    pub io_guids: Vec<u64>,
    /// Number of hops in the wrong direction that a path to an I/O node may take (`max_reverse_hops`).
    pub max_reverse_hops: u8,
    /// Whether to connect root switches to each other (`connect_roots`).
    pub connect_roots: bool,
    /// Port GUIDs to route first, in order (`guid_routing_order_file`); other ports follow.
    pub guid_routing_order: Vec<u64>,
    /// Do not scatter the ports of `guid_routing_order` (`guid_routing_order_no_scatter`).
    pub guid_routing_order_no_scatter: bool,
    /// Seed of the random choice among equally loaded ports; 0: no random choice (`scatter_ports`).
    pub scatter_ports: u32,
    /// Shift the order of ports by switch (`port_shifting`).
    pub port_shifting: bool,
    /// Try ports in the order of the remote switches' GUIDs (`remote_guid_sorting`).
    pub remote_guid_sorting: bool,
    /// Data VLs that engines may use (`max_op_vls` as a number of VLs).
    pub lanes_max: u8,
    /// The first VL of `lash` (`lash_start_vl`).
    pub lash_start_vl: u8,
    /// Mesh analysis for `lash`, which does not need it (`do_mesh_analysis`).
    pub do_mesh_analysis: bool,
    /// Number of VLs for `nue`; 0: all (`nue_max_num_vls`).
    pub nue_max_num_vls: u8,
    /// Whether `nue` counts switches as destinations too (`nue_include_switches`).
    pub nue_include_switches: bool,
    /// Order of a switch's ports, which defines the dimensions of `dor` (`dimn_ports_file`): switch GUID, ports in
    /// order.
    pub dimn_ports: Vec<(u64, Vec<u8>)>,
    /// Content of the `torus_config` file.
    pub torus_config: String,
    /// Content of the `lfts_file` that the engine `file` loads.
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

/// Input for a routing engine.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// Routing configuration.
    pub options: &'a RoutingOptions,
    /// Executor for parallel work.
    pub parallel: &'a dyn Parallel,
    /// The same fabric's tables before a change, to be preserved as far as possible; the graphs may differ.
    pub previous: Option<Previous<'a>>,
}

/// A previous routing of the fabric.
#[derive(Clone, Copy)]
pub struct Previous<'a> {
    /// The previous graph.
    pub graph: &'a Graph,
    /// Its tables.
    pub tables: &'a Tables,
}

impl<'a> Request<'a> {
    /// Creates a request without previous tables.
    pub fn new(graph: &'a Graph, options: &'a RoutingOptions, parallel: &'a dyn Parallel) -> Request<'a> {
        Request { graph, options, parallel, previous: None }
    }
}

/// Error of an engine that cannot route a fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{engine}: {why}")]
pub struct RouteError {
    /// The engine.
    pub engine: &'static str,
    /// Reason and remedy.
    pub why: String,
}

/// A routing engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Its name in `routing_engine`.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Computes tables.
    pub run: fn(&Request<'_>) -> Result<Tables, RouteError>,
}
