//! The identity of an adapter's PCI function: numbers, class, driver and PCI Express link. They follow from the adapter's
//! name, since a driver gives its adapters such names, and from its NodeInfo.

use weft_fabric::topology::generate;
use weft_ipc::{DeviceInfo, IbPort, InfiniBand};

/// Vendor ID of Weft's own adapters. The PCI-SIG has assigned it to no company.
const WEFT: u16 = 0xfab0;
const MELLANOX: u16 = 0x15b3;
const INTEL: u16 = 0x8086;
const QLOGIC: u16 = 0x1077;

/// The vendor ID of Mellanox in NodeInfo, which is an OUI of the IEEE.
const MELLANOX_OUI: u32 = 0x2c9;

/// Class codes: InfiniBand controller, fabric controller (Omni-Path), Ethernet controller.
const INFINIBAND: u32 = 0x02_0700;
const FABRIC: u32 = 0x02_0800;
const ETHERNET: u32 = 0x02_0000;

/// Adapters whose names begin alike.
struct Family {
    prefix: &'static str,
    driver: Option<&'static str>,
    vendor: u16,
    /// Device ID of one whose NodeInfo has that of a generated adapter.
    device: u16,
    class: u32,
    link: PcieLink,
}

const fn family(prefix: &'static str, driver: &'static str, vendor: u16, device: u16, link: PcieLink) -> Family {
    Family { prefix, driver: Some(driver), vendor, device, class: INFINIBAND, link }
}

const fn link(generation: u8, lanes: u8) -> PcieLink {
    PcieLink { generation, lanes }
}

/// Device ID of a ConnectX-6.
const CONNECTX_6: u16 = 0x101b;

/// The families of names; the first one whose prefix fits counts.
const FAMILIES: [Family; 8] = [
    family("mlx5", "mlx5_core", MELLANOX, CONNECTX_6, link(4, 16)),
    family("mlx4", "mlx4_core", MELLANOX, 0x1003, link(3, 8)),
    family("mthca", "ib_mthca", MELLANOX, 0x6274, link(1, 8)),
    Family { class: FABRIC, ..family("hfi1", "hfi1", INTEL, 0x24f0, link(3, 16)) },
    family("qib", "ib_qib", QLOGIC, 0x7322, link(2, 8)),
    // Names that rdma-core's rules of udev give.
    family("ib", "mlx5_core", MELLANOX, CONNECTX_6, link(4, 16)),
    family("roce", "mlx5_core", MELLANOX, CONNECTX_6, link(4, 16)),
    family("weft", "weft_ib", WEFT, generate::ADAPTER_ID, link(5, 16)),
];

/// The identity of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Vendor ID, also that of the subsystem.
    pub vendor: u16,
    /// Device ID, also that of the subsystem.
    pub device: u16,
    /// Class code, 24 bits.
    pub class: u32,
    /// The driver that Linux has for it; `None` for an adapter whose name tells none.
    pub driver: Option<&'static str>,
    /// The PCI Express link.
    pub link: PcieLink,
}

impl Identity {
    /// The identity of an adapter.
    pub fn of(device: &DeviceInfo, infiniband: &InfiniBand) -> Identity {
        let family = FAMILIES.iter().find(|family| device.name.starts_with(family.prefix));
        let is_generated = infiniband.vendor_id == generate::VENDOR_ID || infiniband.device_id == 0;
        let vendor = match family {
            Some(family) => family.vendor,
            None if infiniband.vendor_id == MELLANOX_OUI => MELLANOX,
            None => WEFT,
        };
        let device = match family {
            Some(family) if is_generated => family.device,
            _ => infiniband.device_id,
        };
        let class = match family {
            _ if infiniband.ports.iter().all(IbPort::is_ethernet) => ETHERNET,
            Some(family) => family.class,
            None => INFINIBAND,
        };
        let rates = infiniband.ports.iter().map(|port| port.lane_speed().0 * port.lanes() / 10);
        let link = family.map_or(link(5, 16), |family| family.link).for_rate(rates.max().unwrap_or_default());
        Identity { vendor, device, class, driver: family.and_then(|family| family.driver), link }
    }

    /// Text of `modalias`.
    pub fn modalias(&self) -> String {
        let Identity { vendor, device, class, .. } = self;
        let [_, base, sub, interface] = class.to_be_bytes();
        format!("pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd{device:08X}bc{base:02X}sc{sub:02X}i{interface:02X}")
    }

    /// Text of `uevent`, of a function at this address.
    pub fn uevent(&self, address: &str) -> String {
        let Identity { vendor, device, class, .. } = self;
        let driver = self.driver.map(|driver| format!("DRIVER={driver}\n")).unwrap_or_default();
        format!(
            "{driver}PCI_CLASS={class:04X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SUBSYS_ID={vendor:04X}:{device:04X}\n\
             PCI_SLOT_NAME={address}\nMODALIAS={}",
            self.modalias()
        )
    }
}

