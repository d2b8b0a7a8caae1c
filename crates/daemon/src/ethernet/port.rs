//! A host's interface, and its cable to the switch.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_ipc::ethernet::{EthernetSpec, ethernet_address};

/// Name of a host's interface.
pub(super) const INTERFACE: &str = "eth0";

/// Length of the prefix of the hosts' addresses.
const PREFIX: u8 = 16;

/// A host's interface and its cable to the switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EthernetPort {
    /// Number of the host, and of the switch's port.
    pub number: u32,
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
        EthernetPort { number, mtu: spec.mtu, limits: spec.is_shaped().then_some(limits) }
    }

    /// Its Ethernet address: a local one that follows from the number, so that GIDs are the same every time.
    pub(super) fn mac(&self) -> [u8; 6] {
        let [_, _, high, low] = (self.number + 1).to_be_bytes();
        [0x02, b'w', b'e', b'f', high, low]
    }

    /// Its address, with the length of its prefix.
    pub(super) fn address(&self) -> (IpAddr, u8) {
        (ethernet_address(self.number).into(), PREFIX)
    }

    /// Name of the switch's port.
    pub(super) fn port_name(&self) -> String {
        format!("port{}", self.number + 1)
    }
}
