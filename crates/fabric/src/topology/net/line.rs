//! Parser for one line of a net file.

use super::super::{Error, NodeKind, Result, Speed, Width, limits};

/// A line with contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `vendid=`, `devid=`, `sysimgguid=` and the like: the value applies to the next node, or to all that follow.
    Assign(Assign),
    /// The first line of a node's block.
    Node(NodeLine),
    /// A cabled port of that node.
    Port(PortLine),
    /// `include "FILE"`.
    Include(String),
}

/// An assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    VendorId(u32),
    DeviceId(u16),
    SystemImageGuid(u64),
    /// The next node's GUID, and for a switch its port's in parentheses.
    NodeGuid(NodeKind, u64),
    /// Default width and speed of the ports from here on.
    Width(Width),
    Speed(Option<Speed>),
    SpeedExt(Option<Speed>),
}

/// `Switch 8 "S-..." # "description" enhanced port 0 lid 0 lmc 0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    pub kind: NodeKind,
    pub ports: u8,
    pub id: String,
    pub description: Option<String>,
    pub enhanced_port0: Option<bool>,
}

/// `[1](guid) "S-..."[3](guid) # ... 4xEDR`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLine {
    pub port: u8,
    pub guid: Option<u64>,
    pub remote: String,
    pub remote_port: u8,
    pub remote_guid: Option<u64>,
    pub width: Option<Width>,
    pub speed: Option<Speed>,
}

/// Lines for human readers: headings of ibnetdiscover's grouped form, its progress report, ibsim's own options.
const HEADINGS: &[&str] = &["Chassis ", "Non-Chassis Nodes", "Hostname:", "DR path ", "pdebug"];

/// Parses a line. `None`: it is empty, a comment or a heading.
pub fn parse(number: u32, text: &str) -> Result<Option<Line>> {
    let line = text.trim_end();
    if line.is_empty() || line.starts_with('#') || HEADINGS.iter().any(|heading| line.starts_with(heading)) {
        return Ok(None);
    }
    match line.as_bytes()[0] {
        b'[' => port_line(number, line).map(|port| Some(Line::Port(port))),
        b'@' => bad(number, "an alias for a port", "aliases are not taken: name the node and its port on both ends"),
        _ => word_line(number, line).map(Some),
    }
}

fn bad<T>(number: u32, what: impl Into<String>, mend: impl Into<String>) -> Result<T> {
    Err(Error::at(number, what, mend))
}

/// Parses a line that begins with a word.
fn word_line(number: u32, line: &str) -> Result<Line> {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let kind = match word {
        "Switch" => Some(NodeKind::Switch),
        "Ca" | "Hca" => Some(NodeKind::Ca),
        "Rt" => Some(NodeKind::Router),
        _ => None,
    };
    match (kind, word) {
        (Some(kind), _) => node_line(number, kind, rest).map(Line::Node),
        (_, "include") => match rest.split('"').nth(1) {
            Some(file) if !file.is_empty() => Ok(Line::Include(file.to_owned())),
            _ => bad(number, "include without a file", "write include \"FILE\""),
        },
        (_, "do") => bad(
            number,
            format!("a command for ibsim's console: {:?}", rest.trim()),
            "remove the line; `weft cable` and `weft node` change a fabric that is up",
        ),
        (_, "module") => bad(number, "a module prefix", "prefixes are not taken: write whole names"),
        _ => assign(number, word, rest).map(Line::Assign),
    }
}

/// Parses `NAME=VALUE`.
fn assign(number: u32, name: &str, rest: &str) -> Result<Assign> {
    let unknown = || {
        bad(
            number,
            format!("{:?} is nothing that this format has", cut(&format!("{name}{rest}"))),
            "a line is an assignment (vendid= devid= sysimgguid= switchguid= caguid= rtguid= width= speed= extspeed=), \
             a node (Switch, Ca, Rt), a port ([1] \"ID\"[1]), a comment (#) or empty",
        )
    };
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        return unknown();
    };
    let value = value.split('#').next().unwrap_or_default().trim();
    let first = value.split(['(', ' ', '\t']).next().unwrap_or_default();
    let Some(n) = number_of(first) else {
        return bad(number, format!("{name}={:?} is no number", cut(value)), "write it as 0x2c9 or 713");
    };
    let too_large = || bad(number, format!("{name}={first} is too large"), "an ID has 24 bits (vendid) or 16 (devid)");
    match name {
        "vendid" if n >> 24 != 0 => too_large(),
        "vendid" => Ok(Assign::VendorId(n as u32)),
        "devid" => u16::try_from(n).map_or_else(|_| too_large(), |id| Ok(Assign::DeviceId(id))),
        "sysimgguid" => Ok(Assign::SystemImageGuid(n)),
        "switchguid" | "switchguids" => Ok(Assign::NodeGuid(NodeKind::Switch, n)),
        "caguid" | "caguids" | "hcaguid" | "hcaguids" => Ok(Assign::NodeGuid(NodeKind::Ca, n)),
        "rtguid" | "rtguids" => Ok(Assign::NodeGuid(NodeKind::Router, n)),
        "width" => width_of_mask(n).map(Assign::Width).map_or_else(|| bad_mask(number, name, first), Ok),
        "speed" => speed_of_mask(n).map_or_else(|| bad_mask(number, name, first), |s| Ok(Assign::Speed(s))),
        "extspeed" => speed_ext_of_mask(n).map_or_else(|| bad_mask(number, name, first), |s| Ok(Assign::SpeedExt(s))),
        _ => unknown(),
    }
}

