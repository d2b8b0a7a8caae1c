//! The index files of kmod, which map names to texts: a tree with one level per character, in the format of depmod.

use std::collections::BTreeMap;

const MAGIC: u32 = 0xb007_f457;
const VERSION: u32 = 0x0002_0001;
const HEADER_BYTES: usize = 12;

/// Flags in the upper bits of a node's offset.
const HAS_VALUES: u32 = 0x4000_0000;
const HAS_CHILDREN: u32 = 0x2000_0000;

#[derive(Default)]
struct Node {
    children: BTreeMap<u8, Node>,
    value: Option<String>,
}

/// Returns the file that maps every name to its text. Of entries with one name, the last one counts.
pub fn write(entries: &[(String, String)]) -> Vec<u8> {
    let mut root = Node::default();
    for (name, text) in entries {
        let mut node = &mut root;
        for byte in name.bytes() {
            node = node.children.entry(byte).or_default();
        }
        node.value = Some(text.clone());
    }
    let mut file = vec![0; HEADER_BYTES];
    let root = root.append(&mut file);
    for (place, word) in file.chunks_exact_mut(4).zip([MAGIC, VERSION, root]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    file
}

impl Node {
    /// Appends the children, then the node. Returns its offset with the flags.
    fn append(&self, file: &mut Vec<u8>) -> u32 {
        let children: BTreeMap<u8, u32> =
            self.children.iter().map(|(&byte, child)| (byte, child.append(file))).collect();
        let mut offset = file.len() as u32;
        if let (Some((&first, _)), Some((&last, _))) = (children.first_key_value(), children.last_key_value()) {
            offset |= HAS_CHILDREN;
            file.extend([first, last]);
            for byte in first..=last {
                file.extend(children.get(&byte).copied().unwrap_or(0).to_be_bytes());
            }
        }
        if let Some(text) = &self.value {
            offset |= HAS_VALUES;
            // One value, of priority 0.
            file.extend(1u32.to_be_bytes());
            file.extend(0u32.to_be_bytes());
            file.extend(text.bytes());
            file.push(0);
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_text() {
        let file = write(&[("a".to_owned(), "x".to_owned())]);
        let leaf = [&1u32.to_be_bytes()[..], &[0; 4], b"x\0"].concat();
        let root = [&b"aa"[..], &(12 | HAS_VALUES).to_be_bytes()].concat();
        let header = [MAGIC, VERSION, 22 | HAS_CHILDREN].map(u32::to_be_bytes).concat();
        assert_eq!(file, [header, leaf, root].concat());
        assert_eq!(write(&[]).len(), HEADER_BYTES);
    }
}
