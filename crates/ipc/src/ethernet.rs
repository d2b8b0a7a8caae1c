//! Messages about the Ethernet network of virtual hosts: one switch, and hosts with one interface each. Unlike hosts of a
//! fabric, each host is a machine to Weft: it has a daemon and RoCE devices of its own.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::{ETHERNET_DELAY_MAX, ETHERNET_HOSTS_MAX};

/// Abstract name, in the network namespace of each Ethernet host, at which the machine's daemon listens: the daemon of the
/// host has the usual name there.
pub const ETHERNET_SOCKET_NAME: &str = "weft-machine-0";

/// Environment variable that names the Ethernet host a program runs on; `weft run --host` sets it.
pub const ETHERNET_VARIABLE: &str = "WEFT_ETHERNET_HOST";

/// Range of the MTU: the least that IPv6 needs, and the longest that veth interfaces and TAPs take.
pub const ETHERNET_MTU: std::ops::RangeInclusive<u32> = 1280..=65520;

const PPM: u32 = 1_000_000;

/// Description of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EthernetSpec {
    /// Number of hosts.
    pub hosts: u32,
    /// MTU of their interfaces in bytes.
    pub mtu: u32,
    /// Rate of each cable in each direction, in Mb/s; `None` for no limit.
    pub rate_mbps: Option<u32>,
    /// Delay from one host to another, in addition to the time that the rate takes.
    pub delay: Duration,
    /// Frames to lose per million, once on the way from one host to another.
    pub loss_ppm: u32,
    /// Seed of the losses.
    pub seed: u64,
}

impl EthernetSpec {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The text names the value that is out of its range.
    pub fn check(&self) -> Result<(), String> {
        let range = |name: &str, unit: &str, is_in: bool, (low, high): (u64, u64)| match is_in {
            true => Ok(()),
            false => Err(format!("{name} is out of range: {low} to {high}{unit}")),
        };
        let hosts = 1..=ETHERNET_HOSTS_MAX;
        range("number of hosts", "", hosts.contains(&self.hosts), (1, ETHERNET_HOSTS_MAX.into()))?;
        let mtu = (u64::from(*ETHERNET_MTU.start()), u64::from(*ETHERNET_MTU.end()));
        range("MTU", " bytes", ETHERNET_MTU.contains(&self.mtu), mtu)?;
        range("rate", " Mb/s", self.rate_mbps != Some(0), (1, u32::MAX.into()))?;
        range("delay", " s", self.delay <= ETHERNET_DELAY_MAX, (0, ETHERNET_DELAY_MAX.as_secs()))?;
        range("loss", " per million", self.loss_ppm <= PPM, (0, PPM.into()))
    }

    /// Whether the cables are slower than the machine: Weft then carries each frame itself.
    pub fn is_shaped(&self) -> bool {
        self.rate_mbps.is_some() || !self.delay.is_zero() || self.loss_ppm > 0
    }

    /// Names of all hosts, in their order.
    pub fn host_names(&self) -> impl Iterator<Item = String> {
        (0..self.hosts).map(ethernet_host_name)
    }
}

/// The name of a host by its number, from 0.
pub fn ethernet_host_name(number: u32) -> String {
    format!("node{}", u64::from(number) + 1)
}

/// The address of a host's interface by its number: 192.168.1.1 is the first host's.
pub fn ethernet_address(number: u32) -> Ipv4Addr {
    /// Last octets from 1 to 254: some programs take the others for a network's own.
    const IN_ONE_OCTET: u32 = 254;
    let third = 1 + number / IN_ONE_OCTET;
    Ipv4Addr::new(192, 168, third.min(255) as u8, (1 + number % IN_ONE_OCTET) as u8)
}

/// A failure that a network does not recover from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EthernetFailure {
    /// The process that owns the switch ended.
    Switch,
    /// The process that carries the frames of cables with limits ended.
    Cables,
}

impl fmt::Display for EthernetFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = match self {
            EthernetFailure::Switch => "owns the switch",
            EthernetFailure::Cables => "carries the frames of the cables",
        };
        write!(f, "the hosts have lost their links: the process that {process} has ended")
    }
}

/// The network that is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EthernetStatus {
    /// Its description.
    pub spec: EthernetSpec,
    /// Seconds since it came up.
    pub uptime_s: u64,
    /// A failure since then.
    pub failure: Option<EthernetFailure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_name_and_an_address() {
        assert_eq!((ethernet_host_name(0), ethernet_address(0)), ("node1".into(), [192, 168, 1, 1].into()));
        assert_eq!(ethernet_address(253), Ipv4Addr::from([192, 168, 1, 254]));
        assert_eq!(ethernet_address(254), Ipv4Addr::from([192, 168, 2, 1]));
        let all: std::collections::BTreeSet<_> = (0..ETHERNET_HOSTS_MAX).map(ethernet_address).collect();
        assert_eq!(all.len(), ETHERNET_HOSTS_MAX as usize);
    }

    #[test]
    fn values_out_of_range_are_named() {
        let good = EthernetSpec { hosts: 2, mtu: 1500, rate_mbps: None, delay: Duration::ZERO, loss_ppm: 0, seed: 1 };
        assert_eq!((good.check(), good.is_shaped()), (Ok(()), false));
        for (spec, name) in [
            (EthernetSpec { hosts: 0, ..good }, "number of hosts"),
            (EthernetSpec { hosts: ETHERNET_HOSTS_MAX + 1, ..good }, "number of hosts"),
            (EthernetSpec { mtu: 576, ..good }, "MTU"),
            (EthernetSpec { rate_mbps: Some(0), ..good }, "rate"),
            (EthernetSpec { delay: ETHERNET_DELAY_MAX * 2, ..good }, "delay"),
            (EthernetSpec { loss_ppm: PPM + 1, ..good }, "loss"),
        ] {
            assert!(spec.check().is_err_and(|text| text.starts_with(name)), "{name}");
        }
        assert!(EthernetSpec { loss_ppm: 1, ..good }.is_shaped());
    }
}