fn bad_mask<T>(number: u32, name: &str, value: &str) -> Result<T> {
    bad(
        number,
        format!("{name}={value} names no width or speed"),
        "these are masks: width 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x); speed 1 to 7; extended speed 0 to 15",
    )
}

/// Parses the rest of `Switch 8 "ID" # ...`.
fn node_line(number: u32, kind: NodeKind, rest: &str) -> Result<NodeLine> {
    let mut parts = rest.splitn(3, '"');
    let (ports, id, tail) = (parts.next(), parts.next(), parts.next());
    let (Some(id), Some(tail)) = (id.filter(|id| !id.is_empty()), tail) else {
        return bad(number, "a node without its ID in quotes", "write: Switch 8 \"S-0002c90300100000\"");
    };
    let words = ports.unwrap_or_default().trim();
    let Some(ports) =
        number_of(words).and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=limits::PORTS_MAX).contains(n))
    else {
        return bad(
            number,
            format!("{:?} is no number of ports", cut(words)),
            format!("a node has 1 to {} ports: Switch 8 \"{id}\"", limits::PORTS_MAX),
        );
    };
    let comment = tail.split_once('#').map(|(_, comment)| comment.trim()).unwrap_or_default();
    let (description, after) = description(comment);
    let enhanced_port0 = match (after.contains("enhanced port 0"), after.contains("base port 0")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Ok(NodeLine { kind, ports, id: id.to_owned(), description, enhanced_port0 })
}

/// Returns the description in a node's comment, quoted or not, and the rest.
fn description(comment: &str) -> (Option<String>, &str) {
    if comment.is_empty() {
        return (None, "");
    }
    if let Some(inner) = comment.strip_prefix('"')
        && let Some((text, after)) = inner.rsplit_once('"')
    {
        return (Some(text.trim_end().to_owned()), after);
    }
    let ends = [" enhanced port ", " base port ", " lid ", " lmc "];
    let end = ends.iter().filter_map(|end| comment.find(end)).min().unwrap_or(comment.len());
    (Some(comment[..end].to_owned()), &comment[end..])
}

/// Parses `[1][ext 2](guid) "ID"[3][ext 4](guid) w=1 # ... 4xEDR`.
fn port_line(number: u32, line: &str) -> Result<PortLine> {
    let form = "write: [1] \"S-0002c90300100000\"[3]";
    let Some((local, (remote, rest))) = line.split_once('"').and_then(|(l, r)| Some((l, r.split_once('"')?))) else {
        return bad(number, "a port without the ID of the node at the other end in quotes", form);
    };
    let (port, guid, behind) = end(number, local)?;
    let Some(port) = port.filter(|_| behind.is_empty()) else {
        return bad(number, format!("{:?} is no port", cut(local)), form);
    };
    let (place, comment) = rest.split_once('#').unwrap_or((rest, ""));
    let (remote_port, remote_guid, behind) = end(number, place)?;
    let mut out = PortLine {
        port,
        guid,
        remote: remote.to_owned(),
        remote_port: remote_port.unwrap_or(1),
        remote_guid,
        ..PortLine::default()
    };
    options(number, behind, &mut out)?;
    if let Some((width, speed)) = link_words(number, comment)? {
        (out.width, out.speed) = (Some(width), speed.or(out.speed));
    }
    Ok(out)
}

