//! The view of Weft's devices that a program has in /sys/class and /dev, as Linux shows an rxe device. It is of one
//! moment: counters ([`super::live`]) and the devices themselves ([`super::following`]) bring it up to date. Adapters of
//! a virtual host, all of whose attributes can change, are in [`super::infiniband`], and their PCI functions in
//! [`super::pci`].

use std::fmt::Write;
use std::path::{Path, PathBuf};

use weft_ipc::stat::StatReport;
use weft_ipc::{DeviceInfo, GID_TABLE_ROWS_MAX, GidEntry, GidType, PhysState, PortState};

use super::counters::{self, Counter, PortCounters};
use super::cpus::Cpus;
use super::issm::IssmNode;
use crate::commands::cm::Setting;

/// A file of the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Path below /sys.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    /// Source of the content.
    pub shown: Shown,
}

/// Source of a file's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Constant, or a snapshot.
    Fixed,
    /// A counter that can change.
    Counter(Counter),
    /// An attribute of a virtual host's adapter: the entry at this path of [`View::of_adapters`].
    Adapter(PathBuf),
    /// A default of the connection manager.
    Default(CmDefault),
}

/// A default of the connection manager for new ids on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmDefault {
    /// Index of the device.
    pub device: u32,
    /// Which one.
    pub setting: Setting,
}

/// GID table rows without an address: their directory and row numbers. All read as zeros, so one file serves for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmptyGids {
    /// Path of the directory below /sys.
    pub dir: PathBuf,
    /// Rows.
    pub rows: Vec<u32>,
}

/// A symbolic link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Path below /sys.
    pub path: PathBuf,
    /// The path below /sys that it leads to.
    pub to: PathBuf,
}

/// The whole view.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Files.
    pub entries: Vec<Entry>,
    /// Files that contain no text, and never change: their paths below /sys, and contents.
    pub binaries: Vec<(PathBuf, Vec<u8>)>,
    /// Symbolic links.
    pub links: Vec<Link>,
    /// Empty rows of the GID tables.
    pub empty_gids: Vec<EmptyGids>,
    /// Names of the nodes in /dev/infiniband.
    pub nodes: Vec<String>,
    /// The issm nodes there.
    pub issm: Vec<IssmNode>,
    /// Files that take SRP logins: their paths below /sys.
    pub srp_logins: Vec<PathBuf>,
    /// Text in place of /etc/hosts.
    pub hosts_file: Option<String>,
}

/// Content of an empty row.
pub const ZERO_GID: &str = "0000:0000:0000:0000:0000:0000:0000:0000\n";

/// First minor number of verbs devices (major 231).
const UVERBS_MINOR_BASE: u32 = 192;

impl View {
    /// Builds the view of these devices, with their counters.
    pub fn of(devices: &[DeviceInfo], counted: &StatReport, ports: &PortCounters, cpus: &Cpus) -> View {
        let (adapters, devices): (Vec<_>, Vec<_>) =
            devices.iter().cloned().partition(|device| device.infiniband.is_some());
        let mut view = if adapters.is_empty() { View::default() } else { View::of_adapters(&adapters, ports) };
        for (number, adapter) in (0u32..).zip(&adapters) {
            view.verbs(adapter, number);
        }
        view.add_functions(&adapters, cpus);
        view.put("infiniband_verbs/abi_version", "6");
        view.put("misc/rdma_cm/abi_version", "4");
        for device in &devices {
            view.device(device, cpus);
            view.port(device);
            view.counters(device, counted);
            view.verbs(device, device.index);
        }
        view.nodes.push("rdma_cm".to_owned());
        view
    }

    /// Adds a file at a path below /sys/class.
    pub(super) fn put(&mut self, path: &str, text: impl AsRef<str>) {
        self.put_below_sys(class_path(path), text);
    }

    pub(super) fn put_below_sys(&mut self, path: PathBuf, text: impl AsRef<str>) {
        let text = format!("{}\n", text.as_ref());
        self.entries.push(Entry { path, text, shown: Shown::Fixed });
    }

