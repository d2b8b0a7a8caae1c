//! Mellanox's IS4 chassis. A board states its place in its NodeDescription, `MF0;SYSTEM:TYPE/SLOT[:BOARD]/UCHIP`, where
//! a slot is `L` or `S` and a number.

use super::enclosure::{LINES_MAX, SPINES_MAX, set_external};
use crate::ibnet::{Node, Slot};

/// Device ID of the only chip in these chassis.
const IS4: u16 = 0xbd36;
/// Number of external ports of a line board; they are its first ports.
const LINE_EXTERNAL_PORTS: u8 = 18;
/// Maximum length of a chassis type in bytes; the rest is cut off.
const MODEL_MAX: usize = 19;

/// Sets the place of a switch that is a board of an IS4 chassis.
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

/// C's atoi, truncated to a byte.
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
