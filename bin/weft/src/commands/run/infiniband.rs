//! The view of a virtual host's adapters in /sys/class and /dev, as Linux shows an InfiniBand adapter. All of it can
//! change while the program runs: a subnet manager assigns LIDs, cables are cut.

use anyhow::Result;
use weft_ipc::umad::IbCounters;
use weft_ipc::{ConnectOptions, DeviceInfo, IbPort, InfiniBand, UmadClient};

use super::counters::PortCounters;
use super::issm::IssmNode;
use super::view::{Entry, Shown, View, class_path, groups};

/// First minor number of the issm device nodes (major 231), which subnet managers hold open.
const ISSM_MINOR_BASE: u32 = 64;

/// Reads a counter's value.
type Value = fn(&IbCounters) -> u64;

/// Names and values in `ports/N/counters`.
const COUNTERS: [(&str, Value); 21] = [
    ("VL15_dropped", |c| c.vl15_dropped),
    ("excessive_buffer_overrun_errors", |c| c.excessive_buffer_overrun_errors),
    ("link_downed", |c| c.link_downed),
    ("link_error_recovery", |c| c.link_error_recovery),
    ("local_link_integrity_errors", |c| c.local_link_integrity_errors),
    ("multicast_rcv_packets", |c| c.multicast_rcv_packets),
    ("multicast_xmit_packets", |c| c.multicast_xmit_packets),
    ("port_rcv_constraint_errors", |c| c.port_rcv_constraint_errors),
    ("port_rcv_data", |c| c.port_rcv_data),
    ("port_rcv_errors", |c| c.port_rcv_errors),
    ("port_rcv_packets", |c| c.port_rcv_packets),
    ("port_rcv_remote_physical_errors", |c| c.port_rcv_remote_physical_errors),
    ("port_rcv_switch_relay_errors", |c| c.port_rcv_switch_relay_errors),
    ("port_xmit_constraint_errors", |c| c.port_xmit_constraint_errors),
    ("port_xmit_data", |c| c.port_xmit_data),
    ("port_xmit_discards", |c| c.port_xmit_discards),
    ("port_xmit_packets", |c| c.port_xmit_packets),
    ("port_xmit_wait", |c| c.port_xmit_wait),
    ("symbol_error", |c| c.symbol_error),
    ("unicast_rcv_packets", |c| c.unicast_rcv_packets),
    ("unicast_xmit_packets", |c| c.unicast_xmit_packets),
];

/// Queries the adapters of the host that the options name, and their port counters.
pub fn fetch(options: &ConnectOptions) -> Result<(Vec<DeviceInfo>, PortCounters)> {
    let client = UmadClient::new(options.clone());
    let devices = client.devices()?;
    let mut counters = PortCounters::new();
    for (device, infiniband) in adapters(&devices) {
        for port in &infiniband.ports {
            counters.insert((device.index, port.number), client.counters(device.index, port.number)?);
        }
    }
    Ok((devices, counters))
}

fn adapters(devices: &[DeviceInfo]) -> impl Iterator<Item = (&DeviceInfo, &InfiniBand)> {
    devices.iter().filter_map(|device| Some((device, device.infiniband.as_deref()?)))
}

impl View {
    /// Builds the view of a host's adapters.
    pub fn of_adapters(devices: &[DeviceInfo], counted: &PortCounters) -> View {
        let mut view = View::default();
        view.put("infiniband_mad/abi_version", "5");
        for (device, infiniband) in adapters(devices) {
            view.adapter(device, infiniband);
            for port in &infiniband.ports {
                view.port_of_adapter(device, port);
                view.counters_of_adapter(device, port, counted);
                view.mad_nodes(device, port);
                if !port.is_ethernet() {
                    view.srp_initiator(device, port);
                }
            }
        }
        view
    }

    /// Adds a file whose content can change.
    fn put_live(&mut self, path: &str, text: impl AsRef<str>) {
        let (path, text) = (class_path(path), format!("{}\n", text.as_ref()));
        self.entries.push(Entry { shown: Shown::Adapter(path.clone()), path, text });
    }