    fn device(&mut self, info: &DeviceInfo, cpus: &Cpus) {
        let dir = format!("infiniband/{}", info.name);
        let guid = groups(&info.node_guid.to_be_bytes());
        let (node_type, description) =
            if info.is_iwarp() { ("4: RNIC", "Software iWARP stack") } else { ("1: CA", info.kind.as_str()) };
        self.put(&format!("{dir}/node_type"), node_type);
        self.put(&format!("{dir}/node_guid"), &guid);
        self.put(&format!("{dir}/sys_image_guid"), &guid);
        self.put(&format!("{dir}/node_desc"), description);
        // Linux's siw has no firmware's version.
        self.put(&format!("{dir}/fw_ver"), if info.is_iwarp() { "0.0.0" } else { env!("CARGO_PKG_VERSION") });
        self.put(&format!("{dir}/parent"), &info.netdev);
        self.put(&format!("{dir}/uevent"), format!("NAME={}", info.name));
        self.bus_device(info, cpus);
        self.put(&format!("{dir}/device/net/{}/ifindex", info.netdev), info.ifindex.to_string());
    }

    /// Stands in for a real adapter's bus device: programs look there for the nearest CPUs.
    pub(super) fn bus_device(&mut self, info: &DeviceInfo, cpus: &Cpus) {
        let (dir, near) = (format!("infiniband/{}/device", info.name), cpus.all());
        self.put(&format!("{dir}/numa_node"), &near.node);
        self.put(&format!("{dir}/local_cpus"), &near.mask);
        self.put(&format!("{dir}/local_cpulist"), &near.list);
    }

    fn port(&mut self, info: &DeviceInfo) {
        let dir = format!("infiniband/{}/ports/1", info.name);
        let state = match info.state {
            PortState::Down => "1: DOWN",
            PortState::Active => "4: ACTIVE",
        };
        let phys_state = match info.phys_state {
            PhysState::Polling => "2: Polling",
            PhysState::Disabled => "3: Disabled",
            PhysState::LinkUp => "5: LinkUp",
        };
        for (name, text) in [
            ("state", state),
            ("phys_state", phys_state),
            // Linux's siw reports this rate, whatever its interface has.
            ("rate", if info.is_iwarp() { "2.5 Gb/sec (1X SDR)" } else { rate(info.link_speed_mbps) }),
            ("lid", "0x0"),
            ("lid_mask_count", "0"),
            ("sm_lid", "0x0"),
            ("sm_sl", "0"),
            ("cap_mask", if info.is_iwarp() { "0x00090000" } else { "0x00010000" }),
            ("link_layer", "Ethernet"),
        ] {
            self.put(&format!("{dir}/{name}"), text);
        }
        for (row, pkey) in info.pkeys.iter().enumerate() {
            self.put(&format!("{dir}/pkeys/{row}"), format!("{pkey:#06x}"));
        }
        for entry in &info.gids {
            self.put(&format!("{dir}/gids/{}", entry.index), groups(&entry.gid));
        }
        self.gid_attributes(&dir, &info.gids, &info.netdev);
        // Linux returns EINVAL for the type and interface of an empty row; a missing file comes closest.
        let filled = |row: &u32| info.gids.iter().any(|entry| entry.index == *row);
        let rows = if info.is_iwarp() { 1 } else { GID_TABLE_ROWS_MAX as u32 };
        self.empty_gids.push(EmptyGids {
            dir: class_path(&format!("{dir}/gids")),
            rows: (0..rows).filter(|row| !filled(row)).collect(),
        });
    }

    /// Adds type and interface of the rows of a RoCE port.
    pub(super) fn gid_attributes(&mut self, dir: &str, rows: &[GidEntry], netdev: &str) {
        for GidEntry { index, gid_type, .. } in rows {
            let kind = match gid_type {
                GidType::RoceV1 => "IB/RoCE v1",
                GidType::RoceV2 => "RoCE v2",
            };
            self.put(&format!("{dir}/gid_attrs/types/{index}"), kind);
            self.put(&format!("{dir}/gid_attrs/ndevs/{index}"), netdev);
        }
    }

