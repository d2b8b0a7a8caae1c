//! Mellanox's IS4 chassis: a board says in its NodeDescription where it sits,
//! `MF0;SYSTEM:TYPE/SLOT[:BOARD]/UCHIP`, where a slot is `L` or `S` and a number.

use super::{LINES_MAX, SPINES_MAX, set_external};
use crate::ibnet::{Node, Slot};

/// The only chip that such chassis have.
const IS4: u16 = 0xbd36;
/// Ports of a line board that lead out of the chassis are the first ones.
const LINE_EXTERNAL_PORTS: u8 = 18;
/// Bytes of a type that are kept.
const MODEL_MAX: usize = 19;

/// Places a switch, if it is such a board.
pub(super) fn place(node: &mut Node) {
    if node.place.found || node.device_id() != IS4 {
        return;
    }
    let text = node.name();
    let Some((model, slot, chip)) = parse(&text) else { return };
    node.place.chip = chip;
    let (kind, max) = match slot.as_bytes().first() {
        Some(b'L') => (Slot::Line, LINES_MAX),
        Some(b'S') => (Slot::Spine, SPINES_MAX),
        _ => return,
    };
    node.place.slot = kind;
    node.place.found = true;
    let num = leading_number(&slot[1..]);
    if usize::from(num) > max + 1 {
        crate::errln!("{}: invalid slot number {num} in its description", node.name());
        return;
    }
    node.place.slot_num = num;
    node.place.model = model.chars().take(MODEL_MAX).collect();
    if kind == Slot::Line {
        for num in 1..=node.num_ports.min(LINE_EXTERNAL_PORTS) {
            set_external(node.port_mut(num), num);
        }
    }
}

/// Type, slot and chip.
fn parse(text: &str) -> Option<(&str, &str, u8)> {
    let (_system, rest) = text.strip_prefix("MF0;")?.split_once(':')?;
    let (model, rest) = rest.split_once('/')?;
    let (slot, chip) = rest.split_once('/')?;
    let slot = slot.split_once(':').map_or(slot, |(slot, _board)| slot);
    Some((model, slot, leading_number(chip.strip_prefix('U')?)))
}

/// What C's atoi makes of it, in a byte.
fn leading_number(text: &str) -> u8 {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold(0u8, |n, d| n.wrapping_mul(10).wrapping_add(d - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_as_the_switch_writes_them() {
        assert_eq!(parse("MF0;sw:IS5600/L07/U1"), Some(("IS5600", "L07", 1)));
        assert_eq!(parse("MF0;sw:IS5600/S02:board/U2"), Some(("IS5600", "S02", 2)));
        for wrong in ["", "MF0;", "MF0;sw", "MF0;sw:IS5600", "MF0;sw:IS5600/L07", "MF0;sw:IS5600/L07/1", "leaf"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
