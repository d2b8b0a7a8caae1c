//! Directed routes (IBA 14.2.2): SMPs that list the output ports of their path and so reach nodes that have no LID yet.
//! A path has up to three parts: by LID to the start of the directed part, the directed part, by LID from its end. A
//! node that cannot forward an SMP drops it.

use crate::Fabric;
use crate::SendError;
use crate::packet::Packet;
use crate::topology::NodeKind;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{HOPS_MAX, Smp};

/// A node's action on an SMP of a directed route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Send it out of this port.
    Out(u8),
    /// Hand it to this node's agent.
    Agent,
    /// Hand it to the requester: it has returned.
    Home,
    /// Route it by this LID from here.
    Lid(u16),
    /// Drop it.
    Drop,
}

/// Applies the rules to an SMP that arrived at a node by port `number`: returns the action, and updates the SMP's
/// fields.
fn turn(smp: &mut Smp, number: u8, is_switch: bool) -> Turn {
    let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
    if count > HOPS_MAX {
        return Turn::Drop;
    }
    match smp.is_returning() {
        false if pointer < count => {
            if pointer != 0 {
                if !is_switch {
                    return Turn::Drop;
                }
                smp.return_path[usize::from(pointer)] = number;
            }
            smp.set_hop_pointer(pointer + 1);
            Turn::Out(smp.initial_path[usize::from(pointer) + 1])
        }
        false if pointer == count => {
            if count != 0 {
                smp.return_path[usize::from(pointer)] = number;
            }
            smp.set_hop_pointer(pointer + 1);
            match smp.dr_dlid() {
                LID_PERMISSIVE => Turn::Agent,
                lid if is_switch => Turn::Lid(lid),
                _ => Turn::Drop,
            }
        }
        false if pointer == count + 1 => Turn::Agent,
        false => Turn::Drop,
        true if pointer == 0 => Turn::Home,
        true if pointer == 1 => {
            smp.set_hop_pointer(0);
            match smp.dr_slid() {
                LID_PERMISSIVE => Turn::Home,
                lid if is_switch => Turn::Lid(lid),
                _ => Turn::Drop,
            }
        }
        true if pointer <= count + 1 => {
            // Adapters are only the ends of a path, never in the middle.
            if pointer <= count && !is_switch {
                return Turn::Drop;
            }
            smp.set_hop_pointer(pointer - 1);
            Turn::Out(smp.return_path[usize::from(pointer) - 1])
        }
        true => Turn::Drop,
    }
}

impl Fabric {
    /// Sends an SMP of a directed route for a host.
    pub(crate) fn originate_directed(&mut self, from: u32, packet: &mut Packet) -> Result<(), SendError> {
        let smp = Smp::ref_from_mad(&packet.mad);
        let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
        let (begins, lid) = match smp.is_returning() {
            false => (pointer == 0, smp.dr_slid()),
            true => (pointer == count.wrapping_add(1), smp.dr_dlid()),
        };
        if !begins || count > HOPS_MAX {
            return Err(SendError::BadRoute);
        }
        if lid != LID_PERMISSIVE {
            self.launch(from, packet);
            return Ok(());
        }
        packet.head.slid = LID_PERMISSIVE;
        packet.head.dlid = LID_PERMISSIVE;
        let number = self.ports[from as usize].number;
        let first = match smp.is_returning() {
            _ if count == 0 => number,
            false => smp.initial_path[1],
            true => smp.return_path[usize::from(count)],
        };
        if first != number {
            return Err(SendError::BadRoute);
        }
        self.directed(from, packet);
        Ok(())
    }

    /// Forwards an SMP of a directed route from a port, hop by hop, to its destination.
    pub(crate) fn directed(&mut self, mut at: u32, packet: &mut Packet) {
        loop {
            let port = &self.ports[at as usize];
            let (base, kind, count) = (port.base, port.kind, port.count);
            let number = port.number;
            match turn(Smp::mut_from_mad(&mut packet.mad), number, kind == NodeKind::Switch) {
                Turn::Out(out) if out == 0 || out > count || kind != NodeKind::Switch && out != number => return,
                Turn::Out(out) => {
                    packet.head.slid = LID_PERMISSIVE;
                    packet.head.dlid = LID_PERMISSIVE;
                    let out = base.wrapping_add(u32::from(out));
                    if let Err(failed) = self.leave(out, &packet.head) {
                        self.blame(failed, &packet.head);
                        return;
                    }
                    match self.cross(out, &packet.head, false) {
                        Ok((next, 0)) => at = next,
                        Ok((next, ns)) => return self.fly(next, packet, ns),
                        Err(_) => return,
                    }
                }
                Turn::Agent => return self.manage(at, packet),
                Turn::Home => return self.hand_up(at, packet),
                Turn::Lid(lid) => {
                    packet.head.slid = self.ports[base as usize].info.lid;
                    packet.head.dlid = lid;
                    return self.launch(base, packet);
                }
                Turn::Drop => return,
            }
        }
    }

