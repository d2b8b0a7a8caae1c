//! Routing: the engines, and the files that describe the fabric to them.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// Routing: the engines, and the files that describe the fabric to them.
    Routing at routing {
        /// Count switches as users of links too
        port_profile_switch_nodes: bool = false, Live,
            Effect::Nothing("loads are counted by the paths that really cross a link");
        /// File of ports whose load does not count: a node GUID and a port number per line
        port_prof_ignore_file: Option<String> = None, Restart,
            Effect::Nothing("loads are counted by the paths that really cross a link");
        /// File of link weights: a switch GUID, a port number and a weight per line
        hop_weights_file: Option<String> = None, Restart, Effect::Works;
        /// File of the order in which to try the ports of a switch: a switch GUID and port numbers per line;
        /// for dor, the order of dimensions
        port_search_ordering_file: Option<String> = None, Restart, Effect::Works;
        /// Engines in the order to try them, separated by commas; after no_fallback, no other engine is tried.
        /// Engines: auto, minhop, updn, dnup, file, ftree, lash, dor, torus-2QoS, nue, dfsssp, sssp, dragonfly.
        /// Without any, the SM recognizes the topology
        routing_engine: Option<String> = None, Restart, Effect::Works;
        /// Avoid links between switches that run below their full speed
        avoid_throttled_links: bool = false, Restart,
            Effect::Nothing("links are weighted by their capacity");
        /// Connect root switches to each other too
        connect_roots: bool = false, Live,
            Effect::Nothing("roots reach each other unless that would close a credit loop");
        /// Keep forwarding tables while the topology does not change
        use_ucast_cache: bool = false, Restart,
            Effect::Nothing("tables are always kept while the topology does not change");
        /// File of initial hop counts
        lid_matrix_dump_file: Option<String> = None, Restart,
            Effect::Nothing("hop counts are always computed: reading them is slower");
        /// File of forwarding tables, for the engine named file
        lfts_file: Option<String> = None, Restart, Effect::Works;
        /// File of root switches, a GUID per line, for updn, dnup and ftree
        root_guid_file: Option<String> = None, Restart, Effect::Works;
        /// File of compute nodes, a port GUID per line, for ftree, sssp and dfsssp
        cn_guid_file: Option<String> = None, Restart, Effect::Works;
        /// File of I/O nodes, a port GUID per line, for ftree, sssp and dfsssp;
        /// with this file alone, all other nodes are compute nodes
        io_guid_file: Option<String> = None, Restart, Effect::Works;
        /// Number switches from the roots instead of the leaves (ftree)
        quasi_ftree_indexing: bool = false, Live,
            Effect::Nothing("trees are numbered by their cables");
        /// Times a path to an I/O node may go in the wrong direction
        max_reverse_hops: u16 = 0, Restart, Effect::Works;
        /// File of numbers that updn uses for switches instead of GUIDs: a GUID and a number per line
        ids_guid_file: Option<String> = None, Restart,
            Effect::Nothing("up and down follow from the roots alone");
        /// File of port GUIDs in the order in which minhop and updn route to them
        guid_routing_order_file: Option<String> = None, Restart, Effect::Works;
        /// Prepare meshes so that lash needs fewer service levels
        do_mesh_analysis: bool = false, Live,
            Effect::Nothing("lash orders paths by itself");
        /// First VL that lash uses
        lash_start_vl: u8 = 0, Live, Effect::Works;
        /// VLs that nue may use; 0: all
        nue_max_num_vls: u8 = 1, Live, Effect::Works;
        /// Let nue treat switches as sources and destinations of data too
        nue_include_switches: bool = false, Restart,
            Effect::Nothing("switches are destinations like all others");
        /// Shift the order of ports from switch to switch
        port_shifting: bool = false, Live, Effect::Works;
        /// Seed of the random choice among equally good ports; 0: round robin
        scatter_ports: u32 = 0, Live, Effect::Works;
        /// Choose no random port for the ports of guid_routing_order_file
        guid_routing_order_no_scatter: bool = false, Restart,
            Effect::Nothing("the order of the file alone counts");
        /// File of the SA database to load at start
        sa_db_file: Option<String> = None, Restart, Effect::Works;
        /// Write the SA database after every light sweep
        sa_db_dump: bool = false, Live, Effect::Works;
        /// Configuration file of torus-2QoS
        torus_config: Option<String> = own("torus-2QoS.conf"), Live, Effect::Works;
    }
}

/// Engine names accepted besides those of [`crate::routing::ENGINES`].
const NAMES: &[&str] = &[
    "auto",
    "minhop",
    "updn",
    "dnup",
    "file",
    "ftree",
    "lash",
    "dor",
    "torus-2QoS",
    "nue",
    "dfsssp",
    "sssp",
    "dragonfly",
];

impl Routing {
    /// Returns the names of the engines, in the order to try them, and whether no other engine may be tried.
    pub fn engines(&self) -> (Vec<&str>, bool) {
        let names =
            self.routing_engine.as_deref().unwrap_or("").split([',', ' ', '\t']).filter(|name| !name.is_empty());
        let (marks, engines): (Vec<&str>, Vec<&str>) = names.partition(|name| *name == "no_fallback");
        (engines, !marks.is_empty())
    }

    /// Returns the first name that belongs to no engine.
    pub(in crate::options) fn unknown_engine(&self) -> Option<&str> {
        let known = |name: &str| NAMES.contains(&name) || crate::routing::engine(name).is_some();
        self.engines().0.into_iter().find(|name| !known(name))
    }
}
