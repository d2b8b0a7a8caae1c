//! Operations that read tables block by block.

use std::fmt::Write;

use serde_json::json;

use super::operation::Query;
use crate::ib::fields::subn::{node_info, port_info, switch_info};
use crate::ib::smp::{self, Data};

/// Number of P_Keys in a block.
const PKEYS_IN_BLOCK: u32 = 32;
/// Number of GUIDs in a block.
const GUIDS_IN_BLOCK: u32 = 8;
/// Number of VL arbitration entries in a block.
const ENTRIES_IN_BLOCK: usize = 32;

type Told = Result<(), &'static str>;

/// Integers of `len` bytes each.
fn words(data: &Data, len: usize) -> impl Iterator<Item = u64> {
    data.chunks(len).map(|word| word.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// P_KeyTable.
pub fn pkeys(query: &mut Query<'_>) -> Told {
    let number = query.number;
    let node = query.port.smp_get(&query.to, smp::NODE_INFO, 0).map_err(|_| "node info query failed")?;
    if u64::from(number) > node_info::NUM_PORTS.value(&node) {
        return Err("invalid port number");
    }
    let capacity = if node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH && number != 0 {
        let switch = query.port.smp_get(&query.to, smp::SWITCH_INFO, 0).map_err(|_| "switch info failed")?;
        switch_info::PART_ENFORCE_CAP.value(&switch)
    } else {
        node_info::PART_CAP.value(&node)
    } as u32;
    let mut all = Vec::new();
    for block in 0..capacity.div_ceil(PKEYS_IN_BLOCK) {
        let modifier = block | number << 16;
        let data = query.port.smp_get(&query.to, smp::PKEY_TABLE, modifier).map_err(|_| "pkey table query failed")?;
        let left = capacity - block * PKEYS_IN_BLOCK;
        let shown = left.next_multiple_of(8).min(PKEYS_IN_BLOCK) as usize;
        let keys: Vec<u64> = words(&data, 2).take(shown).collect();
        let mut text = String::new();
        for (row, eight) in keys.chunks(8).enumerate() {
            let _ = write!(text, "{:4}:", block as usize * PKEYS_IN_BLOCK as usize + row * 8);
            text += &eight.iter().map(|key| format!(" 0x{key:04x}")).collect::<String>();
            text += "\n";
        }
        query.print(&text);
        all.extend(keys.iter().take(left as usize).map(|key| format!("0x{key:04x}")));
    }
    query.print(&format!("{capacity} pkeys capacity for this port\n"));
    query.keep("port", number);
    query.keep("capacity", capacity);
    query.keep("pkeys", all);
    Ok(())
}

/// SLtoVLMappingTable; for a switch, one per ingress port.
pub fn sl2vl(query: &mut Query<'_>) -> Told {
    let number = query.number;
    let node = query.port.smp_get(&query.to, smp::NODE_INFO, 0).map_err(|_| "node info query failed")?;
    let ports = node_info::NUM_PORTS.value(&node) as u32;
    if number > ports {
        return Err("invalid port number");
    }
    let columns: String = (0..16).map(|sl| format!("{sl:2}|")).collect();
    query.print(&format!("# SL2VL table: {}\n#                 SL: |{columns}\n", query.to));
    let is_switch = node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH;
    let (ins, out) = if is_switch { (0..=ports, number) } else { (0..=0, 0) };
    let mut all = Vec::new();
    for in_port in ins {
        let modifier = in_port << 8 | out;
        let data = query.port.smp_get(&query.to, smp::SL2VL_TABLE, modifier).map_err(|_| "slvl query failed")?;
        let vls: Vec<u8> = data[..8].iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect();
        let columns: String = vls.iter().map(|vl| format!("{vl:2}|")).collect();
        query.print(&format!("ports: in {in_port:2}, out {out:2}: |{columns}\n"));
        all.push(json!({"in": in_port, "out": out, "vls": vls}));
    }
    query.keep("table", all);
    Ok(())
}

/// VLArbitrationTable, for both priorities.
pub fn vl_arbitration(query: &mut Query<'_>) -> Told {
    let number = query.number;
    query.keep("port", number);
    // Port 0 may be a switch's management port, which need not support arbitration.
    if number == 0 {
        let node = query.port.smp_get(&query.to, smp::NODE_INFO, 0).map_err(|_| "node info query failed")?;
        if node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH {
            let switch = query.port.smp_get(&query.to, smp::SWITCH_INFO, 0).map_err(|_| "switch info query failed")?;
            if switch_info::ENHANCED_PORT0.value(&switch) == 0 {
                query.print(&format!("# No VLArbitration tables (BSP0): {} port 0\n", query.to));
                return Ok(());
            }
        }
    }
    let info = query.port.smp_get(&query.to, smp::PORT_INFO, number).map_err(|_| "port info query failed")?;
    let low = port_info::VL_ARB_LOW_CAP.value(&info) as usize;
    let high = port_info::VL_ARB_HIGH_CAP.value(&info) as usize;
    let to = query.to;
    query.print(&format!("# VLArbitration tables: {to} port {number} LowCap {low} HighCap {high}\n"));
    for (name, first_block, capacity) in [("Low", 1, low), ("High", 3, high)] {
        if capacity > 0 {
            query.print(&format!("# {name} priority VL Arbitration Table:"));
            let entries = priority(query, first_block, capacity)?;
            query.keep(&name.to_ascii_lowercase(), entries);
        }
    }
    Ok(())
}

/// The entries of one priority, in up to two blocks.
fn priority(query: &mut Query<'_>, first_block: u32, capacity: usize) -> Result<Vec<serde_json::Value>, &'static str> {
    let mut all = Vec::new();
    let first = capacity.min(ENTRIES_IN_BLOCK);
    let second = capacity.saturating_sub(ENTRIES_IN_BLOCK).min(ENTRIES_IN_BLOCK);
    for (block, count) in [(first_block, first), (first_block + 1, second)].into_iter().filter(|(_, count)| *count > 0)
    {
        let modifier = block << 16 | query.number;
        let data = query.port.smp_get(&query.to, smp::VL_ARBITRATION, modifier).map_err(|_| "vl arb query failed")?;
        let entries: Vec<(u8, u8)> = data.chunks_exact(2).take(count).map(|e| (e[0] & 0xf, e[1])).collect();
        let vls: String = entries.iter().map(|(vl, _)| format!("0x{:<2}|", format!("{vl:X}"))).collect();
        let weights: String = entries.iter().map(|(_, weight)| format!("0x{:<2}|", format!("{weight:X}"))).collect();
        query.print(&format!("\nVL    : |{vls}\nWEIGHT: |{weights}\n"));
        all.extend(entries.iter().map(|(vl, weight)| json!({"vl": vl, "weight": weight})));
    }
    Ok(all)
}

/// GUIDInfo.
pub fn guids(query: &mut Query<'_>) -> Told {
    let info = query.port.smp_get(&query.to, smp::PORT_INFO, 0).map_err(|_| "port info failed")?;
    let capacity = port_info::GUID_CAP.value(&info) as u32;
    let mut all = Vec::new();
    for block in 0..capacity.div_ceil(GUIDS_IN_BLOCK) {
        let data = query.port.smp_get(&query.to, smp::GUID_INFO, block).map_err(|_| "guid info query failed")?;
        let left = capacity - block * GUIDS_IN_BLOCK;
        let shown = left.next_multiple_of(2).min(GUIDS_IN_BLOCK) as usize;
        let guids: Vec<u64> = words(&data, 8).take(shown).collect();
        let rows = guids.chunks(2).enumerate().map(|(row, two)| {
            let texts: String = two.iter().map(|guid| format!(" 0x{guid:016x}")).collect();
            format!("{:4}:{texts}\n", block as usize * GUIDS_IN_BLOCK as usize + row * 2)
        });
        query.print(&rows.collect::<String>());
        all.extend(guids.iter().take(left as usize).map(|guid| format!("0x{guid:016x}")));
    }
    query.print(&format!("{capacity} guids capacity for this port\n"));
    query.keep("capacity", capacity);
    query.keep("guids", all);
    Ok(())
}
