//! The cache file of a fabric, in libibnetdisc's format: integers are little-endian, attributes are as received.
//!
//! ```text
//! magic 4, version 4, nodes 4, ports 4, GUID of the first node 8, hops 4
//! node: LID 2, LMC 1, enhanced port 0 1, SwitchInfo 64, GUID 8, type 1, ports 1, NodeInfo 64, NodeDescription 64,
//!       number of keys 1, keys: PortGUID 8, port 1
//! port: PortGUID 8, port 1, external port 1, LID 2, LMC 1, PortInfo 64, NodeGUID 8,
//!       whether it has a cable 1, key of the other end 9
//! ```

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use super::{ATTRIBUTE_BYTES, Attribute, Fabric, Kind, Node, Port, PortRef, chassis};

const MAGIC: u32 = 0x8fe7_832b;
const VERSION: u32 = 1;
/// Number of libibnetdisc's port hash buckets, which the file contains one after the other.
const LISTS: u32 = 137;
/// Maximum file size in bytes: more than a million ports.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum LMC.
const LMC_MAX: u8 = 7;

/// Key of a port in the file: its PortGUID and number.
type Key = (u64, u8);

/// A port as stored in a file.
struct Stored {
    port: Port,
    node: u64,
    remote: Option<Key>,
}

/// Reads the file at `path`.
///
/// # Errors
/// The file cannot be read, or is not a cache file.
pub fn load(path: &str) -> Result<Fabric, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    file.map_err(|e| format!("{path}: {}", crate::errno::text(&e)))?;
    parse(&bytes).map_err(|why| format!("{path}: {why}"))
}

/// Parses the contents of a cache file.
///
/// # Errors
/// The defect of the file.
pub fn parse(bytes: &[u8]) -> Result<Fabric, String> {
    let mut input = Input(bytes);
    if input.u32()? != MAGIC {
        return Err("not a file of ibnetdiscover --cache".to_owned());
    }
    let version = input.u32()?;
    if version != VERSION {
        return Err(format!("version {version} of the file's format is not known, only {VERSION}"));
    }
    let (nodes, ports) = (input.u32()?, input.u32()?);
    let (from, max_hops) = (input.u64()?, input.u32()?);
    let nodes = (0..nodes).map(|_| input.node()).collect::<Result<Vec<_>, _>>()?;
    let ports = (0..ports).map(|_| input.port()).collect::<Result<Vec<_>, _>>()?;
    let mut fabric = assemble(nodes, ports)?;
    fabric.max_hops = max_hops;
    let node = fabric.find_node(from).ok_or("the node that it starts from is missing")?;
    fabric.from = Some(PortRef { node, port: fabric.node(node).local_port() });
    chassis::group(&mut fabric)?;
    Ok(fabric)
}

/// Builds the fabric. The file lists the nodes from the last found to the first.
fn assemble(nodes: Vec<(Node, Vec<Key>)>, ports: Vec<Stored>) -> Result<Fabric, String> {
    let mut by_key: HashMap<Key, Stored> = HashMap::new();
    let mut at: HashMap<Key, PortRef> = HashMap::new();
    for stored in ports {
        by_key.insert((stored.port.guid, stored.port.num), stored);
    }
    let mut fabric = Fabric::default();
    let mut cables = Vec::new();
    for (node, keys) in nodes.into_iter().rev() {
        let index = fabric.add(node);
        for key in keys {
            let stored = by_key.remove(&key).ok_or("a port is missing or stored twice")?;
            if stored.node != fabric.node(index).guid {
                return Err("a port belongs to another node than the one that lists it".to_owned());
            }
            let place = PortRef { node: index, port: key.1 };
            let port = fabric.node_mut(index).port_or_new(key.1).ok_or("a port's number is too high for its node")?;
            *port = stored.port;
            at.insert(key, place);
            fabric.announce(place);
            cables.extend(stored.remote.map(|remote| (place, remote)));
        }
    }
    for (place, remote) in cables {
        let remote = *at.get(&remote).ok_or("the other end of a cable is missing")?;
        if let Some(port) = fabric.port_mut(place) {
            port.remote = Some(remote);
        }
    }
    Ok(fabric)
}