/// Parses `[1][ext 2](guid)`: number and GUID, both optional, and the rest.
fn end(number: u32, text: &str) -> Result<(Option<u8>, Option<u64>, &str)> {
    let (mut port, mut guid) = (None, None);
    let mut rest = text.trim();
    while let Some(opened) = rest.strip_prefix(['[', '(']) {
        let close = if rest.starts_with('[') { ']' } else { ')' };
        let Some((inside, after)) = opened.split_once(close) else {
            return bad(number, format!("{:?} has no {close:?}", cut(rest)), "close the bracket");
        };
        rest = after.trim_start();
        if close == ')' {
            let Ok(value) = u64::from_str_radix(inside.trim().trim_start_matches("0x"), 16) else {
                return bad(number, format!("{:?} is no GUID", cut(inside)), "a GUID is up to 16 hexadecimal digits");
            };
            guid = Some(value);
        } else if !inside.trim_start().starts_with("ext") {
            let value = inside.trim().parse::<u8>().ok().filter(|n| (1..=limits::PORTS_MAX).contains(n));
            let Some(value) = value else {
                let mend = format!("ports are 1 to {}", limits::PORTS_MAX);
                return bad(number, format!("{:?} is no port number", cut(inside)), mend);
            };
            port = Some(value);
        }
    }
    Ok((port, guid, rest))
}

/// Parses ibsim's `w=` `s=` `e=` after a port: masks of the enabled modes.
fn options(number: u32, text: &str, out: &mut PortLine) -> Result<()> {
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return bad(
                number,
                format!("{:?} behind a port", cut(word)),
                "options are w=WIDTH, s=SPEED and e=EXTENDED",
            );
        };
        let Some(n) = number_of(value) else {
            return bad(number, format!("{:?} is no number", cut(word)), "options are w=WIDTH, s=SPEED, e=EXTENDED");
        };
        match name {
            "w" => match width_of_mask(n) {
                Some(width) => out.width = Some(width),
                None => return bad_mask(number, name, value),
            },
            "s" => match speed_of_mask(n) {
                Some(speed) => out.speed = out.speed.max(speed),
                None => return bad_mask(number, name, value),
            },
            "e" => match speed_ext_of_mask(n) {
                Some(speed) => out.speed = speed.or(out.speed),
                None => return bad_mask(number, name, value),
            },
            "v" => {}
            _ => return bad(number, format!("option {:?}", cut(word)), "options are w=WIDTH, s=SPEED, e=EXTENDED"),
        }
    }
    Ok(())
}

/// Finds `4xEDR` in a comment, after everything in quotes. `??` and `???`, ibnetdiscover's unknown values, give none.
fn link_words(number: u32, comment: &str) -> Result<Option<(Width, Option<Speed>)>> {
    let behind = comment.rsplit('"').next().unwrap_or_default();
    for word in behind.split_whitespace() {
        let Some((lanes, speed)) = word.split_once('x') else { continue };
        if lanes.is_empty() || !lanes.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let width = lanes.parse().ok().and_then(Width::from_lanes);
        let speed = match speed {
            "???" => Some(None),
            word => Speed::parse(word).map(Some),
        };
        return match (width, speed) {
            (Some(width), Some(speed)) => Ok(Some((width, speed))),
            _ => bad(
                number,
                format!("{:?} is no width and speed", cut(word)),
                "widths are 1x 2x 4x 8x 12x, speeds SDR DDR QDR FDR10 FDR EDR HDR NDR XDR: 4xEDR",
            ),
        };
    }
    Ok(None)
}

/// Returns the largest width of a mask.
fn width_of_mask(mask: u64) -> Option<Width> {
    let mask = u8::try_from(mask).ok().filter(|mask| (1..=31).contains(mask))?;
    Width::ALL.into_iter().rev().find(|width| mask & width.bit() != 0)
}

/// Returns the highest speed of a mask; `None` inside: none (0).
fn speed_of_mask(mask: u64) -> Option<Option<Speed>> {
    match mask {
        0 | 4..=7 => Some(Some(Speed::Qdr)),
        2 | 3 => Some(Some(Speed::Ddr)),
        1 => Some(Some(Speed::Sdr)),
        _ => None,
    }
}

fn speed_ext_of_mask(mask: u64) -> Option<Option<Speed>> {
    match mask {
        0 => Some(None),
        1 => Some(Some(Speed::Fdr)),
        2 | 3 => Some(Some(Speed::Edr)),
        4..=7 => Some(Some(Speed::Hdr)),
        8..=15 => Some(Some(Speed::Ndr)),
        _ => None,
    }
}

/// Parses a number as C's strtoul does, but without trailing characters.
fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// Shortens a text for a message.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
