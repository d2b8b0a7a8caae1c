//! Groups nodes into chassis: by vendor-specific rules where there are any, else by a common SystemImageGUID.

mod enclosure;
mod mellanox;
mod voltaire;

pub use enclosure::Chassis;

use super::{Fabric, Node, Slot};
use enclosure::VOLTAIRE;

/// Mellanox's vendor ID.
const MELLANOX: u32 = 0x2c9;
/// Cisco's (Topspin's) vendor ID.
const TOPSPIN: u32 = 0x5ad;
/// InfiniCon's vendor ID.
const INFINICON: u32 = 0x66a;
/// Xsigo's vendor ID.
const XSIGO: u32 = 0x1397;

/// Whether a GUID belongs to Xsigo.
pub fn is_xsigo(guid: u64) -> bool {
    guid >> 40 == 0x00_1397
}

/// Whether a GUID belongs to an Xsigo HCA.
pub fn is_xsigo_hca(guid: u64) -> bool {
    guid >> 32 == 0x0013_9702
}

/// Whether a GUID belongs to an Xsigo TCA.
pub fn is_xsigo_tca(guid: u64) -> bool {
    guid >> 32 == 0x0013_9703
}

impl Node {
    /// The number of the node's chassis, if it is in one.
    pub fn chassis_num(&self, fabric: &Fabric) -> Option<u32> {
        let chassis = fabric.chassis.get(self.place.chassis?)?;
        (chassis.num != 0).then_some(chassis.num)
    }

    /// The chassis model, where vendor rules supply it.
    pub fn chassis_model(&self) -> Option<&str> {
        let known = self.place.chassis.is_some() && matches!(self.vendor_id(), VOLTAIRE | MELLANOX);
        (known && !self.place.model.is_empty()).then_some(&*self.place.model)
    }

    /// The node's slot in the chassis, where vendor rules supply it.
    pub fn chassis_slot(&self) -> Option<String> {
        let name = match self.place.slot {
            Slot::Unknown => return None,
            Slot::Line => "Line",
            Slot::Spine => "Spine",
            Slot::Router => "SRBD",
        };
        let known = self.place.chassis.is_some() && matches!(self.vendor_id(), VOLTAIRE | MELLANOX);
        known.then(|| format!("{name} {} Chip {}", self.place.slot_num, self.place.chip))
    }
}

/// Nodes in the order of a grouped topology file: chassis by chassis, then the other nodes by type.
pub fn in_order(fabric: &Fabric) -> Vec<usize> {
    let mut order = Vec::new();
    for chassis in fabric.chassis.iter().filter(|c| c.num != 0) {
        order.extend(chassis.spines.iter().chain(&chassis.lines).flatten());
        for kind in [super::Kind::SWITCH, super::Kind::CA] {
            order.extend(chassis.nodes.iter().filter(|&&index| fabric.node(index).kind == kind));
        }
    }
    for kind in [super::Kind::SWITCH, super::Kind::CA, super::Kind::ROUTER] {
        let others = fabric.nodes_of(kind).filter(|(_, node)| node.chassis_num(fabric).is_none());
        order.extend(others.map(|(index, _)| index));
    }
    order
}

/// Finds the chassis of `fabric` and assigns nodes to them.
///
/// # Errors
/// The contradiction to a vendor's rules.
pub fn group(fabric: &mut Fabric) -> Result<(), String> {
    fabric.chassis.clear();
    place_by_makers_rules(fabric);
    voltaire::build(fabric)?;
    count_by_guid(fabric);
    number_by_guid(fabric);
    Ok(())
}

fn place_by_makers_rules(fabric: &mut Fabric) {
    let switches: Vec<(usize, u32)> =
        fabric.nodes_of(super::Kind::SWITCH).map(|(index, node)| (index, node.vendor_id())).collect();
    for (index, vendor) in switches {
        match vendor {
            VOLTAIRE => voltaire::place(fabric, index),
            MELLANOX => mellanox::place(fabric.node_mut(index)),
            _ => {}
        }
    }
}

/// The GUID common to all nodes of one chassis.
fn chassis_guid(fabric: &Fabric, node: &Node) -> u64 {
    let system = node.system_guid();
    match node.vendor_id() {
        TOPSPIN | INFINICON => without_slot(system),
        XSIGO => xsigo_guid(fabric, node),
        _ if is_xsigo(system) => xsigo_guid(fabric, node),
        _ => system,
    }
}

/// Clears the slot, which is the fifth byte of these vendors' GUIDs.
fn without_slot(guid: u64) -> u64 {
    guid & 0xffff_ffff_00ff_ffff
}

fn xsigo_guid(fabric: &Fabric, node: &Node) -> u64 {
    let system = node.system_guid();
    if !is_xsigo_hca(system) && !is_xsigo_tca(system) {
        return if system >> 32 == 0x0013_9701 { without_slot(system) } else { system };
    }
    let Some(port) = node.port(1) else { return 0 };
    match fabric.remote(port).map(|(remote, _)| remote.system_guid()) {
        // The leaf in the first slot supplies the chassis' GUID.
        Some(leaf) if leaf >> 24 == 0x00_1397_0102 => without_slot(leaf),
        _ => system,
    }
}

