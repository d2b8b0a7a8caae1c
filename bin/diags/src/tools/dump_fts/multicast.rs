//! Multicast forwarding tables: the egress ports of each group.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Dump;
use crate::ib::report::warn;
use crate::ib::smp::{DATA_LEN, MULTICAST_FORWARDING};
use crate::ibnet::Node;

/// The first LID of multicast groups.
const MLID_MIN: u32 = 0xc000;
const MLID_MAX: u32 = 0xfffe;
/// Number of groups in a block.
const GROUPS: u32 = DATA_LEN as u32 / 2;
/// Number of ports in a block, one bit each.
const PORTS: usize = 16;

impl Dump<'_> {
    /// The table of a switch, as text and as JSON.
    pub(super) fn multicast(&mut self, node: &Node) -> (String, Value) {
        let (first, last) = self.groups(node);
        let mut text = format!("Multicast mlids {}", self.of_switch(node, first, last));
        text += &self.head(node);
        if self.verbose {
            let (cap, top) = (node.multicast_cap(), node.multicast_top());
            let _ = writeln!(text, "Switch multicast mlid capability is {cap} top is 0x{top:x}");
        }
        let chunks = (usize::from(node.num_ports) + 1).div_ceil(PORTS);
        let mut table = vec![[0u8; DATA_LEN]; chunks];
        let (mut groups, mut dumped) = (Vec::new(), 0);
        for block in first / GROUPS..=last / GROUPS {
            for (chunk, data) in table.iter_mut().enumerate() {
                let modifier = (block - MLID_MIN / GROUPS) | (chunk as u32) << 28;
                // An unreadable block shows the previous block's contents.
                *data = self.block(node, MULTICAST_FORWARDING, modifier).unwrap_or(*data);
            }
            for mlid in (block * GROUPS).max(first)..=(block * GROUPS + GROUPS - 1).min(last) {
                let masks: Vec<u16> = table.iter().map(|data| mask(data, mlid)).collect();
                if self.all || masks.iter().any(|&mask| mask != 0) {
                    let _ = writeln!(text, "0x{mlid:04x}      {}", self.row(node, &masks));
                    dumped += 1;
                    if self.json {
                        groups.push(json!({"mlid": format!("0x{mlid:04x}"), "ports": ports(node, &masks)}));
                    }
                }
            }
        }
        let valid = if self.all { "" } else { "valid " };
        let _ = writeln!(text, "{dumped} {valid}mlids dumped ");
        let guid = crate::ibnet::json::guid(node.guid);
        (text, json!({"guid": guid, "name": node.called(self.names), "lid": node.sma_lid, "groups": groups}))
    }

    fn groups(&self, node: &Node) -> (u32, u32) {
        let (mut first, mut last) = self.range;
        let end = (MLID_MIN + u32::from(node.multicast_cap())).saturating_sub(1);
        if last == 0 || last > end {
            last = end;
        }
        let top = u32::from(node.multicast_top());
        if !self.all && top != 0 && top < last {
            if top < MLID_MIN - 1 {
                warn("dump_multicast_tables", &format!("illegal top mlid {top:x}"));
            } else {
                last = top;
            }
        }
        if first == 0 {
            first = MLID_MIN;
        } else if first < MLID_MIN {
            warn("dump_multicast_tables", &format!("illegal start mlid {first:x}, set to {MLID_MIN:x}"));
            first = MLID_MIN;
        }
        if last > MLID_MAX {
            warn("dump_multicast_tables", &format!("illegal end mlid {last:x}, truncate to {MLID_MAX:x}"));
            last = MLID_MAX;
        }
        (first, last)
    }

    fn head(&self, node: &Node) -> String {
        if self.brief {
            return " MLid       Port Mask\n".to_owned();
        }
        let digits =
            |digit: fn(u8) -> char| -> String { (0..=node.num_ports).flat_map(|port| [digit(port), ' ']).collect() };
        let mut head = String::new();
        if node.num_ports > 9 {
            let tens = digits(|port| if port % 10 == 0 { char::from(b'0' + port / 10) } else { ' ' });
            let _ = writeln!(head, "            {tens}");
        }
        let ones = digits(|port| char::from(b'0' + port % 10));
        let _ = write!(head, "     Ports: {ones}\n MLid\n");
        head
    }

    fn row(&self, node: &Node, masks: &[u16]) -> String {
        if self.brief {
            return masks.iter().map(|mask| format!("{mask:04x}")).collect();
        }
        let cross = |port: u8| if has(masks, port) { "x " } else { "  " };
        (0..=node.num_ports).map(cross).collect()
    }
}

fn mask(data: &[u8; DATA_LEN], mlid: u32) -> u16 {
    let at = (mlid % GROUPS) as usize * 2;
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn has(masks: &[u16], port: u8) -> bool {
    let (chunk, bit) = (usize::from(port) / PORTS, usize::from(port) % PORTS);
    masks.get(chunk).is_some_and(|mask| mask >> bit & 1 != 0)
}

fn ports(node: &Node, masks: &[u16]) -> Vec<u8> {
    (0..=node.num_ports).filter(|&port| has(masks, port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_its_bit_in_its_block() {
        let mut data = [0; DATA_LEN];
        data[2..4].copy_from_slice(&0x8001u16.to_be_bytes());
        let masks = [0, mask(&data, 0xc001)];
        assert!(has(&masks, 16) && has(&masks, 31) && !has(&masks, 17) && !has(&masks, 0) && !has(&masks, 40));
    }
}