    fn adapter(&mut self, device: &DeviceInfo, infiniband: &InfiniBand) {
        let dir = format!("infiniband/{}", device.name);
        self.put(&format!("{dir}/node_type"), "1: CA");
        self.put(&format!("{dir}/node_guid"), groups(&device.node_guid.to_be_bytes()));
        self.put(&format!("{dir}/sys_image_guid"), groups(&infiniband.system_image_guid.to_be_bytes()));
        self.put_live(&format!("{dir}/node_desc"), &infiniband.node_description);
        self.put(&format!("{dir}/fw_ver"), env!("CARGO_PKG_VERSION"));
        self.put(&format!("{dir}/hw_rev"), format!("{:x}", infiniband.revision));
        self.put(&format!("{dir}/hca_type"), &device.kind);
        self.put(&format!("{dir}/board_id"), format!("WEFT{:06x}{:04x}", infiniband.vendor_id, infiniband.device_id));
        self.put(&format!("{dir}/uevent"), format!("NAME={}", device.name));
    }

    fn port_of_adapter(&mut self, device: &DeviceInfo, port: &IbPort) {
        let dir = format!("infiniband/{}/ports/{}", device.name, port.number);
        self.put_live(&format!("{dir}/state"), format!("{}: {}", port.state, state_word(port.state)));
        self.put_live(
            &format!("{dir}/phys_state"),
            format!("{}: {}", port.phys_state, phys_state_word(port.phys_state)),
        );
        self.put_live(&format!("{dir}/rate"), rate(port));
        self.put_live(&format!("{dir}/lid"), format!("{:#x}", port.lid));
        self.put_live(&format!("{dir}/lid_mask_count"), port.lmc.to_string());
        self.put_live(&format!("{dir}/sm_lid"), format!("{:#x}", port.sm_lid));
        self.put_live(&format!("{dir}/sm_sl"), port.sm_sl.to_string());
        self.put_live(&format!("{dir}/cap_mask"), format!("{:#010x}", port.capabilities));
        self.put(&format!("{dir}/link_layer"), if port.is_ethernet() { "Ethernet" } else { "InfiniBand" });
        for row in 0..port.gid_rows() {
            self.put_live(&format!("{dir}/gids/{row}"), groups(&port.gid(row).unwrap_or_default()));
        }
        if device.name.starts_with("mlx4_") {
            let file = format!("infiniband/{}/device/mlx4_port{}_mtu", device.name, port.number);
            self.put(&file, port.max_mtu.to_string());
        }
        // The kernel gives a type for every row that has a GID. For other rows it returns EINVAL, to which a missing file
        // comes closest.
        match port.roce_gids() {
            [] => self.put(&format!("{dir}/gid_attrs/types/0"), "IB/RoCE v1"),
            rows => self.gid_attributes(&dir, rows, port.ethernet.as_ref().map_or("", |link| &link.netdev)),
        }
        for (row, pkey) in port.pkeys.iter().enumerate() {
            self.put_live(&format!("{dir}/pkeys/{row}"), format!("{pkey:#06x}"));
        }
    }

    fn counters_of_adapter(&mut self, device: &DeviceInfo, port: &IbPort, counted: &PortCounters) {
        let counters = counted.get(&(device.index, port.number)).copied().unwrap_or_default();
        for (name, value) in COUNTERS {
            let path = format!("infiniband/{}/ports/{}/counters/{name}", device.name, port.number);
            self.put_live(&path, value(&counters).to_string());
        }
        self.put(&format!("infiniband/{}/ports/{}/hw_counters/lifespan", device.name, port.number), "12");
    }

    fn mad_nodes(&mut self, device: &DeviceInfo, port: &IbPort) {
        let (umad, issm) = (format!("umad{}", port.umad), format!("issm{}", port.umad));
        for (node, minor) in [(&umad, port.umad), (&issm, ISSM_MINOR_BASE + port.umad)] {
            let dir = format!("infiniband_mad/{node}");
            self.put(&format!("{dir}/ibdev"), &device.name);
            self.put(&format!("{dir}/port"), port.number.to_string());
            self.put(&format!("{dir}/dev"), format!("231:{minor}"));
        }
        self.nodes.push(umad);
        self.issm.push(IssmNode { name: issm, device: device.index, port: port.number });
    }
}

