//! VLs and arbitration of every port: the options for its kind, limited to its capabilities; a routing engine that
//! needs particular VLs overrides them.

use weft_wire::mad::subn::{NodeType, PortInfo, VlArbitrationTable, VlWeight};

use super::lists::{DROP, SERVICE_LEVELS, arbitration, lanes};
use crate::options::{self, Options};
use crate::subnet::Node;
use crate::tables;

/// Entries in a block of an arbitration table.
const BLOCK: usize = 32;

/// Defaults: VL 0 has high priority, the other VLs share the rest equally, and service level 15 uses VL 7.
const HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
const LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
const SL2VL: &str = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7";
const MAX_VLS: u8 = 15;

/// Kind of a port: each may have VL settings of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A port of an adapter.
    Ca,
    /// Port 0 of an enhanced switch.
    Sw0,
    /// Another port of a switch.
    Swe,
    /// A port of a router.
    Rtr,
}

/// VL settings for ports of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KindSetup {
    /// Data VLs.
    pub max_vls: u8,
    /// Limit of High Priority.
    pub high_limit: u8,
    /// High-priority arbitration table.
    pub high: Vec<VlWeight>,
    /// Low-priority arbitration table.
    pub low: Vec<VlWeight>,
    /// VLs of service levels.
    pub sl2vl: [u8; SERVICE_LEVELS],
}

/// VL settings for ports of all kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    ca: KindSetup,
    sw0: KindSetup,
    swe: KindSetup,
    rtr: KindSetup,
}

/// Position of an SL2VL table in a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InSwitch {
    /// Index of the switch in the graph.
    pub switch: u32,
    /// Number of ports, port 0 included.
    pub ports: usize,
    /// Input port.
    pub port_in: u8,
    /// Output port.
    pub port_out: u8,
}

impl Kind {
    /// Returns the kind of a port; `None` for port 0 of a switch that is not enhanced, which has no VLs.
    pub fn of(node: &Node, port: u8) -> Option<Kind> {
        match node.info.node_type {
            NodeType::SWITCH if port > 0 => Some(Kind::Swe),
            NodeType::SWITCH => node.switch.as_ref()?.info.enhanced_port0.then_some(Kind::Sw0),
            NodeType::ROUTER => Some(Kind::Rtr),
            _ => Some(Kind::Ca),
        }
    }
}

impl Setup {
    /// Builds the setup from the options, whose mistakes the parser has already reported.
    pub fn new(options: &Options) -> Setup {
        let lanes = &options.lanes;
        let kind = |own| KindSetup::new(own, &lanes.all);
        Setup { ca: kind(&lanes.ca), sw0: kind(&lanes.sw0), swe: kind(&lanes.swe), rtr: kind(&lanes.rtr) }
    }

    /// Whether the manager has to configure VLs: if QoS is on, or an engine needs VLs.
    pub fn is_needed(options: &Options, lanes: &tables::Lanes) -> bool {
        options.qos.qos || *lanes != tables::Lanes::Any
    }

    /// Returns the settings for a kind of port.
    pub fn kind(&self, kind: Kind) -> &KindSetup {
        match kind {
            Kind::Ca => &self.ca,
            Kind::Sw0 => &self.sw0,
            Kind::Swe => &self.swe,
            Kind::Rtr => &self.rtr,
        }
    }

    /// Returns the blocks of a port's arbitration tables, each with its number: 1 and 2 low priority, 3 and 4 high
    /// priority. A port with one data VL has none.
    pub fn arbitration(&self, kind: Kind, info: &PortInfo) -> Vec<(u8, VlArbitrationTable)> {
        let setup = self.kind(kind);
        if info.vl_cap <= 1 {
            return Vec::new();
        }
        let count = setup.lanes(info);
        let low = blocks(&setup.low, info.vl_arbitration_low_cap, count);
        let high = blocks(&setup.high, info.vl_arbitration_high_cap, count);
        let numbered = (1u8..).zip(low).chain((3u8..).zip(high));
        numbered.collect()
    }

    /// Returns the VL of each service level: at an end port, or in a switch from an input port to an output port.
    /// `info` is the PortInfo of the end port or output port. The needs of an engine override the options.
    pub fn sl2vl(
        &self,
        kind: Kind,
        info: &PortInfo,
        lanes: &tables::Lanes,
        at: Option<InSwitch>,
    ) -> [u8; SERVICE_LEVELS] {
        let setup = self.kind(kind);
        let count = setup.lanes(info);
        let fitted = |vl: u8| if vl == DROP { DROP } else { vl % count };
        match (lanes, at) {
            (tables::Lanes::Identity { count: needed }, _) => {
                let needed = (*needed).clamp(1, lanes_of(info));
                std::array::from_fn(|sl| sl as u8 % needed)
            }
            (tables::Lanes::ByPorts { maps, .. }, Some(at)) => {
                let place = usize::from(at.port_in) * at.ports + usize::from(at.port_out);
                let map = maps.get(at.switch as usize).and_then(|maps| maps.get(place));
                let most = lanes_of(info);
                map.map_or(setup.sl2vl.map(fitted), |map| map.map(|vl| if vl == DROP { vl } else { vl % most }))
            }
            _ => setup.sl2vl.map(fitted),
        }
    }
}

