//! What a routing engine computes: which port leads to which LID, which service level a path takes, which lane a service
//! level is on.

use crate::graph::Graph;

/// Entry of a forwarding table that leads nowhere: packets are dropped (IBA 14.2.5.10).
pub const NO_PATH: u8 = 0xff;

/// Tables of a whole fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The engine that computed them.
    pub engine: &'static str,
    /// For each switch of the graph, by LID, the port that leads there; [`NO_PATH`] where none does. All have the length
    /// of the highest LID and one.
    pub lfts: Vec<Vec<u8>>,
    /// Service levels of paths.
    pub service_levels: ServiceLevels,
    /// Bits of service levels that the engine leaves to the administrator, a partition or a QoS policy.
    pub free_levels: u8,
    /// Lanes of service levels.
    pub lanes: Lanes,
}

/// Which service level a path has to take so that packets cannot block each other in a circle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServiceLevels {
    /// Any does: the administrator, a partition or a QoS policy chooses.
    #[default]
    Any,
    /// By the switch that the source hangs on and the one that the destination hangs on (or is): row by row.
    BySwitches(Vec<u8>),
    /// By the switch that the source hangs on and the destination LID: row by row, each of the highest LID and one.
    ByLid(Vec<u8>),
}

/// Which lane a packet of a service level is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// What the quality of service says; the engine does not mind.
    #[default]
    Any,
    /// Each service level has the lane of its number, of so many lanes.
    Identity {
        /// How many lanes the engine uses.
        count: u8,
    },
    /// By switch, port in and port out: `[switch][port_in * ports + port_out][sl]`, where `ports` counts port 0 too.
    ByPorts {
        /// How many lanes the engine uses.
        count: u8,
        /// The maps.
        maps: Vec<Vec<[u8; 16]>>,
    },
}

impl Tables {
    /// Tables that lead nowhere, of the right size.
    pub fn empty(engine: &'static str, graph: &Graph) -> Tables {
        let row = vec![NO_PATH; usize::from(graph.lid_top()) + 1];
        Tables { engine, lfts: vec![row; graph.switch_count()], ..Tables::default() }
    }

    /// The port that leads from a switch to a LID.
    pub fn port(&self, switch: u32, lid: u16) -> Option<u8> {
        let port = *self.lfts.get(switch as usize)?.get(usize::from(lid))?;
        (port != NO_PATH).then_some(port)
    }

    /// The service level that a path from what hangs on `source` to `lid`, which hangs on `destination`, has to take;
    /// `None` if any does.
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

    /// The lane of a packet that goes through a switch; `ports` is how many it has, port 0 among them.
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

    /// How many lanes the engine needs.
    pub fn lane_count(&self) -> u8 {
        match &self.lanes {
            Lanes::Any => 1,
            Lanes::Identity { count } | Lanes::ByPorts { count, .. } => *count,
        }
    }
}
