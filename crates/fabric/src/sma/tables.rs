//! Block-wise tables: forwarding, partitions, lanes, GUIDs. A block beyond the table is an invalid modifier.

use super::ask::{Ask, UNSUPPORTED};
use crate::limits::{GUIDS, PKEYS, PKEYS_PORT0, VL_ARBITRATION_CAP};
use crate::node::Switch;
use crate::port::Port;
use crate::tables::{Mft, PKEY_BLOCK};
use crate::topology::NodeKind;
use crate::{Changes, Fabric};
use weft_wire::mad::Status;
use weft_wire::mad::subn::{
    GUID_BLOCK, GuidInfo, MulticastForwardingTable, PKeyTable, Smp, VlArbitrationTable, VlWeight,
};

const NO_BLOCK: Status = Status::INVALID_FIELD;

fn switch<'a>(fabric: &'a mut Fabric, ask: &Ask) -> Result<&'a mut Switch, Status> {
    fabric.nodes[ask.node as usize].switch.as_deref_mut().ok_or(UNSUPPORTED)
}

pub(super) fn lft(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    smp.data = switch(fabric, &ask)?.lft.block(ask.modifier).ok_or(NO_BLOCK)?;
    Ok(())
}

pub(super) fn set_lft(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let switch = switch(fabric, &ask)?;
    switch.lft.block(ask.modifier).ok_or(NO_BLOCK)?;
    if switch.lft.set_block(ask.modifier, &smp.data) {
        fabric.bump();
    }
    Ok(())
}

/// Returns block and position in a multicast table.
fn mft_place(modifier: u32) -> (usize, usize) {
    ((modifier & 0x0fff_ffff) as usize, (modifier >> 28) as usize)
}

pub(super) fn mft(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (block, position) = mft_place(ask.modifier);
    let switch = switch(fabric, &ask)?;
    let masks = switch.mft.block(block, position, switch.positions).ok_or(NO_BLOCK)?;
    smp.set_attribute(&MulticastForwardingTable { masks });
    Ok(())
}

pub(super) fn set_mft(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (block, position) = mft_place(ask.modifier);
    let asked: MulticastForwardingTable = smp.attribute().ok_or(NO_BLOCK)?;
    let mut masks: [u16; Mft::BLOCK] = asked.masks;
    let ports = fabric.nodes[ask.node as usize].ports;
    let switch = switch(fabric, &ask)?;
    let positions = switch.positions;
    switch.mft.block(block, position, positions).ok_or(NO_BLOCK)?;
    // Bits of nonexistent ports are dropped.
    let last = usize::from(ports) % Mft::POSITION;
    if position + 1 == positions && last + 1 < Mft::POSITION {
        masks.iter_mut().for_each(|mask| *mask &= (1 << (last + 1)) - 1);
    }
    if switch.mft.set_block(block, position, positions, &masks) {
        fabric.bump();
    }
    Ok(())
}

/// Returns the port, the block, and the number of entries of the port's table.
fn pkey_place(fabric: &Fabric, ask: &Ask) -> Result<(u32, usize, usize), Status> {
    let place = match ask.kind {
        NodeKind::Switch => fabric.named_port(ask, u8::try_from(ask.modifier >> 16).map_err(|_| NO_BLOCK)?)?,
        _ => ask.at,
    };
    let port0 = ask.kind == NodeKind::Switch && place == ask.agent;
    let cap = usize::from(if port0 { PKEYS_PORT0 } else { PKEYS });
    let block = (ask.modifier & 0xffff) as usize;
    if block * PKEY_BLOCK < cap { Ok((place, block, cap)) } else { Err(NO_BLOCK) }
}

pub(super) fn pkeys(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (place, block, _) = pkey_place(fabric, &ask)?;
    let mut table = PKeyTable::default();
    let keys = fabric.ports[place as usize].pkeys().iter().skip(block * PKEY_BLOCK);
    table.pkeys.iter_mut().zip(keys).for_each(|(to, from)| *to = *from);
    smp.set_attribute(&table);
    Ok(())
}

pub(super) fn set_pkeys(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (place, block, cap) = pkey_place(fabric, &ask)?;
    let asked: PKeyTable = smp.attribute().ok_or(NO_BLOCK)?;
    if fabric.ports[place as usize].tables().set_pkeys(block, &asked.pkeys, cap) {
        fabric.bump();
        fabric.tell(place, Changes::PKEYS);
    }
    Ok(())
}

pub(super) fn sl2vl(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let lanes = match ask.kind {
        NodeKind::Switch => {
            let ports = fabric.nodes[ask.node as usize].ports;
            let (from, to) = ((ask.modifier >> 8) as u8, ask.modifier as u8);
            if from > ports || to > ports {
                return Err(NO_BLOCK);
            }
            switch(fabric, &ask)?.sl2vl(ports, from, to)
        }
        _ => fabric.ports[ask.at as usize].lanes_of_service_levels(),
    };
    smp.data = [0; 64];
    smp.data[..8].copy_from_slice(&lanes.to_be_bytes());
    Ok(())
}