/// Writes `fabric` to a new file at `path`, replacing a regular file or symbolic link but nothing else.
///
/// # Errors
/// The system's error, or `path` is not a file.
pub fn store(fabric: &Fabric, path: &str) -> io::Result<()> {
    let is_special = |there: std::fs::Metadata| !there.is_file() && !there.is_symlink();
    if std::fs::symlink_metadata(path).is_ok_and(is_special) {
        return Err(io::Error::other("not a regular file; choose another path"));
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    let written = file.write_all(&bytes(fabric));
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

/// The contents of the cache file of `fabric`.
pub fn bytes(fabric: &Fabric) -> Vec<u8> {
    let mut out = Vec::new();
    let ports = listed(fabric);
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend(u32::try_from(fabric.node_count()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(u32::try_from(ports.len()).unwrap_or(u32::MAX).to_le_bytes());
    let from = fabric.from.map_or(0, |from| fabric.node(from.node).guid);
    out.extend(from.to_le_bytes());
    out.extend(fabric.max_hops.to_le_bytes());
    for (_, node) in fabric.nodes() {
        put_node(&mut out, node);
    }
    for (node, port) in ports {
        put_port(&mut out, fabric, node, port);
    }
    out
}

/// Ports in the order of libibnetdisc's hash buckets: by GUID, the newest first within a bucket.
fn listed(fabric: &Fabric) -> Vec<(&Node, &Port)> {
    let mut lists = vec![Vec::new(); LISTS as usize];
    for (at, guid) in fabric.announced() {
        let node = fabric.node(at.node);
        if let Some(port) = node.port(at.port) {
            // A port stays in its list when its GUID is edited.
            lists[list_of(*guid)].push((node, port));
        }
    }
    lists.into_iter().flat_map(|list| list.into_iter().rev()).collect()
}

fn list_of(guid: u64) -> usize {
    let (high, low) = ((guid >> 32) as u32, guid as u32);
    ((low.wrapping_mul(101) ^ high.wrapping_mul(103)) % LISTS) as usize
}

fn put_node(out: &mut Vec<u8>, node: &Node) {
    out.extend(node.sma_lid.to_le_bytes());
    out.extend([node.sma_lmc, u8::from(node.enhanced_port0)]);
    out.extend(node.switch_info.0);
    out.extend(node.guid.to_le_bytes());
    out.extend([node.kind.0, node.num_ports]);
    out.extend(node.info.0);
    out.extend(node.description.0);
    let keys: Vec<&Port> = node.ports().collect();
    // A count of 256 ports wraps to 0, as in the original.
    out.push(keys.len() as u8);
    for port in keys {
        out.extend(port.guid.to_le_bytes());
        out.push(port.num);
    }
}

fn put_port(out: &mut Vec<u8>, fabric: &Fabric, node: &Node, port: &Port) {
    out.extend(port.guid.to_le_bytes());
    out.extend([port.num, port.external]);
    out.extend(port.lid.to_le_bytes());
    out.push(port.lmc);
    out.extend(port.info.0);
    out.extend(node.guid.to_le_bytes());
    let remote = fabric.remote(port).map(|(_, remote)| (remote.guid, remote.num));
    out.push(u8::from(remote.is_some()));
    let (guid, num) = remote.unwrap_or_default();
    out.extend(guid.to_le_bytes());
    out.push(num);
}

/// The unread rest of a file.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn attribute(&mut self) -> Result<Attribute, String> {
        self.take::<ATTRIBUTE_BYTES>().map(Attribute)
    }

    fn node(&mut self) -> Result<(Node, Vec<Key>), String> {
        let (sma_lid, sma_lmc, enhanced) = (self.u16()?, self.u8()? & LMC_MAX, self.u8()?);
        let switch_info = self.attribute()?;
        let (guid, kind, num_ports) = (self.u64()?, self.u8()?, self.u8()?);
        let mut info = self.attribute()?;
        // The file stores the number of ports twice; the first one counts.
        let said = std::mem::replace(&mut info.0[3], num_ports);
        let mut node = Node::new(info);
        node.info.0[3] = said;
        (node.guid, node.kind) = (guid, Kind(kind));
        (node.sma_lid, node.sma_lmc, node.enhanced_port0) = (sma_lid, sma_lmc, enhanced != 0);
        node.switch_info = switch_info;
        node.description = self.attribute()?;
        let keys = self.u8()?;
        let keys = (0..keys).map(|_| Ok((self.u64()?, self.u8()?))).collect::<Result<_, String>>()?;
        Ok((node, keys))
    }

    fn port(&mut self) -> Result<Stored, String> {
        let mut port = Port::shell(0);
        port.guid = self.u64()?;
        (port.num, port.external) = (self.u8()?, self.u8()?);
        // An LMC has three bits in every file: the number of LIDs depends on it.
        (port.lid, port.lmc) = (self.u16()?, self.u8()? & LMC_MAX);
        port.info = self.attribute()?;
        let node = self.u64()?;
        let cable = self.u8()?;
        let remote = (self.u64()?, self.u8()?);
        Ok(Stored { port, node, remote: (cable != 0).then_some(remote) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two channel adapters back to back.
    fn fabric() -> Fabric {
        let mut fabric = Fabric::default();
        for guid in [0x10, 0x20] {
            let mut info = Attribute::ZERO;
            (info.0[2], info.0[3], info.0[36]) = (1, 1, 1);
            info.set_u64(12, guid);
            let mut node = Node::new(info);
            node.description.0[..2].copy_from_slice(b"h1");
            let mut port = Port::shell(1);
            (port.guid, port.lid) = (guid + 1, guid as u16);
            *node.port_or_new(1).unwrap() = port;
            let index = fabric.add(node);
            fabric.announce(PortRef { node: index, port: 1 });
        }
        fabric.link(PortRef { node: 0, port: 1 }, PortRef { node: 1, port: 1 });
        fabric.from = Some(PortRef { node: 0, port: 1 });
        fabric.max_hops = 3;
        fabric
    }

    #[test]
    fn no_device_is_replaced() {
        assert!(store(&fabric(), "/dev/null").unwrap_err().to_string().contains("not a regular file"));
        assert!(std::path::Path::new("/dev/null").exists());
    }

    /// Memory use does not depend on the number of ports that a node claims.
    #[test]
    fn nodes_that_claim_255_ports_take_the_room_of_those_that_they_have() {
        let mut info = Attribute::ZERO;
        (info.0[2], info.0[3]) = (1, 255);
        let mut many = Fabric::default();
        for guid in 0..20_000 {
            info.set_u64(12, guid);
            many.add(Node::new(info));
        }
        many.from = Some(PortRef { node: 0, port: 0 });
        let text = bytes(&many);
        let before = resident();
        let read = parse(&text).unwrap();
        let grown = resident().saturating_sub(before);
        assert_eq!(read.node_count(), 20_000);
        assert!(grown < 200 << 20, "{} MiB for a file of {} MiB", grown >> 20, text.len() >> 20);
    }

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn what_was_written_is_read_again() {
        let written = bytes(&fabric());
        let read = parse(&written).unwrap();
        assert_eq!(bytes(&read), written);
        assert_eq!(read.max_hops, 3);
        let guids: Vec<u64> = read.nodes().map(|(_, node)| node.guid).collect();
        assert_eq!(guids, [0x20, 0x10]);
        let port = read.port(read.find_lid(0x10).unwrap()).unwrap();
        assert_eq!(read.remote(port).unwrap().0.guid, 0x20);
    }

    #[test]
    fn a_broken_file_is_refused_wherever_it_ends() {
        let whole = bytes(&fabric());
        for len in 0..whole.len() {
            assert!(parse(&whole[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn changed_bytes_never_harm() {
        let whole = bytes(&fabric());
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                if let Ok(fabric) = parse(&changed) {
                    let _ = bytes(&fabric);
                }
            }
        }
    }
}
