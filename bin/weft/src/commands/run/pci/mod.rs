//! The PCI functions of a fabric's adapters in sysfs. Programs look for an adapter's place in the machine by its PCI
//! address: `/sys/class/infiniband/mlx5_0` is a link to `/sys/devices/pcifab0:00/fab0:00:01.0/infiniband/mlx5_0`, and the
//! function `fab0:00:01.0` has the files that Linux has.
//!
//! The domain `fab0` is Weft's on every machine: firmware numbers domains from 0, and software (VMD) from 0x10000. Each
//! NUMA node has a bus of its own there, as sockets have.

mod config;
mod identity;
pub mod mount;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use weft_ipc::DeviceInfo;

use super::cpus::{Cpus, Nearby};
use super::view::{Link, View};
use identity::Identity;

/// Devices on a bus: number 0 is the host bridge's.
const DEVICES_OF_BUS: usize = 31;

/// Lines of `resource`: the regions of a function with virtual functions. They are empty.
const REGIONS: usize = 13;

/// An address of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Address {
    bus: u8,
    device: u8,
}

impl Address {
    /// The address of adapter `number`, from 0, on a machine with so many nodes, at the node in this position. `None`
    /// beyond the last bus, which is 256 divided by the nodes.
    fn of(number: usize, position: usize, nodes: usize) -> Option<Address> {
        let bus = u8::try_from(position + nodes * (number / DEVICES_OF_BUS)).ok()?;
        Some(Address { bus, device: u8::try_from(number % DEVICES_OF_BUS + 1).ok()? })
    }

    /// Name of the bus.
    fn bus_name(self) -> String {
        format!("fab0:{:02x}", self.bus)
    }

    /// Path of the bus's root below /sys.
    fn root(self) -> PathBuf {
        PathBuf::from(format!("devices/pci{}", self.bus_name()))
    }

    /// Path of the function below /sys.
    fn dir(self) -> PathBuf {
        self.root().join(self.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:02x}.0", self.bus_name(), self.device)
    }
}

impl View {
    /// Gives the adapters PCI functions: moves the adapters' files there, and puts links where they were. Adapters
    /// without an address stay where they are.
    pub(super) fn add_functions(&mut self, adapters: &[DeviceInfo], cpus: &Cpus) {
        // The functions of the classes' entries, by the entries' paths below /sys.
        let mut functions = BTreeMap::new();
        let mut buses = BTreeSet::new();
        for (number, adapter) in adapters.iter().enumerate() {
            let near = cpus.near(number, adapters.len());
            let Some(address) = Address::of(number, near.position, cpus.nodes()) else {
                self.bus_device(adapter, cpus);
                continue;
            };
            if buses.insert(address.bus) {
                self.bus(address, &near);
            }
            self.function(address, adapter, &near);
            functions.extend(class_entries(number, adapter).map(|path| (path, address.dir())));
        }
        for entry in &mut self.entries {
            if let Some(path) = moved(&entry.path, &functions) {
                entry.path = path;
            }
        }
        for (path, function) in functions {
            self.class_link(&path, &function);
        }
    }

    /// Adds the files of a function.
    fn function(&mut self, address: Address, adapter: &DeviceInfo, near: &Nearby) {
        let Some(infiniband) = adapter.infiniband.as_deref() else { return };
        let (dir, identity) = (address.dir(), Identity::of(adapter, infiniband));
        let (vendor, device) = (format!("{:#06x}", identity.vendor), format!("{:#06x}", identity.device));
        let lanes = identity.link.lanes.to_string();
        let region = ["0x0000000000000000"; 3].join(" ");
        for (name, text) in [
            ("vendor", vendor.as_str()),
            ("device", &device),
            ("subsystem_vendor", &vendor),
            ("subsystem_device", &device),
            ("class", &format!("{:#08x}", identity.class)),
            ("revision", "0x00"),
            ("irq", "0"),
            ("enable", "1"),
            ("resource", &[region.as_str(); REGIONS].join("\n")),
            ("uevent", &identity.uevent(&address.to_string())),
            ("modalias", &identity.modalias()),
            ("numa_node", &near.node),
            ("local_cpus", &near.mask),
            ("local_cpulist", &near.list),
            ("max_link_speed", identity.link.speed()),
            ("current_link_speed", identity.link.speed()),
            ("max_link_width", &lanes),
            ("current_link_width", &lanes),
        ] {
            self.put_below_sys(dir.join(name), text);
        }
        self.binaries.push((dir.join("config"), config::space(&identity)));
        self.link(dir.join("subsystem"), "bus/pci");
        self.link(Path::new(mount::FUNCTIONS).join(address.to_string()), &dir);
    }

