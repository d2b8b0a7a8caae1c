//! Width and speed of links: active and possible.

use super::{Fabric, Node, Port};
use crate::ib::format::Format;

/// Width of PortInfo's fields in bits.
const WIDTH_BITS: u16 = 8;
const SPEED_BITS: u16 = 4;
/// Width of a joined set of extended speeds in bits.
const EXTENDED_BITS: u16 = 8;
/// LinkSpeedActive of 10 Gb/s per lane.
const QDR: u8 = 4;

/// LinkWidthActive in ibnetdiscover's form.
pub fn short_width(width: u8) -> &'static str {
    match width {
        1 => "1x",
        2 => "4x",
        4 => "8x",
        8 => "12x",
        16 => "2x",
        _ => "??",
    }
}

/// The speed in ibnetdiscover's form: the generation, such as EDR.
pub fn short_speed(speed: u8, extended: u64, fdr10: bool) -> &'static str {
    match (extended, speed) {
        (1, _) => "FDR",
        (2, _) => "EDR",
        (4, _) => "HDR",
        (8, _) => "NDR",
        (32, _) => "XDR",
        (0, QDR) if fdr10 => "FDR10",
        (0, 1) => "SDR",
        (0, 2) => "DDR",
        (0, QDR) => "QDR",
        _ => "???",
    }
}

/// Width and speed of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// LinkWidthActive.
    pub width: u8,
    /// LinkSpeedActive.
    pub speed: u8,
    /// The active extended speed of both sets; 0 if the port has none.
    pub extended: u64,
    /// Mellanox's FDR10.
    pub fdr10: bool,
}

impl Rate {
    /// The active rate of `port` of `node`; unknown if a switch's port 0 did not answer.
    pub fn of(node: &Node, port: &Port) -> Rate {
        let fdr10 = port.fdr10_active();
        match node.extended_speeds_of(port) {
            None => Rate { width: 0, speed: 0, extended: 0, fdr10 },
            Some(speeds) => Rate {
                width: port.width_active(),
                speed: port.speed_active(),
                extended: speeds.active(&port.info.0),
                fdr10,
            },
        }
    }

    /// The speed in iblinkinfo's form: Gb/s per lane.
    pub fn speed_text(self) -> String {
        match self.extended {
            0 if self.fdr10 => "10.0 Gbps (FDR10)".to_owned(),
            0 => Format::LinkSpeed.text(self.speed.into(), SPEED_BITS),
            extended => Format::LinkSpeedExtJoined.text(extended, EXTENDED_BITS),
        }
    }

    /// The speed in ibnetdiscover's form.
    pub fn short_speed(self) -> &'static str {
        short_speed(self.speed, self.extended, self.fdr10)
    }

    /// The width in iblinkinfo's form.
    pub fn width_text(self) -> String {
        Format::LinkWidth.text(self.width.into(), WIDTH_BITS)
    }
}

/// Messages about a width and a speed that both ends of a cable support but do not use; empty if there is none.
pub fn could_be(fabric: &Fabric, node: &Node, port: &Port) -> (String, String) {
    let Some((remote_node, remote)) = fabric.remote(port) else { return Default::default() };
    let width = widest(port.width_supported() & remote.width_supported());
    let width = match port.width_active() & width {
        0 => format!("Could be {}", Format::LinkWidth.text(width.into(), WIDTH_BITS)),
        _ => String::new(),
    };
    (width, faster(node, port, remote_node, remote))
}