/// A PCI Express link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcieLink {
    /// Generation, 1 to 6: the number of the speed in the capability.
    pub generation: u8,
    /// Lanes.
    pub lanes: u8,
}

/// Speeds of the generations as sysfs writes them, and the data rate of a lane in Mb/s.
const GENERATIONS: [(&str, u32); 6] = [
    ("2.5 GT/s PCIe", 2_000),
    ("5.0 GT/s PCIe", 4_000),
    ("8.0 GT/s PCIe", 7_876),
    ("16.0 GT/s PCIe", 15_753),
    ("32.0 GT/s PCIe", 31_507),
    ("64.0 GT/s PCIe", 63_015),
];
const LANES_MAX: u8 = 16;

impl PcieLink {
    fn row(self) -> (&'static str, u32) {
        GENERATIONS[usize::from(self.generation.clamp(1, 6)) - 1]
    }

    /// Text of `max_link_speed`.
    pub fn speed(self) -> &'static str {
        self.row().0
    }

    /// This link, or the first wider or faster one that carries `gbps` Gb/s.
    fn for_rate(mut self, gbps: u32) -> PcieLink {
        while self.row().1 * u32::from(self.lanes) < gbps * 1000 {
            match self {
                PcieLink { lanes, .. } if lanes < LANES_MAX => self.lanes = LANES_MAX,
                PcieLink { generation, .. } if usize::from(generation) < GENERATIONS.len() => self.generation += 1,
                _ => break,
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::view::tests::rxe0;
    use weft_ipc::EthernetLink;

    fn adapter(name: &str, infiniband: InfiniBand) -> Identity {
        Identity::of(&DeviceInfo { name: name.to_owned(), ..rxe0() }, &infiniband)
    }

    fn generated() -> InfiniBand {
        let port = IbPort { active_width: 2, active_speed: 64, ..IbPort::default() };
        InfiniBand {
            vendor_id: generate::VENDOR_ID,
            device_id: generate::ADAPTER_ID,
            ports: vec![port],
            ..InfiniBand::default()
        }
    }

    #[test]
    fn names_tell_the_vendor() {
        for (name, vendor, device, driver) in [
            ("mlx5_0", 0x15b3, 0x101b, Some("mlx5_core")),
            ("mlx4_1", 0x15b3, 0x1003, Some("mlx4_core")),
            ("hfi1_0", 0x8086, 0x24f0, Some("hfi1")),
            ("qib0", 0x1077, 0x7322, Some("ib_qib")),
            ("ibp3s0", 0x15b3, 0x101b, Some("mlx5_core")),
            ("weft0", 0xfab0, 1, Some("weft_ib")),
            ("foo", 0xfab0, 1, None),
        ] {
            let found = adapter(name, generated());
            assert_eq!((found.vendor, found.device, found.driver), (vendor, device, driver), "{name}");
        }
        // One of a copied network.
        let copied = InfiniBand { vendor_id: MELLANOX_OUI, device_id: 0x1011, ..generated() };
        assert_eq!(adapter("mlx5_0", copied.clone()).device, 0x1011);
        let found = adapter("foo", copied);
        assert_eq!((found.vendor, found.device), (MELLANOX, 0x1011));
    }

    #[test]
    fn the_class_is_that_of_the_ports() {
        assert_eq!(adapter("mlx4_0", generated()).class, 0x02_0700);
        assert_eq!(adapter("hfi1_0", generated()).class, 0x02_0800);
        let mut ports = generated().ports;
        ports[0].ethernet = Some(EthernetLink::default());
        assert_eq!(adapter("mlx4_0", InfiniBand { ports, ..generated() }).class, 0x02_0000);
    }

    #[test]
    fn texts_are_those_of_linux() {
        let found = adapter("mlx4_0", generated());
        let modalias = "pci:v000015B3d00001003sv000015B3sd00001003bc02sc07i00";
        assert_eq!(found.modalias(), modalias);
        let wanted = format!(
            "DRIVER=mlx4_core\nPCI_CLASS=20700\nPCI_ID=15B3:1003\nPCI_SUBSYS_ID=15B3:1003\n\
             PCI_SLOT_NAME=fab0:00:01.0\nMODALIAS={modalias}"
        );
        assert_eq!(found.uevent("fab0:00:01.0"), wanted);
    }

    #[test]
    fn the_link_carries_the_port_s_rate() {
        for (from, gbps, wanted) in [
            (link(3, 8), 56, link(3, 8)),
            (link(3, 8), 100, link(3, 16)),
            (link(4, 16), 400, link(5, 16)),
            (link(1, 8), 200, link(4, 16)),
            (link(5, 16), 800, link(6, 16)),
            (link(5, 16), 2400, link(6, 16)),
            (link(4, 16), 0, link(4, 16)),
        ] {
            assert_eq!(from.for_rate(gbps), wanted, "{gbps}");
        }
        assert_eq!(link(4, 16).speed(), "16.0 GT/s PCIe");
    }
}