    /// Adds a bus, for programs that look for functions by their bus.
    fn bus(&mut self, address: Address, near: &Nearby) {
        let (root, name) = (address.root(), address.bus_name());
        let dir = root.join("pci_bus").join(&name);
        self.put_below_sys(dir.join("cpuaffinity"), &near.mask);
        self.put_below_sys(dir.join("cpulistaffinity"), &near.list);
        self.link(dir.join("device"), &root);
        let class = Path::new("class").join(mount::BUS_CLASS);
        self.link(dir.join("subsystem"), &class);
        self.link(class.join(name), dir);
    }

    /// Adds the links of a class's entry that is below a function now.
    fn class_link(&mut self, path: &Path, function: &Path) {
        let Some((class, below)) = path.parent().zip(path.strip_prefix("class").ok()) else { return };
        let dir = function.join(below);
        self.link(dir.join("device"), function);
        self.link(dir.join("subsystem"), class);
        self.link(path, dir);
    }

    fn link(&mut self, path: impl Into<PathBuf>, to: impl Into<PathBuf>) {
        self.links.push(Link { path: path.into(), to: to.into() });
    }
}

/// Paths of an adapter's entries in the classes.
fn class_entries(number: usize, adapter: &DeviceInfo) -> impl Iterator<Item = PathBuf> {
    let ports = adapter.infiniband.iter().flat_map(|infiniband| &infiniband.ports);
    let mads = ports.flat_map(|port| ["umad", "issm"].map(|node| format!("class/infiniband_mad/{node}{}", port.umad)));
    let own = [format!("class/infiniband/{}", adapter.name), format!("class/infiniband_verbs/uverbs{number}")];
    own.into_iter().chain(mads).map(PathBuf::from)
}

