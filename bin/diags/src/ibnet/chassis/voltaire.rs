//! Voltaire's chassis. A chip's place follows from its device ID and from the port number at the other end of its wire
//! across the midplane.

use super::enclosure::{Chassis, LINES_MAX, SPINES_MAX, VOLTAIRE, set_external};
use crate::ibnet::{Fabric, Kind, Node, PortRef, Slot};

/// Spine boards, which switch between line boards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spine {
    Sfb4,
    Sfb12,
    Sfb2004,
    Sfb2012,
    Sfb4700,
    Sfb4700x2,
    Sfb4200,
}

impl Spine {
    fn of(node: &Node) -> Option<Spine> {
        Some(match node.device_id() {
            0x5a0b | 0x5a33 => Spine::Sfb4,
            0x5a08 | 0x5a32 => Spine::Sfb12,
            0x5a40 => Spine::Sfb2004,
            0x5a37 => Spine::Sfb2012,
            0x5a5c => Spine::Sfb4700,
            0x5a5d => Spine::Sfb4700x2,
            0x5a60 => Spine::Sfb4200,
            _ => return None,
        })
    }

    fn model(self) -> &'static str {
        match self {
            Spine::Sfb4 => "ISR9096",
            Spine::Sfb12 => "ISR9288",
            Spine::Sfb2004 => "ISR2004",
            Spine::Sfb2012 => "ISR2012",
            Spine::Sfb4700 | Spine::Sfb4700x2 => "ISR4700",
            Spine::Sfb4200 => "ISR4200",
        }
    }

    /// Slot and chip of the line board wired to this board's port `p`.
    fn line_behind(self, p: u8) -> (u8, u8) {
        let q = p.wrapping_sub(1);
        match self {
            Spine::Sfb4 | Spine::Sfb2004 if (1..=24).contains(&p) => (q / 6 + 1, q / 3 % 2 + 1),
            Spine::Sfb12 | Spine::Sfb2012 if (1..=24).contains(&p) => (q / 2 + 1, q % 2 + 1),
            Spine::Sfb4700 if (1..=36).contains(&p) => (q / 2 + 1, 1),
            Spine::Sfb4700x2 if (1..=18).contains(&p) => (p, 1),
            Spine::Sfb4200 if (1..=36).contains(&p) => (q / 4 + 1, 1),
            _ => (0, 0),
        }
    }

    /// Slot and chip of this board, wired to a line board's port `p`.
    fn behind_line(self, p: u8) -> (u8, u8) {
        let q = p.wrapping_sub(1);
        match self {
            Spine::Sfb12 | Spine::Sfb2012 if (1..=12).contains(&p) => (q / 3 + 1, q % 3 + 1),
            Spine::Sfb4 | Spine::Sfb2004 if (1..=12).contains(&p) => (q / 3 + 1, 1),
            Spine::Sfb4700 if (1..=18).contains(&p) => (q / 2 + 1, 1),
            Spine::Sfb4700x2 if (1..=18).contains(&p) => (q / 2 + 1, 2 - q % 2),
            Spine::Sfb4200 if (1..=4).contains(&p) => (1, 1),
            Spine::Sfb4200 if (5..=6).contains(&p) => (0, 1),
            Spine::Sfb4200 if (7..=18).contains(&p) => ((p - 7) / 4 + 2, 1),
            _ => (0, 0),
        }
    }

    /// Slot and chip of the router wired to port `p` of this board, whose GUID is `guid`.
    fn router_behind(self, p: u8, guid: u64) -> Option<(u8, u8)> {
        let (slot, _) = self.line_behind(p);
        match self {
            Spine::Sfb4 | Spine::Sfb2004 => Some((slot, if (1..=24).contains(&p) { 3 - (p - 1) % 3 } else { 0 })),
            // The modules of a board have consecutive GUIDs.
            Spine::Sfb12 | Spine::Sfb2012 => Some((slot, [2, 3, 2, 1][(guid % 4) as usize])),
            _ => None,
        }
    }

    /// This board's index among the chassis' spines.
    fn index(self, node: &Node) -> usize {
        let (slot, chip) = (usize::from(node.place.slot_num), usize::from(node.place.chip));
        match self {
            Spine::Sfb12 | Spine::Sfb2012 => (3 * slot).wrapping_sub(3).wrapping_add(chip),
            Spine::Sfb4700 | Spine::Sfb4700x2 => (2 * slot).wrapping_sub(2).wrapping_add(chip),
            _ => slot,
        }
    }
}

