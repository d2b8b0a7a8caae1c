//! Names of nodes: from an administrator's map of GUIDs, or from NodeDescription.

use std::collections::BTreeMap;

use super::format::text_until_zero;
use super::number;
use crate::errno;

/// The default name map.
const PATH: &str = "/etc/rdma/ib-node-name-map";
/// Maximum number of lines read from a map: more than any fabric has nodes.
const LINES_MAX: usize = 1 << 20;

/// Names by node GUID.
#[derive(Clone, Debug, Default)]
pub struct NodeNames {
    names: BTreeMap<u64, String>,
}

impl NodeNames {
    /// Opens the map at `path`, or the default map if it exists. If the map cannot be read or parsed, prints a warning,
    /// and nodes keep their own names.
    pub fn open(path: Option<&str>) -> NodeNames {
        if path.is_none() && !std::path::Path::new(PATH).exists() {
            return NodeNames::default();
        }
        let path = path.unwrap_or(PATH);
        let text = match crate::named_file::read(path) {
            Ok(text) => text,
            Err(error) => {
                let reason = errno::text(&error);
                crate::errln!("WARNING failed to open node name map \"{path}\" ({reason})");
                return NodeNames::default();
            }
        };
        parse(&text).unwrap_or_else(|line| {
            crate::errln!("WARNING failed to parse node name map \"{path}\"");
            crate::errln!("WARNING failed line: \"{}\"", weft_sm::options::clip(&line));
            NodeNames::default()
        })
    }

    /// The name of a node: from the map, or from its NodeDescription.
    pub fn name(&self, guid: u64, node_desc: &[u8]) -> String {
        self.names.get(&guid).cloned().unwrap_or_else(|| clean(node_desc))
    }
}

/// A NodeDescription as text, with blanks in place of unprintable characters.
pub fn clean(node_desc: &[u8]) -> String {
    let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte } else { b' ' };
    let end = node_desc.iter().position(|&byte| byte == 0).unwrap_or(node_desc.len());
    text_until_zero(&node_desc[..end].iter().map(printable).collect::<Vec<_>>())
}

/// Parses lines of a GUID and a name; the name is in quotes or ends at a `#`.
fn parse(text: &str) -> Result<NodeNames, String> {
    let mut names = BTreeMap::new();
    for line in text.lines().take(LINES_MAX) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with('#') {
            continue;
        }
        let (guid, rest) = number::parse(start);
        let ends = rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || c == '#');
        if rest.len() == start.len() || !ends {
            return Err(line.to_owned());
        }
        let name = rest.trim_start().split(['"', '#']).find(|part| !part.is_empty());
        if let Some(name) = name {
            names.entry(guid).or_insert_with(|| name.to_owned());
        }
    }
    Ok(NodeNames { names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read() {
        let names = parse("# all\n0x10 \"leaf 1\" # first\n 17 bare\n\n").unwrap();
        assert_eq!(names.name(0x10, b"desc"), "leaf 1");
        assert_eq!(names.name(17, b"desc"), "bare");
        assert_eq!(names.name(1, b"a\tb\0c"), "a b");
        assert_eq!(parse("0x10x leaf").unwrap_err(), "0x10x leaf");
        assert!(parse("leaf 0x10").is_err());
    }
}
