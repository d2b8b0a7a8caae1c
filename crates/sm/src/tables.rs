//! Results of a routing engine: the port that leads to a LID, the service level of a path, the VL of a service level.

use crate::graph::Graph;

/// Entry of a forwarding table that leads nowhere: packets are dropped (IBA 14.2.5.10).
pub const NO_PATH: u8 = 0xff;

/// Tables of a whole fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The engine that computed them.
    pub engine: &'static str,
    /// For each switch of the graph, the port that leads to each LID, or [`NO_PATH`]. Each has an entry for every LID
    /// up to the highest.
    pub lfts: Vec<Vec<u8>>,
    /// Service levels of paths.
    pub service_levels: ServiceLevels,
    /// Bits of the SL value that the engine leaves for the SA, a partition or a QoS policy to choose.
    pub free_levels: u8,
    /// VLs of service levels.
    pub lanes: Lanes,
}

/// Service level that a path has to use so that packets cannot deadlock in a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServiceLevels {
    /// Any service level: the SA, a partition or a QoS policy chooses.
    #[default]
    Any,
    /// By the switch of the source and the switch of the destination, row by row. The switch of an end port is the one
    /// that it is attached to.
    BySwitches(Vec<u8>),
    /// By the switch that the source is attached to and the destination LID: row by row, each as long as the highest
    /// LID + 1.
    ByLid(Vec<u8>),
}

/// VL of a packet by its service level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// The QoS settings decide; the engine needs no particular VL.
    #[default]
    Any,
    /// Each service level uses the VL of its own number; the engine uses `count` VLs.
    Identity {
        /// How many VLs the engine uses.
        count: u8,
    },
    /// By switch, input port and output port: `[switch][port_in * ports + port_out][sl]`, where `ports` counts port 0
    /// too.
    ByPorts {
        /// How many VLs the engine uses.
        count: u8,
        /// The SL2VL tables.
        maps: Vec<Vec<[u8; 16]>>,
    },
}

impl Tables {
    /// Returns tables of the right size without any path.
    pub fn empty(engine: &'static str, graph: &Graph) -> Tables {
        let row = vec![NO_PATH; usize::from(graph.lid_top()) + 1];
        Tables { engine, lfts: vec![row; graph.switch_count()], ..Tables::default() }
    }

    /// Returns the port that leads from a switch to a LID.
    pub fn port(&self, switch: u32, lid: u16) -> Option<u8> {
        let port = *self.lfts.get(switch as usize)?.get(usize::from(lid))?;
        (port != NO_PATH).then_some(port)
    }

    /// Returns the service level of a path to `lid` from an end port of switch `source`; `lid` belongs to switch
    /// `destination` or is attached to it. `None` if any service level does.
    pub fn service_level(&self, source: u32, destination: u32, lid: u16) -> Option<u8> {
        match &self.service_levels {
            ServiceLevels::Any => None,
            ServiceLevels::BySwitches(levels) => {
                levels.get(source as usize * self.lfts.len() + destination as usize).copied()
            }
            ServiceLevels::ByLid(levels) => {
                let row = self.lfts.first().map_or(0, Vec::len);
                levels.get(source as usize * row + usize::from(lid)).copied()
            }
        }
    }

    /// Returns the VL of a packet that crosses a switch; `ports` is the switch's number of ports, port 0 included.
    pub fn lane(&self, switch: u32, ports: usize, port_in: u8, port_out: u8, sl: u8) -> u8 {
        match &self.lanes {
            Lanes::Any => 0,
            Lanes::Identity { .. } => sl,
            Lanes::ByPorts { maps, .. } => {
                let at = usize::from(port_in) * ports + usize::from(port_out);
                let map = maps.get(switch as usize).and_then(|maps| maps.get(at));
                map.and_then(|map| map.get(usize::from(sl))).copied().unwrap_or(0)
            }
        }
    }

    /// Returns how many VLs the engine needs.
    pub fn lane_count(&self) -> u8 {
        match &self.lanes {
            Lanes::Any => 1,
            Lanes::Identity { count } | Lanes::ByPorts { count, .. } => *count,
        }
    }
}
