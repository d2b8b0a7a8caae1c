//! A host's interface, and its cable to the switch.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_fabric::{Fabric, PortRef};
use weft_ipc::ethernet::{EthernetSpec, ethernet_address};

use crate::umad::ethernet_interfaces;

/// Name of the only interface of a host without InfiniBand.
const INTERFACE: &str = "eth0";

/// MTU of the interface of an adapter's port.
const ADAPTER_MTU: u32 = 1500;
/// Length of the prefix of the hosts' addresses.
const PREFIX: u8 = 16;

/// A host's interface and its cable to the switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EthernetPort {
    /// Number of the switch's port.
    pub number: u32,
    /// Name of the host's interface.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Whether the host may have a daemon of its own.
    pub has_daemon: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Limits of the cable; `None` for none.
    pub limits: Option<CableLimits>,
}

/// Limits of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CableLimits {
    /// Rate of each direction in Mb/s.
    pub rate_mbps: Option<u32>,
    /// Delay from the host to the switch.
    pub delay: Duration,
    /// Frames to lose per million from the host to the switch.
    pub loss_ppm: u32,
    /// Seed of the losses.
    pub seed: u64,
}

impl EthernetPort {
    /// The interface of a host of the network.
    pub fn of(spec: &EthernetSpec, number: u32) -> EthernetPort {
        let limits = CableLimits {
            rate_mbps: spec.rate_mbps,
            delay: spec.delay,
            loss_ppm: spec.loss_ppm,
            seed: spec.seed.wrapping_add(number.into()),
        };
        // A local address that follows from the number, so that GIDs are the same every time.
        let [_, _, high, low] = (number + 1).to_be_bytes();
        EthernetPort {
            number,
            name: INTERFACE.to_owned(),
            mac: [0x02, b'w', b'e', b'f', high, low],
            ip: ethernet_address(number),
            has_daemon: true,
            mtu: spec.mtu,
            limits: spec.is_shaped().then_some(limits),
        }
    }

    /// The interfaces of a host's adapters.
    pub fn of_adapters(fabric: &Fabric, adapters: &[u32]) -> Vec<EthernetPort> {
        let ports = fabric.ethernet();
        let describe = |(port, name): (PortRef, String)| {
            let number = ports.number(port)?;
            let (mac, ip) = (ports.mac(port)?, ports.ip(port)?);
            Some(EthernetPort { number, name, mac, ip, has_daemon: false, mtu: ADAPTER_MTU, limits: None })
        };
        ethernet_interfaces(fabric, adapters).into_iter().filter_map(describe).collect()
    }

    /// Its address, with the length of its prefix.
    pub(super) fn address(&self) -> (IpAddr, u8) {
        (self.ip.into(), PREFIX)
    }

    /// Name of the switch's port.
    pub(super) fn port_name(&self) -> String {
        format!("port{}", self.number + 1)
    }
}
