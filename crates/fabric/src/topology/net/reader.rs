//! From a net file to a topology: collects the blocks, then matches both ends of every cable.

use rustc_hash::FxHashMap;

use super::super::{Builder, Cable, End, Error, Node, NodeKind, Port, Result, Speed, Topology, Width, limits};
use super::line::{self, Assign, Line, NodeLine, PortLine};
use super::names::{Known, Names, names};

/// Depth of nested files, as in ibsim.
const INCLUDES_MAX: usize = 9;

/// Source of files for `include "FILE"`.
pub trait Files {
    /// Returns the text of a file, or why there is none.
    fn text(&mut self, name: &str) -> std::result::Result<String, String>;
}

/// No files at all.
pub struct NoFiles;

impl Files for NoFiles {
    fn text(&mut self, _: &str) -> std::result::Result<String, String> {
        Err("files cannot be included here".to_owned())
    }
}

/// Reads a net file or ibnetdiscover's output.
pub fn read(title: &str, text: &str, files: &mut dyn Files) -> Result<Topology> {
    let mut gathered = Gathered::default();
    gathered.text(text, files, 0)?;
    gathered.finish(title)
}

/// A node's block.
struct Block {
    line: u32,
    node: NodeLine,
    guid: Option<u64>,
    system_image_guid: u64,
    vendor_id: u32,
    device_id: u16,
    ports: Vec<(u32, PortLine)>,
    width: Width,
    speed: Speed,
}

/// Blocks and settings read so far.
struct Gathered {
    blocks: Vec<Block>,
    by_id: FxHashMap<String, u32>,
    /// Whether port lines belong to the last block: an empty line ends it.
    open: bool,
    vendor_id: u32,
    device_id: u16,
    system_image_guid: u64,
    guid: Option<(NodeKind, u64)>,
    width: Width,
    speed: Speed,
    speed_ext: Option<Speed>,
    ports: usize,
    length: usize,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered {
            blocks: Vec::new(),
            by_id: FxHashMap::default(),
            open: false,
            vendor_id: 0,
            device_id: 0,
            system_image_guid: 0,
            guid: None,
            // ibsim's defaults.
            width: Width::X4,
            speed: Speed::Sdr,
            speed_ext: None,
            ports: 0,
            length: 0,
        }
    }
}

impl Gathered {
    fn text(&mut self, text: &str, files: &mut dyn Files, depth: usize) -> Result<()> {
        self.length += text.len();
        if self.length > limits::FILE_LEN_MAX {
            return Err(Error::of(
                "the file is too long",
                format!("at most {} MiB are read", limits::FILE_LEN_MAX >> 20),
            ));
        }
        for (number, text) in (1u32..).zip(text.lines()) {
            // In ibnetdiscover's -g output, groups have a heading without an empty line before it.
            if text.trim().is_empty() {
                self.open = false;
            }
            match line::parse(number, text)? {
                None => {}
                Some(Line::Assign(assign)) => self.assign(assign),
                Some(Line::Node(node)) => self.node(number, node)?,
                Some(Line::Port(port)) => self.port(number, port)?,
                Some(Line::Include(name)) => self.include(number, &name, files, depth)?,
            }
        }
        self.open = false;
        Ok(())
    }

    fn include(&mut self, number: u32, name: &str, files: &mut dyn Files, depth: usize) -> Result<()> {
        if depth + 1 >= INCLUDES_MAX {
            let mend = "a file that includes itself never ends: remove one of the includes";
            return Err(Error::at(number, format!("more than {INCLUDES_MAX} files inside each other"), mend));
        }
        let text = files.text(name).map_err(|why| {
            Error::at(number, format!("cannot include {name:?}: {why}"), "correct the name, or paste the file here")
        })?;
        self.text(&text, files, depth + 1)
            .map_err(|inner| Error::at(number, format!("in {name:?}, line {}: {}", inner.line, inner.what), inner.mend))
    }

    fn assign(&mut self, assign: Assign) {
        self.open = false;
        match assign {
            Assign::VendorId(id) => self.vendor_id = id,
            Assign::DeviceId(id) => self.device_id = id,
            Assign::SystemImageGuid(guid) => self.system_image_guid = guid,
            Assign::NodeGuid(kind, guid) => self.guid = Some((kind, guid)),
            Assign::Width(width) => self.width = width,
            Assign::Speed(speed) => self.speed = speed.unwrap_or(self.speed),
            Assign::SpeedExt(speed) => self.speed_ext = speed,
        }
    }

    fn node(&mut self, line: u32, node: NodeLine) -> Result<()> {
        if self.blocks.len() >= limits::NODES_MAX {
            return Err(Error::at(line, format!("more than {} nodes", limits::NODES_MAX), "split the fabric"));
        }
        let place = self.blocks.len() as u32;
        if let Some(other) = self.by_id.insert(node.id.clone(), place) {
            let first = self.blocks[other as usize].line;
            return Err(Error::at(
                line,
                format!("a second block for {:?}; the first is in line {first}", node.id),
                "keep one of the blocks, or give one of them another ID",
            ));
        }
        let guid = match self.guid.take() {
            Some((kind, guid)) if kind == node.kind => Some(guid),
            Some(_) => {
                return Err(Error::at(
                    line,
                    format!("the GUID before {:?} is that of another kind of node", node.id),
                    "switchguid= stands before Switch, caguid= before Ca, rtguid= before Rt",
                ));
            }
            None => guid_of_id(&node.id),
        };
        self.blocks.push(Block {
            line,
            node,
            guid,
            system_image_guid: std::mem::take(&mut self.system_image_guid),
            vendor_id: std::mem::take(&mut self.vendor_id),
            device_id: std::mem::take(&mut self.device_id),
            ports: Vec::new(),
            width: self.width,
            speed: self.speed_ext.unwrap_or(self.speed),
        });
        self.open = true;
        Ok(())
    }