/// Line boards, which have the external ports of the chassis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Slb24,
    Slb8,
    Slb2024,
    Slb4018,
}

impl Line {
    fn of(node: &Node) -> Option<Line> {
        Some(match node.device_id() {
            0x5a09 | 0x5a34 | 0x5a42 => Line::Slb24,
            0x5a0d => Line::Slb8,
            0x5a38 => Line::Slb2024,
            0x5a5b => Line::Slb4018,
            _ => return None,
        })
    }

    /// The last port that leads to a spine.
    fn last_internal(self) -> u8 {
        if self == Line::Slb4018 { 18 } else { 12 }
    }

    /// The port number printed on the chassis for port `p` of a board's chip.
    fn external(self, chip: u8, p: u8) -> u8 {
        // The external ports of the second chip follow those of the first in each group.
        const SLB24: [u8; 12] = [6, 5, 4, 18, 17, 16, 1, 2, 3, 13, 14, 15];
        const SLB8: [u8; 4] = [2, 6, 1, 5];
        match self {
            Line::Slb4018 => p - 18,
            Line::Slb24 => SLB24[usize::from(p - 13)] + 6 * (chip - 1),
            Line::Slb8 => SLB8[usize::from((p - 13) / 3)] + 2 * (chip - 1),
            Line::Slb2024 if chip == 1 => p,
            Line::Slb2024 => p - 12,
        }
    }
}

fn is_router(node: &Node) -> bool {
    matches!(node.device_id(), 0x5a00 | 0x5a01)
}

/// Whether port `p` of a spine is an external port of the chassis.
fn leads_out(spine: Spine, p: u8) -> bool {
    spine == Spine::Sfb4700x2 && p > 18
}

/// A node's ports, each with the port at the other end of its wire.
fn wires(fabric: &Fabric, index: usize) -> Vec<(u8, PortRef)> {
    fabric.node(index).external_ports().filter_map(|p| Some((p.num, p.remote?))).collect()
}

/// Sets the places of a switch and of its neighbouring routers.
pub(super) fn place(fabric: &mut Fabric, index: usize) {
    if fabric.node(index).place.found {
        return;
    }
    fabric.node_mut(index).place.found = true;
    let node = fabric.node(index);
    if is_router(node) {
        for (_, remote) in wires(fabric, index) {
            place_router(fabric, index, remote);
        }
    } else if let Some(spine) = Spine::of(node) {
        place_spine(fabric, index, spine);
    } else if let Some(line) = Line::of(node) {
        let wires = wires(fabric, index);
        if let Some((_, remote)) = wires.into_iter().find(|(p, _)| *p <= line.last_internal()) {
            place_line(fabric, index, remote);
        }
    }
    map_ports(fabric.node_mut(index));
}

fn place_spine(fabric: &mut Fabric, index: usize, spine: Spine) {
    for (p, remote) in wires(fabric, index) {
        if leads_out(spine, p) {
            continue;
        }
        if !fabric.node(remote.node).is_switch() {
            if !fabric.node(remote.node).place.found {
                place_router(fabric, remote.node, PortRef { node: index, port: p });
            }
        } else if fabric.node(index).place.model.is_empty() {
            set_place(fabric.node_mut(index), Slot::Spine, spine, spine.behind_line(remote.port));
        }
    }
}