impl KindSetup {
    fn new(own: &options::Lanes, all: &options::Lanes) -> KindSetup {
        fn text<'a>(own: &'a Option<String>, all: &'a Option<String>, usual: &'a str) -> &'a str {
            own.as_deref().or(all.as_deref()).unwrap_or(usual)
        }
        let max_vls = [own.max_vls, all.max_vls].into_iter().find(|count| *count > 0);
        let high_limit = [own.high_limit, all.high_limit].into_iter().find(|limit| *limit >= 0);
        KindSetup {
            max_vls: max_vls.and_then(|count| u8::try_from(count).ok()).map_or(MAX_VLS, |count| count.min(MAX_VLS)),
            high_limit: high_limit.and_then(|limit| u8::try_from(limit).ok()).unwrap_or(0),
            high: arbitration(text(&own.vlarb_high, &all.vlarb_high, HIGH)).values,
            low: arbitration(text(&own.vlarb_low, &all.vlarb_low, LOW)).values,
            sl2vl: lanes(text(&own.sl2vl, &all.sl2vl, SL2VL)).values,
        }
    }

    /// Returns the number of VLs that a port of this kind uses: at most the operational and the configured ones; a
    /// power of two or 15.
    fn lanes(&self, info: &PortInfo) -> u8 {
        let wanted = match self.max_vls {
            0 | 1 => 1,
            2 | 3 => 2,
            4..=7 => 4,
            8..=14 => 8,
            _ => MAX_VLS,
        };
        lanes_of(info).min(wanted)
    }
}

/// Returns the number of operational data VLs.
fn lanes_of(info: &PortInfo) -> u8 {
    match info.operational_vls {
        2 => 2,
        3 => 4,
        4 => 8,
        5.. => MAX_VLS,
        _ => 1,
    }
}

/// Cuts a table into as many blocks as the port has, and maps its VLs to those in use.
fn blocks(entries: &[VlWeight], cap: u8, lanes: u8) -> Vec<VlArbitrationTable> {
    let mut blocks = Vec::new();
    let cap = usize::from(cap).min(2 * BLOCK);
    for first in (0..cap).step_by(BLOCK) {
        let mut block = VlArbitrationTable::default();
        let own = entries.get(first..entries.len().min(cap)).unwrap_or(&[]);
        for (to, from) in block.entries.iter_mut().zip(own) {
            *to = VlWeight { vl: from.vl % lanes, weight: from.weight };
        }
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn setup(text: &str) -> Setup {
        Setup::new(&parse(text, "f", Options::default()).0)
    }

    fn info(operational_vls: u8) -> PortInfo {
        PortInfo {
            operational_vls,
            vl_cap: operational_vls,
            vl_arbitration_high_cap: 8,
            vl_arbitration_low_cap: 40,
            ..PortInfo::default()
        }
    }

    #[test]
    fn lanes_are_fitted_to_what_a_port_has() {
        let setup = setup("qos TRUE\nqos_ca_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nqos_sw0_max_vls 2\n");
        let any = tables::Lanes::Any;
        let map = |kind, vls| setup.sl2vl(kind, &info(vls), &any, None);
        assert_eq!(map(Kind::Ca, 3), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 15]);
        assert_eq!(map(Kind::Swe, 5), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7]);
        assert_eq!(map(Kind::Sw0, 4)[..4], [0, 1, 0, 1]);
        assert_eq!(map(Kind::Rtr, 1), [0; 16]);
    }

    #[test]
    fn arbitration_is_cut_into_the_blocks_of_a_port() {
        let low: Vec<String> = (0..40).map(|entry| format!("{}:{}", entry % 15, entry + 1)).collect();
        let setup = setup(&format!("qos_vlarb_low {}\nqos_high_limit 6\n", low.join(",")));
        assert_eq!(setup.kind(Kind::Ca).high_limit, 6);
        let blocks = setup.arbitration(Kind::Ca, &info(4));
        assert_eq!(blocks.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(blocks[0].1.entries[9], VlWeight { vl: 1, weight: 10 });
        assert_eq!((blocks[1].1.entries[7].weight, blocks[1].1.entries[8].weight), (40, 0));
        assert_eq!(blocks[2].1.entries[0], VlWeight { vl: 0, weight: 4 });
        assert!(setup.arbitration(Kind::Ca, &info(1)).is_empty());
    }

    #[test]
    fn what_an_engine_needs_goes_first() {
        let setup = setup("qos TRUE\nqos_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
        let identity = tables::Lanes::Identity { count: 3 };
        assert_eq!(setup.sl2vl(Kind::Swe, &info(4), &identity, None)[..5], [0, 1, 2, 0, 1]);
        let mut maps = vec![vec![[0; 16]; 9]];
        maps[0][2 * 3 + 1] = [1; 16];
        let lanes = tables::Lanes::ByPorts { count: 2, maps };
        let at = InSwitch { switch: 0, ports: 3, port_in: 2, port_out: 1 };
        assert_eq!(setup.sl2vl(Kind::Swe, &info(4), &lanes, Some(at)), [1; 16]);
        assert_eq!(setup.sl2vl(Kind::Ca, &info(4), &lanes, None), [0; 16]);
        assert!(Setup::is_needed(&Options::default(), &identity));
        assert!(!Setup::is_needed(&Options::default(), &tables::Lanes::Any));
    }
}