fn faster(node: &Node, port: &Port, remote_node: &Node, remote: &Port) -> String {
    let extended = |node: &Node, port: &Port| node.extended_speeds_of(port).unwrap_or_default();
    let here = extended(node, port);
    let speeds = [here.supported(&port.info.0), extended(remote_node, remote).supported(&remote.info.0)];
    if speeds[0] != 0 && speeds[1] != 0 {
        let best = highest(speeds[0] & speeds[1]);
        return match here.active(&port.info.0) & best {
            0 => format!("Could be {}", Format::LinkSpeedExtJoined.text(best, EXTENDED_BITS)),
            _ => String::new(),
        };
    }
    if port.fdr10_supported() && remote.fdr10_supported() {
        return match (port.fdr10_active(), port.speed_active()) {
            (true, _) => "",
            // FDR10 and QDR have the same speed and differ in their encoding.
            (false, QDR) => "Could be FDR10 (Found link at QDR but expected speed is FDR10)",
            (false, _) => "Could be FDR10",
        }
        .to_owned();
    }
    let best = highest((port.speed_supported() & remote.speed_supported()).into());
    match u64::from(port.speed_active()) & best {
        0 => format!("Could be {}", Format::LinkSpeed.text(best, SPEED_BITS)),
        _ => String::new(),
    }
}

/// The widest width of a set; 2X is the highest bit, but not the widest.
fn widest(set: u8) -> u8 {
    [8, 4, 2, 16].into_iter().find(|width| set & width != 0).unwrap_or(1)
}

/// The highest bit of a set.
fn highest(set: u64) -> u64 {
    1 << set.checked_ilog2().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::{Attribute, PortRef};
    use super::*;

    /// Two connected switches whose port 1 reports these values: widths supported and active, speeds supported and
    /// active, extended speeds supported and active as joined sets.
    fn pair(width: (u8, u8), speed: (u8, u8), extended: (u8, u8)) -> Fabric {
        let mut fabric = Fabric::default();
        for guid in 1..=2 {
            let mut info = Attribute::ZERO;
            (info.0[2], info.0[3]) = (2, 1);
            info.set_u64(12, guid);
            let mut node = Node::new(info);
            for num in 0..=1 {
                let mut port = Port::shell(num);
                port.info.0[20..24].copy_from_slice(&(1u32 << 14 | 1 << 15).to_be_bytes());
                port.info.0[60..62].copy_from_slice(&(1u16 << 11).to_be_bytes());
                port.info.0[56] = (extended.1 >> 5) << 5 | (extended.0 >> 5) << 3;
                (port.info.0[30], port.info.0[31]) = width;
                (port.info.0[32], port.info.0[35], port.info.0[62]) =
                    (speed.0 << 4, speed.1 << 4, (extended.1 & 15) << 4 | extended.0 & 15);
                *node.port_or_new(num).unwrap() = port;
            }
            fabric.add(node);
        }
        fabric.link(PortRef { node: 0, port: 1 }, PortRef { node: 1, port: 1 });
        fabric
    }

    #[test]
    fn what_a_link_lacks_is_told() {
        for (width, speed, extended, lacks) in [
            ((3, 2), (7, 4), (3, 2), ("", "")),
            ((15, 2), (7, 4), (7, 2), ("Could be 12X", "Could be 53.125 Gbps")),
            ((19, 16), (7, 4), (0, 0), ("Could be 4X", "")),
            ((1, 1), (7, 1), (0, 0), ("", "Could be 10.0 Gbps")),
            ((3, 2), (7, 4), (47, 32), ("", "")),
            ((3, 2), (7, 4), (47, 8), ("", "Could be 212.5 Gbps")),
        ] {
            let fabric = pair(width, speed, extended);
            let node = fabric.node(0);
            let (w, s) = could_be(&fabric, node, node.port(1).unwrap());
            assert_eq!((&*w, &*s), lacks, "{width:?} {speed:?} {extended:?}");
        }
    }

    #[test]
    fn speeds_have_the_names_of_their_generation() {
        assert_eq!(short_speed(4, 0, false), "QDR");
        assert_eq!(short_speed(4, 0, true), "FDR10");
        assert_eq!(short_speed(4, 2, true), "EDR");
        assert_eq!(short_speed(4, 32, false), "XDR");
        assert_eq!(short_speed(4, 16, false), "???");
        assert_eq!(short_speed(0, 0, false), "???");
    }
}