fn place_router(fabric: &mut Fabric, index: usize, spine_port: PortRef) {
    let board = fabric.node(spine_port.node);
    let Some(spine) = Spine::of(board) else { return };
    let at = spine.router_behind(spine_port.port, board.guid);
    let node = fabric.node_mut(index);
    node.place.found = true;
    node.place.slot = Slot::Router;
    match at {
        Some(at) => set_place(node, Slot::Router, spine, at),
        None => crate::errln!("unexpected node beside a router: GUID {:#018x}", fabric.node(spine_port.node).guid),
    }
}

fn place_line(fabric: &mut Fabric, index: usize, spine_port: PortRef) {
    match Spine::of(fabric.node(spine_port.node)) {
        Some(spine) => {
            set_place(fabric.node_mut(index), Slot::Line, spine, spine.line_behind(spine_port.port));
        }
        None => {
            fabric.node_mut(index).place.slot = Slot::Line;
            crate::errln!("unexpected node beside a line board: GUID {:#018x}", fabric.node(spine_port.node).guid);
        }
    }
}

fn set_place(node: &mut Node, slot: Slot, spine: Spine, (slot_num, chip): (u8, u8)) {
    spine.model().clone_into(&mut node.place.model);
    (node.place.slot, node.place.slot_num, node.place.chip) = (slot, slot_num, chip);
}

fn map_ports(node: &mut Node) {
    let (line, chip) = (Line::of(node), node.place.chip);
    let double_spine = Spine::of(node) == Some(Spine::Sfb4700x2);
    let known_chip = (1..=2).contains(&chip);
    for num in 1..=node.num_ports {
        let external = match line {
            _ if !known_chip => 0,
            Some(line @ Line::Slb4018) if (19..=36).contains(&num) => line.external(chip, num),
            Some(line) if line != Line::Slb4018 && (13..=24).contains(&num) => line.external(chip, num),
            // Three 4X ports form one 12X port.
            None if double_spine && (19..=36).contains(&num) => (num - 19) / 3 + if chip == 1 { 7 } else { 1 },
            _ => 0,
        };
        set_external(node.port_mut(num), external);
    }
}

/// Builds a chassis around each group of spine boards.
pub(super) fn build(fabric: &mut Fabric) -> Result<(), String> {
    let switches: Vec<usize> = fabric.nodes_of(Kind::SWITCH).map(|(index, _)| index).collect();
    let mut num = 0;
    for index in switches {
        let node = fabric.node(index);
        if node.vendor_id() != VOLTAIRE || !node.place.found || node.place.chassis.is_some() {
            continue;
        }
        if Spine::of(node).is_none() {
            continue;
        }
        num += 1;
        let at = fabric.chassis.len();
        fabric.chassis.push(Chassis { num, ..Chassis::new(0) });
        insert_spine(fabric, index, at)?;
        // Boards that are wired only to each other need a second round.
        for _ in 0..2 {
            lines_of_spines(fabric, at)?;
            spines_of_lines(fabric, at)?;
        }
        lines_of_spines(fabric, at)?;
        let first = fabric.chassis[at].spines.iter().flatten().next().copied();
        // The chassis manager's GUID is one below that of the first spine.
        fabric.chassis[at].guid = first.map_or(0, |first| fabric.node(first).guid.wrapping_sub(1));
    }
    Ok(())
}

fn lines_of_spines(fabric: &mut Fabric, at: usize) -> Result<(), String> {
    for index in fabric.chassis[at].spines.into_iter().flatten() {
        let Some(spine) = Spine::of(fabric.node(index)) else { continue };
        for (p, remote) in wires(fabric, index) {
            if !leads_out(spine, p) && fabric.node(remote.node).place.found {
                insert_line(fabric, remote.node, at)?;
            }
        }
    }
    Ok(())
}