    fn counters(&mut self, info: &DeviceInfo, counted: &StatReport) {
        let dir = format!("infiniband/{}/ports/1", info.name);
        for counter in counters::all(info.index) {
            let text = format!("{}\n", counter.value(counted));
            let path = class_path(&format!("{dir}/{}", counter.path()));
            let shown = if counter.moves() { Shown::Counter(counter) } else { Shown::Fixed };
            self.entries.push(Entry { path, text, shown });
        }
        self.put(&format!("{dir}/hw_counters/lifespan"), "12");
    }

    fn verbs(&mut self, info: &DeviceInfo, number: u32) {
        let node = format!("uverbs{number}");
        let dir = format!("infiniband_verbs/{node}");
        self.put(&format!("{dir}/ibdev"), &info.name);
        self.put(&format!("{dir}/abi_version"), "2");
        self.put(&format!("{dir}/dev"), format!("231:{}", UVERBS_MINOR_BASE + number));
        self.nodes.push(node);
    }
}

/// Returns the path below /sys of one below /sys/class.
pub(super) fn class_path(path: &str) -> PathBuf {
    Path::new("class").join(path)
}

/// Formats bytes in four-digit groups, as sysfs writes GUIDs and GIDs.
pub(super) fn groups(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 && i % 2 == 0 {
            out.push(':');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The InfiniBand rate nearest to an interface's speed, as the kernel chooses it for RoCE.
fn rate(mbps: Option<u32>) -> &'static str {
    match mbps.unwrap_or(1000) {
        0..=1000 => "2.5 Gb/sec (1X SDR)",
        1001..=10_000 => "10 Gb/sec (1X FDR10)",
        10_001..=20_000 => "20 Gb/sec (4X DDR)",
        20_001..=25_000 => "25 Gb/sec (1X EDR)",
        25_001..=40_000 => "40 Gb/sec (4X FDR10)",
        40_001..=50_000 => "50 Gb/sec (2X EDR)",
        50_001..=100_000 => "100 Gb/sec (4X EDR)",
        100_001..=200_000 => "200 Gb/sec (4X HDR)",
        _ => "400 Gb/sec (4X NDR)",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weft_ipc::GidEntry;

    pub fn rxe0() -> DeviceInfo {
        let gid = |text: &str, index| GidEntry {
            index,
            gid: text.parse::<std::net::Ipv6Addr>().unwrap().octets(),
            gid_type: GidType::RoceV2,
            ifindex: 2,
        };
        DeviceInfo {
            index: 0,
            name: "rxe0".to_owned(),
            kind: "rxe".to_owned(),
            node_guid: 0x5054_00ff_fe77_0001,
            netdev: "eth0".to_owned(),
            ifindex: 2,
            mac: [0x52, 0x54, 0, 0x77, 0, 1],
            netdev_mtu: 1500,
            active_mtu: 1024,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            gids: vec![gid("fe80::5054:ff:fe77:1", 0), gid("::ffff:10.77.0.1", 1), gid("fd77::1", 2)],
            pkeys: vec![0xffff],
            link_speed_mbps: None,
            auto: false,
            infiniband: None,
        }
    }

    /// Content that Linux's rxe shows: path, a blank, the text.
    const GOLDEN: &str = include_str!("../../../testdata/sysfs-rxe0.txt");

    #[test]
    fn the_view_agrees_with_what_linux_shows_of_rxe() {
        let view = View::of(&[rxe0()], &StatReport::default(), &PortCounters::new(), &Cpus::of_count(2));
        for line in GOLDEN.lines() {
            let (path, text) = line.split_once(' ').unwrap();
            let entry = view.entries.iter().find(|e| e.path.ends_with(path));
            assert_eq!(entry.map(|e| e.text.trim_end()), Some(text), "{path}");
        }
    }

    #[test]
    fn every_row_of_the_gid_table_is_there_once() {
        let view = View::of(&[rxe0()], &StatReport::default(), &PortCounters::new(), &Cpus::of_count(2));
        assert_eq!(view.empty_gids[0].rows.len(), GID_TABLE_ROWS_MAX - 3);
        assert!(!view.empty_gids[0].rows.contains(&1));
        assert_eq!(view.nodes, ["uverbs0", "rdma_cm"]);
    }
}