/// Nodes that are grouped by SystemImageGUID instead of vendor rules.
fn by_guid(fabric: &Fabric) -> Vec<(usize, u64)> {
    let others = fabric.nodes().filter(|(_, node)| node.vendor_id() != VOLTAIRE && node.system_guid() != 0);
    others.map(|(index, node)| (index, chassis_guid(fabric, node))).collect()
}

fn count_by_guid(fabric: &mut Fabric) {
    // Nodes join a rule-based chassis by GUID only after the first GUID-based chassis exists.
    let mut joinable = false;
    for (_, guid) in by_guid(fabric) {
        match fabric.chassis.iter_mut().find(|c| joinable && c.guid == guid) {
            Some(chassis) => chassis.count += 1,
            None => {
                fabric.chassis.push(Chassis { count: 1, ..Chassis::new(guid) });
                joinable = true;
            }
        }
    }
}

fn number_by_guid(fabric: &mut Fabric) {
    let mut last = fabric.chassis.iter().map(|c| c.num).max().unwrap_or(0);
    for (index, guid) in by_guid(fabric) {
        let Some(at) = fabric.chassis.iter().position(|c| c.guid == guid) else { continue };
        let chassis = &mut fabric.chassis[at];
        if chassis.count < 2 {
            continue;
        }
        if chassis.num == 0 {
            last += 1;
            chassis.num = last;
        }
        if !fabric.node(index).place.found {
            fabric.chassis[at].nodes.insert(0, index);
            let place = &mut fabric.node_mut(index).place;
            (place.found, place.chassis) = (true, Some(at));
        } else if fabric.node(index).vendor_id() == MELLANOX {
            insert_board(fabric, index, at);
        }
    }
}

/// Puts a board into the chassis slot of its number, unless that slot is occupied.
fn insert_board(fabric: &mut Fabric, index: usize, at: usize) {
    let place = &fabric.node(index).place;
    let (num, slot) = (usize::from(place.slot_num), place.slot);
    let chassis = &mut fabric.chassis[at];
    let slot = match slot {
        Slot::Line => chassis.lines.get_mut(num),
        Slot::Spine => chassis.spines.get_mut(num),
        _ => None,
    };
    if let Some(slot @ None) = slot {
        *slot = Some(index);
        fabric.node_mut(index).place.chassis = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attribute, Kind};
    use super::*;

    fn node(guid: u64, system: u64, vendor: u32) -> Node {
        let mut info = Attribute::ZERO;
        info.0[2] = Kind::SWITCH.0;
        info.0[3] = 36;
        info.set_u64(4, system);
        info.set_u64(12, guid);
        info.0[36..40].copy_from_slice(&vendor.to_be_bytes());
        Node::new(info)
    }

    fn named(mut node: Node, name: &str) -> Node {
        node.info.0[30..32].copy_from_slice(&0xbd36u16.to_be_bytes());
        node.description.0[..name.len()].copy_from_slice(name.as_bytes());
        for num in 1..=36 {
            node.port_or_new(num).unwrap();
        }
        node
    }

    #[test]
    fn nodes_with_one_system_guid_stand_in_one_chassis() {
        let mut fabric = Fabric::default();
        for (guid, system) in [(1, 100), (2, 200), (3, 100)] {
            fabric.add(node(guid, system, 0x1234));
        }
        group(&mut fabric).unwrap();
        let numbers: Vec<_> = (0..3).map(|i| fabric.node(i).chassis_num(&fabric)).collect();
        assert_eq!(numbers, [Some(1), None, Some(1)]);
        assert_eq!(fabric.chassis[0].nodes, [0, 2]);
    }

    #[test]
    fn the_slot_is_no_part_of_ciscos_chassis() {
        let mut fabric = Fabric::default();
        fabric.add(node(1, 0x0005_ad00_0102_0304, 0x5ad));
        fabric.add(node(2, 0x0005_ad00_0502_0304, 0x5ad));
        group(&mut fabric).unwrap();
        assert_eq!(fabric.node(1).chassis_num(&fabric), Some(1));
    }

    #[test]
    fn mellanoxs_boards_are_named_in_their_description() {
        let mut fabric = Fabric::default();
        fabric.add(named(node(1, 7, MELLANOX), "MF0;sw1:MTS3600/L03/U1"));
        fabric.add(named(node(2, 7, MELLANOX), "MF0;sw1:MTS3600/S02:x/U1"));
        fabric.add(named(node(3, 7, MELLANOX), "some switch"));
        group(&mut fabric).unwrap();
        assert_eq!((fabric.chassis[0].lines[3], fabric.chassis[0].spines[2]), (Some(0), Some(1)));
        assert_eq!(fabric.chassis[0].nodes, [2]);
        let line = fabric.node(0);
        assert_eq!(line.chassis_model(), Some("MTS3600"));
        assert_eq!(line.chassis_slot().unwrap(), "Line 3 Chip 1");
        assert_eq!((line.port(18).unwrap().external, line.port(19).unwrap().external), (18, 0));
    }
}