fn spines_of_lines(fabric: &mut Fabric, at: usize) -> Result<(), String> {
    for index in fabric.chassis[at].lines.into_iter().flatten() {
        let Some(line) = Line::of(fabric.node(index)) else { continue };
        for (p, remote) in wires(fabric, index) {
            if p <= line.last_internal() && fabric.node(remote.node).place.found {
                insert_spine(fabric, remote.node, at)?;
            }
        }
    }
    Ok(())
}

fn insert_spine(fabric: &mut Fabric, index: usize, at: usize) -> Result<(), String> {
    let node = fabric.node(index);
    let num = Spine::of(node).map_or(usize::from(node.place.slot_num), |spine| spine.index(node));
    if !(1..=SPINES_MAX).contains(&num) {
        return Err(format!("{}: no such spine board as number {num}", node.name()));
    }
    if fabric.chassis[at].spines[num].is_none() {
        fabric.chassis[at].spines[num] = Some(index);
        fabric.node_mut(index).place.chassis = Some(at);
    }
    Ok(())
}

fn insert_line(fabric: &mut Fabric, index: usize, at: usize) -> Result<(), String> {
    let node = fabric.node(index);
    let (slot, chip) = (usize::from(node.place.slot_num), usize::from(node.place.chip));
    let four = Line::of(node) == Some(Line::Slb4018);
    let num = if four { slot } else { (3 * slot).wrapping_sub(3).wrapping_add(chip) };
    if !(1..=LINES_MAX).contains(&num) {
        return Err(format!("{}: no such line board as number {num}", node.name()));
    }
    if fabric.chassis[at].lines[num].is_none() {
        fabric.chassis[at].lines[num] = Some(index);
        fabric.node_mut(index).place.chassis = Some(at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibnet::Attribute;

    fn board(guid: u64, device: u16) -> Node {
        let mut info = Attribute::ZERO;
        info.0[2] = Kind::SWITCH.0;
        info.0[3] = 36;
        info.set_u64(12, guid);
        info.0[30..32].copy_from_slice(&device.to_be_bytes());
        info.0[36..40].copy_from_slice(&VOLTAIRE.to_be_bytes());
        let mut node = Node::new(info);
        for num in 1..=36 {
            node.port_or_new(num).unwrap();
        }
        node
    }

    #[test]
    fn a_line_and_a_spine_board_find_each_other() {
        let mut fabric = Fabric::default();
        let line = fabric.add(board(0x10, 0x5a5b));
        let spine = fabric.add(board(0x20, 0x5a5c));
        fabric.link(PortRef { node: line, port: 5 }, PortRef { node: spine, port: 8 });
        super::super::group(&mut fabric).unwrap();
        let place = &fabric.node(line).place;
        assert_eq!((place.slot, place.slot_num, place.chip), (Slot::Line, 4, 1));
        let place = &fabric.node(spine).place;
        assert_eq!((place.slot, place.slot_num, place.chip), (Slot::Spine, 3, 1));
        let chassis = &fabric.chassis[0];
        assert_eq!((chassis.num, chassis.guid), (1, 0x1f));
        assert_eq!((chassis.lines[4], chassis.spines[5]), (Some(line), Some(spine)));
        assert_eq!(fabric.node(line).port(19).unwrap().external, 1);
        assert_eq!(fabric.node(line).chassis_model(), Some("ISR4700"));
    }

    #[test]
    fn outside_ports_of_older_boards_are_mapped() {
        let ports = |line: Line, chip: u8| -> Vec<u8> { (13..=24).map(|p| line.external(chip, p)).collect() };
        assert_eq!(ports(Line::Slb24, 1), [6, 5, 4, 18, 17, 16, 1, 2, 3, 13, 14, 15]);
        assert_eq!(ports(Line::Slb24, 2), [12, 11, 10, 24, 23, 22, 7, 8, 9, 19, 20, 21]);
        assert_eq!(ports(Line::Slb8, 2), [4, 4, 4, 8, 8, 8, 3, 3, 3, 7, 7, 7]);
        assert_eq!(ports(Line::Slb2024, 2), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