/// Returns the path below the function of a file of a class's entry; `None` if the entry has no function. Files in the
/// entry's `device` are the function's own.
fn moved(path: &Path, functions: &BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    let entry: PathBuf = path.components().take(3).collect();
    let function = functions.get(&entry)?;
    let rest = path.strip_prefix(&entry).ok()?;
    match rest.strip_prefix("device") {
        Ok(own) => Some(function.join(own)),
        Err(_) => Some(function.join(path.strip_prefix("class").ok()?)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::counters::PortCounters;
    use super::super::cpus::tests::two_nodes;
    use super::super::view::tests::rxe0;
    use super::*;
    use weft_ipc::stat::StatReport;
    use weft_ipc::{IbPort, InfiniBand};

    /// An adapter whose port is umad `index`.
    pub fn adapter(name: &str, index: u32) -> DeviceInfo {
        let port = IbPort { number: 1, umad: index, ..IbPort::default() };
        let infiniband = InfiniBand { ports: vec![port], ..InfiniBand::default() };
        DeviceInfo {
            index,
            name: name.to_owned(),
            netdev: String::new(),
            infiniband: Some(Box::new(infiniband)),
            ..rxe0()
        }
    }

    fn view(names: &[&str], cpus: &Cpus) -> View {
        let adapters: Vec<_> = names.iter().zip(0..).map(|(name, index)| adapter(name, index)).collect();
        View::of(&adapters, &StatReport::default(), &PortCounters::new(), cpus)
    }

    fn text(view: &View, path: &str) -> Option<String> {
        let entry = view.entries.iter().find(|entry| entry.path == Path::new(path));
        entry.map(|entry| entry.text.trim_end().to_owned())
    }

    #[test]
    fn addresses_have_a_bus_for_each_node() {
        let of = |number, position, nodes| Address::of(number, position, nodes).map(|address| address.to_string());
        assert_eq!(of(0, 0, 1).as_deref(), Some("fab0:00:01.0"));
        assert_eq!(of(30, 0, 1).as_deref(), Some("fab0:00:1f.0"));
        assert_eq!(of(31, 0, 1).as_deref(), Some("fab0:01:01.0"));
        assert_eq!(of(3, 1, 2).as_deref(), Some("fab0:01:04.0"));
        assert_eq!(of(31, 0, 2).as_deref(), Some("fab0:02:01.0"));
        assert_eq!(of(255 * 31, 0, 1).as_deref(), Some("fab0:ff:01.0"));
        assert_eq!(of(256 * 31, 0, 1), None);
        assert_eq!(Address::of(9, 0, 1).unwrap().dir(), Path::new("devices/pcifab0:00/fab0:00:0a.0"));
    }

    #[test]
    fn an_adapter_s_files_are_below_its_function() {
        let view = view(&["mlx4_0"], &Cpus::of_count(2));
        let function = "devices/pcifab0:00/fab0:00:01.0";
        for (path, wanted) in [
            ("vendor", "0x15b3"),
            ("class", "0x020700"),
            ("numa_node", "-1"),
            ("local_cpulist", "0-1"),
            ("max_link_speed", "8.0 GT/s PCIe"),
            ("mlx4_port1_mtu", "0"),
            ("infiniband/mlx4_0/node_type", "1: CA"),
            ("infiniband/mlx4_0/ports/1/lid", "0x0"),
            ("infiniband_verbs/uverbs0/ibdev", "mlx4_0"),
            ("infiniband_mad/umad0/port", "1"),
        ] {
            assert_eq!(text(&view, &format!("{function}/{path}")).as_deref(), Some(wanted), "{path}");
        }
        assert_eq!(text(&view, "class/infiniband_verbs/abi_version").as_deref(), Some("6"));
        assert!(!view.entries.iter().any(|entry| entry.path.starts_with("class/infiniband")
            && entry.path.file_name().is_some_and(|name| name != "abi_version")));
        for (path, to) in [
            ("class/infiniband/mlx4_0", "infiniband/mlx4_0"),
            ("class/infiniband_verbs/uverbs0", "infiniband_verbs/uverbs0"),
            ("class/infiniband_mad/issm0", "infiniband_mad/issm0"),
            ("bus/pci/devices/fab0:00:01.0", ""),
        ] {
            let link = view.links.iter().find(|link| link.path == Path::new(path)).unwrap();
            assert_eq!(link.to, Path::new(function).join(to), "{path}");
        }
    }

    #[test]
    fn adapters_are_near_the_processors_of_their_nodes() {
        let view = view(&["a", "b"], &two_nodes());
        let of = |path: &str| text(&view, &format!("devices/{path}"));
        assert_eq!(of("pcifab0:00/fab0:00:01.0/numa_node").as_deref(), Some("0"));
        assert_eq!(of("pcifab0:01/fab0:01:02.0/numa_node").as_deref(), Some("1"));
        assert_eq!(of("pcifab0:01/fab0:01:02.0/local_cpulist").as_deref(), Some("4-7"));
        assert_eq!(of("pcifab0:01/pci_bus/fab0:01/cpuaffinity").as_deref(), Some("f0"));
    }

    #[test]
    fn rxe_devices_stay_where_they_are() {
        let view = View::of(&[rxe0()], &StatReport::default(), &PortCounters::new(), &Cpus::of_count(2));
        assert!(view.links.is_empty() && view.binaries.is_empty());
        assert!(view.entries.iter().all(|entry| entry.path.starts_with("class")));
    }
}