    /// Sends back an agent's answer to an SMP of a directed route.
    pub(crate) fn return_directed(&mut self, at: u32, packet: &mut Packet) {
        if Smp::ref_from_mad(&packet.mad).dr_dlid() == LID_PERMISSIVE {
            self.directed(at, packet);
        } else {
            let own = self.agent_port(at);
            packet.turn(&self.ports[own as usize]);
            self.launch(own, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::{AttrId, Method};

    fn smp(path: &[u8], pointer: u8, returning: bool) -> Smp {
        let mut smp = Smp::directed(Method::GET, 1, AttrId::NODE_INFO, 0, 0, path).expect("at most 63 hops");
        smp.set_hop_pointer(pointer);
        smp.set_returning(returning);
        smp.return_path[1..4].copy_from_slice(&[7, 8, 9]);
        smp
    }

    /// Returns the actions of an adapter and of a switch on an SMP that arrived by port 5.
    fn both(path: &[u8], pointer: u8, returning: bool) -> (Turn, Turn) {
        (turn(&mut smp(path, pointer, returning), 5, false), turn(&mut smp(path, pointer, returning), 5, true))
    }

    #[test]
    fn every_pointer_on_the_way_out() {
        assert_eq!(both(&[1, 2, 3], 0, false), (Turn::Out(1), Turn::Out(1)));
        assert_eq!(both(&[1, 2, 3], 1, false), (Turn::Drop, Turn::Out(2)));
        assert_eq!(both(&[1, 2, 3], 2, false), (Turn::Drop, Turn::Out(3)));
        assert_eq!(both(&[1, 2, 3], 3, false), (Turn::Agent, Turn::Agent));
        assert_eq!(both(&[1, 2, 3], 4, false), (Turn::Agent, Turn::Agent));
        assert_eq!(both(&[1, 2, 3], 5, false), (Turn::Drop, Turn::Drop));
        assert_eq!(both(&[], 0, false), (Turn::Agent, Turn::Agent));
        assert_eq!(both(&[], 255, false), (Turn::Drop, Turn::Drop));
    }

    #[test]
    fn every_pointer_on_the_way_back() {
        assert_eq!(both(&[1, 2, 3], 4, true), (Turn::Out(9), Turn::Out(9)));
        assert_eq!(both(&[1, 2, 3], 3, true), (Turn::Drop, Turn::Out(8)));
        assert_eq!(both(&[1, 2, 3], 2, true), (Turn::Drop, Turn::Out(7)));
        assert_eq!(both(&[1, 2, 3], 1, true), (Turn::Home, Turn::Home));
        assert_eq!(both(&[1, 2, 3], 0, true), (Turn::Home, Turn::Home));
        assert_eq!(both(&[1, 2, 3], 5, true), (Turn::Drop, Turn::Drop));
        assert_eq!(both(&[], 1, true), (Turn::Home, Turn::Home));
        assert_eq!(both(&[], 2, true), (Turn::Drop, Turn::Drop));
    }

    #[test]
    fn the_way_back_is_written_on_the_way_out() {
        let mut out = smp(&[1, 2], 1, false);
        turn(&mut out, 5, true);
        assert_eq!((out.return_path[1], out.hop_pointer()), (5, 2));
        turn(&mut out, 6, true);
        assert_eq!((out.return_path[2], out.hop_pointer()), (6, 3));
    }

    #[test]
    fn parts_by_lid_begin_and_end_at_switches() {
        let mut out = smp(&[1], 1, false);
        out.set_dr_lids(4, 9);
        assert_eq!(turn(&mut out.clone(), 5, true), Turn::Lid(9));
        assert_eq!(turn(&mut out, 5, false), Turn::Drop);
        let mut back = smp(&[1], 1, true);
        back.set_dr_lids(4, 9);
        assert_eq!(turn(&mut back.clone(), 5, true), Turn::Lid(4));
        assert_eq!(turn(&mut back, 5, false), Turn::Drop);
    }

    #[test]
    fn more_than_63_hops_are_dropped() {
        let mut long = smp(&[1; 63], 62, false);
        assert_eq!(turn(&mut long, 5, true), Turn::Out(1));
        assert_eq!(turn(&mut long, 5, true), Turn::Agent);
        let mut longer = smp(&[1; 63], 0, false);
        longer.set_hop_count(64);
        assert_eq!(turn(&mut longer, 5, true), Turn::Drop);
    }
}
