//! Routing: the engines, and the files that tell them of the fabric.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// Routing: the engines, and the files that tell them of the fabric.
    Routing at routing {
        /// Switches count as users of links too
        port_profile_switch_nodes: bool = false, Live,
            Effect::Nothing("loads are counted by the paths that really cross a link");
        /// File of ports whose load does not count: node GUID and port number a line
        port_prof_ignore_file: Option<String> = None, Restart,
            Effect::Nothing("loads are counted by the paths that really cross a link");
        /// File of weights of links: switch GUID, port number and weight a line
        hop_weights_file: Option<String> = None, Restart, Effect::Works;
        /// File of the order in which ports of a switch are tried: switch GUID and port numbers a line;
        /// for dor the order is that of dimensions
        port_search_ordering_file: Option<String> = None, Restart, Effect::Works;
        /// Engines in the order in which they are tried, with commas between; after no_fallback nothing else is.
        /// Engines: auto, minhop, updn, dnup, file, ftree, lash, dor, torus-2QoS, nue, dfsssp, sssp, dragonfly.
        /// With none the manager recognises the topology
        routing_engine: Option<String> = None, Restart, Effect::Works;
        /// Links between switches that are slower than they could be are avoided
        avoid_throttled_links: bool = false, Restart,
            Effect::Nothing("links count by what they carry");
        /// Root switches reach each other too
        connect_roots: bool = false, Live,
            Effect::Nothing("roots reach each other unless that closed a credit loop");
        /// Tables are kept while the topology does not change
        use_ucast_cache: bool = false, Restart,
            Effect::Nothing("tables are always kept while the topology does not change");
        /// File of hop counts to begin with
        lid_matrix_dump_file: Option<String> = None, Restart,
            Effect::Nothing("hop counts are always counted: reading them was slower");
        /// File of forwarding tables, for the engine file
        lfts_file: Option<String> = None, Restart, Effect::Works;
        /// File of root switches, a GUID a line, for updn, dnup and ftree
        root_guid_file: Option<String> = None, Restart, Effect::Works;
        /// File of compute nodes, a port GUID a line, for ftree, sssp and dfsssp
        cn_guid_file: Option<String> = None, Restart, Effect::Works;
        /// File of I/O nodes, a port GUID a line, for ftree, sssp and dfsssp;
        /// with this file alone all others are compute nodes
        io_guid_file: Option<String> = None, Restart, Effect::Works;
        /// ftree numbers switches from the roots, not from the leaves
        quasi_ftree_indexing: bool = false, Live,
            Effect::Nothing("trees are numbered by their cables");
        /// How often a path to an I/O node may take the wrong direction
        max_reverse_hops: u16 = 0, Restart, Effect::Works;
        /// File of numbers that updn takes for switches instead of GUIDs: GUID and number a line
        ids_guid_file: Option<String> = None, Restart,
            Effect::Nothing("up and down follow from the roots alone");
        /// File of port GUIDs in the order in which minhop and updn route them
        guid_routing_order_file: Option<String> = None, Restart, Effect::Works;
        /// lash prepares meshes, so that it needs fewer service levels
        do_mesh_analysis: bool = false, Live,
            Effect::Nothing("lash orders paths by itself");
        /// First lane of lash
        lash_start_vl: u8 = 0, Live, Effect::Works;
        /// Lanes that nue may use; 0: all
        nue_max_num_vls: u8 = 1, Live, Effect::Works;
        /// nue takes switches for sources and destinations of data too
        nue_include_switches: bool = false, Restart,
            Effect::Nothing("switches are destinations as all others");
        /// The order of ports is shifted from switch to switch
        port_shifting: bool = false, Live, Effect::Works;
        /// Seed of a random choice among ports that are as good; 0: in turn
        scatter_ports: u32 = 0, Live, Effect::Works;
        /// No random choice for ports of guid_routing_order_file
        guid_routing_order_no_scatter: bool = false, Restart,
            Effect::Nothing("the order of the file alone counts");
        /// File of the administrator's database to begin with
        sa_db_file: Option<String> = None, Restart, Effect::Works;
        /// The administrator's database is written after every light sweep
        sa_db_dump: bool = false, Live, Effect::Works;
        /// File of torus-2QoS
        torus_config: Option<String> = own("torus-2QoS.conf"), Live, Effect::Works;
    }
}

/// Engines that can be named, besides those of [`crate::routing::ENGINES`].
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
    /// The engines by name, in the order in which they are tried, and whether nothing else is.
    pub fn engines(&self) -> (Vec<&str>, bool) {
        let names =
            self.routing_engine.as_deref().unwrap_or("").split([',', ' ', '\t']).filter(|name| !name.is_empty());
        let (marks, engines): (Vec<&str>, Vec<&str>) = names.partition(|name| *name == "no_fallback");
        (engines, !marks.is_empty())
    }

    /// The first name that is no engine's.
    pub(in crate::options) fn unknown_engine(&self) -> Option<&str> {
        let known = |name: &str| NAMES.contains(&name) || crate::routing::engine(name).is_some();
        self.engines().0.into_iter().find(|name| !known(name))
    }
}