pub(super) fn set_sl2vl(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    /// Modifier bits that select every output and every input port.
    const ALL_OUT: u32 = 1 << 16;
    const ALL_IN: u32 = 1 << 17;
    let lanes = smp.data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let changed = match ask.kind {
        NodeKind::Switch => {
            let ports = fabric.nodes[ask.node as usize].ports;
            let range = |one: u8, all: u32| if ask.modifier & all != 0 { 0..=ports } else { one..=one };
            let (from, to) = ((ask.modifier >> 8) as u8, ask.modifier as u8);
            if from > ports || to > ports {
                return Err(NO_BLOCK);
            }
            let switch = switch(fabric, &ask)?;
            let mut changed = false;
            for from in range(from, ALL_IN) {
                for to in range(to, ALL_OUT) {
                    changed |= switch.set_sl2vl(ports, from, to, lanes);
                }
            }
            changed
        }
        _ => {
            let port = &mut fabric.ports[ask.at as usize];
            let changed = port.lanes_of_service_levels() != lanes;
            if changed {
                port.tables().sl2vl = Some(lanes);
                fabric.tell(ask.at, Changes::LINK);
            }
            changed
        }
    };
    if changed {
        fabric.bump();
    }
    Ok(())
}

/// Returns the port, and the index of its table. Only the lower half of each table exists.
fn arbitration_place(fabric: &Fabric, ask: &Ask) -> Result<(u32, usize), Status> {
    let place = match ask.kind {
        NodeKind::Switch => fabric.named_port(ask, ask.modifier as u8)?,
        _ => ask.at,
    };
    match ask.modifier >> 16 {
        1 => Ok((place, 0)),
        3 => Ok((place, 1)),
        _ => Err(NO_BLOCK),
    }
}

/// Returns both tables; before a manager writes them, they serve every lane in turn.
fn arbitration(port: &Port) -> [[(u8, u8); VL_ARBITRATION_CAP as usize]; 2] {
    let every = std::array::from_fn(|lane| (lane as u8, 1));
    port.tables.as_ref().and_then(|tables| tables.vl_arbitration).unwrap_or([every; 2])
}

pub(super) fn vl_arbitration(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (place, table) = arbitration_place(fabric, &ask)?;
    let mut answer = VlArbitrationTable::default();
    let entries = arbitration(&fabric.ports[place as usize])[table];
    answer.entries.iter_mut().zip(entries).for_each(|(to, (vl, weight))| *to = VlWeight { vl, weight });
    smp.set_attribute(&answer);
    Ok(())
}

pub(super) fn set_vl_arbitration(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let (place, table) = arbitration_place(fabric, &ask)?;
    let asked: VlArbitrationTable = smp.attribute().ok_or(NO_BLOCK)?;
    let port = &mut fabric.ports[place as usize];
    let before = arbitration(port);
    let mut tables = before;
    tables[table].iter_mut().zip(asked.entries).for_each(|(to, entry)| *to = (entry.vl, entry.weight));
    if tables == before {
        return Ok(());
    }
    port.tables().vl_arbitration = Some(tables);
    port.served = tables.iter().flatten().filter(|(_, weight)| *weight != 0).fold(0, |set, (vl, _)| set | 1 << vl);
    fabric.bump();
    Ok(())
}

pub(super) fn guids(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    guid_block(&ask)?;
    let port = &fabric.ports[ask.agent as usize];
    let entry = |index| match index {
        0 => port.guid,
        index => port.tables.as_ref().map_or(0, |tables| tables.guid(index)),
    };
    smp.set_attribute(&GuidInfo { guids: std::array::from_fn(entry) });
    Ok(())
}

/// Entry 0 is the port's own and read-only; a switch's port 0 has no other.
pub(super) fn set_guids(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    guid_block(&ask)?;
    let asked: GuidInfo = smp.attribute().ok_or(NO_BLOCK)?;
    if ask.kind == NodeKind::Switch {
        return Ok(());
    }
    let tables = fabric.ports[ask.agent as usize].tables();
    let mut changed = false;
    for (index, guid) in asked.guids.into_iter().enumerate().skip(1) {
        changed |= tables.set_guid(index, guid);
    }
    if changed {
        fabric.tell(ask.agent, Changes::GIDS);
    }
    Ok(())
}

fn guid_block(ask: &Ask) -> Result<(), Status> {
    const { assert!(GUIDS == GUID_BLOCK, "there is one block") };
    if ask.modifier == 0 { Ok(()) } else { Err(NO_BLOCK) }
}