impl View {
    /// Adds a port's place for SRP logins, as `ib_srp` makes it.
    fn srp_initiator(&mut self, device: &DeviceInfo, port: &IbPort) {
        let dir = format!("infiniband_srp/srp-{}-{}", device.name, port.number);
        self.put(&format!("{dir}/ibdev"), &device.name);
        self.put(&format!("{dir}/port"), port.number.to_string());
        self.srp_logins.push(class_path(&format!("{dir}/add_target")));
    }
}

fn state_word(state: u8) -> &'static str {
    match state {
        0 => "NOP",
        1 => "DOWN",
        2 => "INIT",
        3 => "ARMED",
        4 => "ACTIVE",
        5 => "ACTIVE_DEFER",
        _ => "unknown",
    }
}

fn phys_state_word(state: u8) -> &'static str {
    match state {
        1 => "Sleep",
        2 => "Polling",
        3 => "Disabled",
        4 => "PortConfigurationTraining",
        5 => "LinkUp",
        6 => "LinkErrorRecovery",
        7 => "Phy Test",
        _ => "<unknown>",
    }
}

/// Formats rate, width and speed.
fn rate(port: &IbPort) -> String {
    let (tenths, name) = port.lane_speed();
    let lanes = port.lanes().max(1);
    let rate = tenths * lanes;
    let half = if rate.is_multiple_of(10) { "" } else { ".5" };
    format!("{}{half} Gb/sec ({lanes}X {name})", rate / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_linux_does() {
        let rate = |active_width, active_speed| rate(&IbPort { active_width, active_speed, ..IbPort::default() });
        assert_eq!(rate(2, 32), "100 Gb/sec (4X EDR)");
        assert_eq!(rate(1, 1), "2.5 Gb/sec (1X SDR)");
        assert_eq!(rate(2, 16), "56 Gb/sec (4X FDR)");
        assert_eq!(rate(8, 2), "60 Gb/sec (12X DDR)");
        assert_eq!(rate(2, 256), "800 Gb/sec (4X XDR)");
    }

    #[test]
    fn an_adapter_is_shown_as_linux_shows_one() {
        let port = IbPort {
            number: 1,
            umad: 3,
            guid: 0x0002_c903_0a00_0001,
            gid_prefix: 0xfe80 << 48,
            lid: 5,
            sm_lid: 1,
            state: 4,
            phys_state: 5,
            active_width: 2,
            active_speed: 64,
            capabilities: 0x0250_e84a,
            pkeys: vec![0xffff, 0],
            ..IbPort::default()
        };
        let infiniband =
            InfiniBand { node_description: "h1 HCA-1".to_owned(), ports: vec![port], ..InfiniBand::default() };
        let device = DeviceInfo {
            name: "weft0".to_owned(),
            kind: weft_ipc::DEVICE_KIND_IB.to_owned(),
            netdev: String::new(),
            infiniband: Some(Box::new(infiniband)),
            ..super::super::view::tests::rxe0()
        };
        let view = View::of_adapters(&[device], &PortCounters::new());
        let of =
            |path: &str| view.entries.iter().find(|e| e.path.ends_with(path)).map(|e| e.text.trim_end().to_owned());
        for (path, text) in [
            ("weft0/ports/1/state", "4: ACTIVE"),
            ("weft0/ports/1/phys_state", "5: LinkUp"),
            ("weft0/ports/1/rate", "200 Gb/sec (4X HDR)"),
            ("weft0/ports/1/lid", "0x5"),
            ("weft0/ports/1/cap_mask", "0x0250e84a"),
            ("weft0/ports/1/gids/0", "fe80:0000:0000:0000:0002:c903:0a00:0001"),
            ("weft0/ports/1/pkeys/0", "0xffff"),
            ("weft0/node_desc", "h1 HCA-1"),
            ("infiniband_mad/umad3/ibdev", "weft0"),
            ("infiniband_mad/issm3/dev", "231:67"),
        ] {
            assert_eq!(of(path).as_deref(), Some(text), "{path}");
        }
        assert_eq!(view.nodes, ["umad3"]);
        assert_eq!(view.issm.len(), 1);
    }
}
