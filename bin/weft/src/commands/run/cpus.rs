//! The machine's processors and NUMA nodes, in the forms that sysfs has for the processors near a device.

use std::fs;
use std::path::Path;

/// Directory of the NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// The processors, and the NUMA nodes that have some.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpus {
    count: usize,
    /// Empty on a machine with a single node.
    nodes: Vec<NumaNode>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct NumaNode {
    number: u32,
    mask: String,
    list: String,
}

/// The processors near a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nearby {
    /// Text of `numa_node`.
    pub node: String,
    /// Text of `local_cpus`.
    pub mask: String,
    /// Text of `local_cpulist`.
    pub list: String,
    /// Position of the node among the machine's, 0 on a machine with a single node.
    pub position: usize,
}

impl Cpus {
    /// Reads the machine's.
    pub fn of_machine() -> Cpus {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Cpus { count, nodes: nodes_in(Path::new(NODES)) }
    }

    /// A machine with a single node and this many processors.
    #[cfg(test)]
    pub fn of_count(count: usize) -> Cpus {
        Cpus { count, nodes: Vec::new() }
    }

    /// Number of NUMA nodes with processors, at least 1.
    pub fn nodes(&self) -> usize {
        self.nodes.len().max(1)
    }

    /// All processors: those near a device that belongs to no node.
    pub fn all(&self) -> Nearby {
        Nearby { node: "-1".to_owned(), mask: mask(self.count), list: list(self.count), position: 0 }
    }

    /// The processors near device `number`, from 0, of `total` devices. The devices are spread over the nodes in equal
    /// parts, the first ones on the first node. On a machine with a single node, Linux assigns none unless the firmware
    /// names it.
    pub fn near(&self, number: usize, total: usize) -> Nearby {
        let position = number * self.nodes() / total.max(1);
        match self.nodes.get(position) {
            Some(NumaNode { number, mask, list }) => {
                Nearby { node: number.to_string(), mask: mask.clone(), list: list.clone(), position }
            }
            None => self.all(),
        }
    }
}

/// The nodes with processors, if there are several.
fn nodes_in(dir: &Path) -> Vec<NumaNode> {
    let read = |path: &Path| fs::read_to_string(path).map(|text| text.trim_end().to_owned());
    let node = |number: u32| {
        let dir = dir.join(format!("node{number}"));
        Some(NumaNode { number, mask: read(&dir.join("cpumap")).ok()?, list: read(&dir.join("cpulist")).ok()? })
    };
    let numbers = numbers(&read(&dir.join("has_cpu")).unwrap_or_default());
    let nodes: Vec<NumaNode> = numbers.into_iter().filter_map(node).collect();
    if nodes.len() > 1 { nodes } else { Vec::new() }
}

/// Maximum number of nodes (`CONFIG_NODES_SHIFT`).
const NODES_MAX: usize = 1024;

/// Parses a list such as `0-1,4`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(NODES_MAX).collect()
}

/// Formats a mask of `cpus` bits, in groups of 32.
fn mask(cpus: usize) -> String {
    let words: Vec<String> = (0..cpus.max(1).div_ceil(32))
        .rev()
        .map(|word| match cpus.saturating_sub(word * 32).min(32) {
            32 => "ffffffff".to_owned(),
            bits => format!("{:08x}", (1_u64 << bits) - 1),
        })
        .collect();
    // A single group is written without leading zeros.
    match words.as_slice() {
        [only] => {
            let trimmed = only.trim_start_matches('0');
            if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
        }
        _ => words.join(","),
    }
}

fn list(cpus: usize) -> String {
    match cpus {
        0 | 1 => "0".to_owned(),
        n => format!("0-{}", n - 1),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine of two sockets.
    pub fn two_nodes() -> Cpus {
        let node = |number: u32, mask: &str, list: &str| NumaNode { number, mask: mask.into(), list: list.into() };
        Cpus { count: 8, nodes: vec![node(0, "0f", "0-3"), node(1, "f0", "4-7")] }
    }

    #[test]
    fn processors_are_masked_as_sysfs_does() {
        assert_eq!(mask(2), "3");
        assert_eq!(mask(32), "ffffffff");
        assert_eq!(mask(36), "0000000f,ffffffff");
        assert_eq!(list(8), "0-7");
    }

    #[test]
    fn devices_are_spread_over_the_nodes() {
        let of = |cpus: &Cpus, total| (0..total).map(|number| cpus.near(number, total).node).collect::<Vec<_>>();
        assert_eq!(of(&two_nodes(), 4), ["0", "0", "1", "1"]);
        assert_eq!(of(&two_nodes(), 3), ["0", "0", "1"]);
        assert_eq!(of(&two_nodes(), 1), ["0"]);
        assert_eq!(of(&Cpus::of_count(8), 2), ["-1", "-1"]);
        let second = two_nodes().near(1, 2);
        assert_eq!((second.mask.as_str(), second.list.as_str(), second.position), ("f0", "4-7", 1));
        assert_eq!(Cpus::of_count(8).near(0, 1).list, "0-7");
    }

    #[test]
    fn nodes_without_processors_do_not_count() {
        assert_eq!(numbers("0-1,4\n"), [0, 1, 4]);
        assert!(numbers("").is_empty() && numbers("x-y").is_empty());
        let dir = std::env::temp_dir().join(format!("weft-nodes-of-cpus-{}", std::process::id()));
        for node in ["node0", "node2"] {
            fs::create_dir_all(dir.join(node)).unwrap();
            fs::write(dir.join(node).join("cpumap"), "3\n").unwrap();
            fs::write(dir.join(node).join("cpulist"), "0-1\n").unwrap();
        }
        let found = |has_cpu: &str| {
            fs::write(dir.join("has_cpu"), has_cpu).unwrap();
            nodes_in(&dir).iter().map(|node| node.number).collect::<Vec<_>>()
        };
        assert_eq!(found("0,2\n"), [0, 2]);
        assert!(found("0\n").is_empty());
        fs::remove_dir_all(&dir).unwrap();
        assert!(nodes_in(&dir).is_empty());
    }
}