    fn port(&mut self, line: u32, port: PortLine) -> Result<()> {
        let Some(block) = self.blocks.last_mut().filter(|_| self.open) else {
            let mend = "ports follow their node's line (Switch, Ca, Rt) without an empty line in between";
            return Err(Error::at(line, "a port that belongs to no node", mend));
        };
        let ports = block.node.ports;
        if port.port > ports {
            return Err(Error::at(
                line,
                format!("port {} of {:?}, which has {ports}", port.port, block.node.id),
                format!("ports are 1 to {ports}: correct the number, or the node's number of ports"),
            ));
        }
        if let Some((first, _)) = block.ports.iter().find(|(_, other)| other.port == port.port) {
            return Err(Error::at(
                line,
                format!("a second line for port {} of {:?}; the first is line {first}", port.port, block.node.id),
                "a port takes one cable: remove one of the lines",
            ));
        }
        self.ports += 1;
        block.ports.push((line, port));
        Ok(())
    }

    fn finish(self, title: &str) -> Result<Topology> {
        if self.blocks.is_empty() {
            return Err(Error::at(
                1,
                "there is no node in this file",
                "a file in this format has blocks that begin with Switch, Ca or Rt, as ibnetdiscover prints them",
            ));
        }
        let known: Vec<Known<'_>> = self
            .blocks
            .iter()
            .map(|block| Known {
                kind: block.node.kind,
                id: &block.node.id,
                description: block.node.description.as_deref().unwrap_or(""),
            })
            .collect();
        let names = names(&known);
        let mut builder = Builder::new(title);
        for (block, names) in self.blocks.iter().zip(names) {
            builder.node(block.finish(names)).map_err(|error| Error { line: block.line, ..error })?;
        }
        for (place, block) in (0u32..).zip(&self.blocks) {
            for (line, port) in &block.ports {
                self.cable(&mut builder, place, *line, port)?;
            }
        }
        Ok(builder.finish())
    }

    /// Adds the cable of a port, unless the line of its other end has added it already.
    fn cable(&self, builder: &mut Builder, place: u32, line: u32, port: &PortLine) -> Result<()> {
        let Some(&remote) = self.by_id.get(&port.remote) else {
            return Err(Error::at(
                line,
                format!("a cable to {:?}, which has no block", port.remote),
                "add its block, or remove this line",
            ));
        };
        let (here, there) = (End { node: place, port: port.port }, End { node: remote, port: port.remote_port });
        let block = &self.blocks[remote as usize];
        let back = block.ports.iter().find(|(_, back)| back.port == port.remote_port);
        if let Some((other, back)) = back
            && (self.by_id.get(&back.remote) != Some(&place) || back.remote_port != port.port)
        {
            return Err(Error::at(
                line,
                format!(
                    "this cable leads to {:?} port {}, but line {other} has that one lead to {:?} port {}",
                    port.remote, port.remote_port, back.remote, back.remote_port
                ),
                "both ends of a cable name each other: correct one of the lines",
            ));
        }
        if let Some(guid) = port.remote_guid
            && let Some((other, PortLine { guid: Some(own), .. })) = back
            && *own != guid
        {
            return Err(Error::at(
                line,
                format!("the port at the other end has GUID {guid:x} here and {own:x} in line {other}"),
                "correct one of the lines",
            ));
        }
        if builder.cable_at(here).is_some_and(|cable| cable.a == there || cable.b == there) {
            return Ok(());
        }
        builder.cable(Cable::new(here, there)).map_err(|error| Error { line, ..error })
    }
}

impl Block {
    /// Returns the description; ibsim uses the ID of a node without one.
    fn description(&self) -> &str {
        self.node.description.as_deref().unwrap_or(&self.node.id)
    }

    fn finish(&self, names: Names) -> Node {
        let Names { name, host, adapter } = names;
        let fastest = self.ports.iter().filter_map(|(_, port)| port.speed).max().unwrap_or(self.speed);
        let widest = self.ports.iter().filter_map(|(_, port)| port.width).max().unwrap_or(self.width);
        let mut ports = vec![Port::infiniband(0, widest, fastest); usize::from(self.node.ports)];
        for (_, line) in &self.ports {
            if let Some(port) = ports.get_mut(usize::from(line.port) - 1) {
                let guid = if self.node.kind == NodeKind::Switch { 0 } else { line.guid.unwrap_or(0) };
                let (width, speed) = (line.width.unwrap_or(self.width), line.speed.unwrap_or(self.speed));
                *port = Port::infiniband(guid, width, speed);
            }
        }
        Node {
            kind: self.node.kind,
            name,
            host,
            adapter,
            description: self.description().to_owned(),
            guid: self.guid.unwrap_or(0),
            system_image_guid: self.system_image_guid,
            vendor_id: self.vendor_id,
            device_id: self.device_id,
            enhanced_port0: self.node.enhanced_port0.unwrap_or(self.node.kind == NodeKind::Switch),
            lmc_max: 7,
            ports,
        }
    }
}

/// Returns the GUID in one of ibnetdiscover's IDs, `S-0002c90300100000`.
fn guid_of_id(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(['S', 'H', 'R'])?.strip_prefix('-')?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten().filter(|guid| *guid != 0)
}
