//! `weft up --ethernet HOSTS`: virtual hosts on an Ethernet switch, with RoCE devices.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use weft_fabric::topology::counted;
use weft_ipc::ethernet::{EthernetSpec, EthernetStatus, ethernet_address, ethernet_host_name};
use weft_ipc::{ETHERNET_DELAY_MAX, ETHERNET_HOSTS_MAX};
use weft_link::units;

/// MTU of an Ethernet interface unless the user says otherwise.
const MTU: u32 = 1500;

const MBPS_PER_GBPS: f64 = 1000.0;

/// Options of an Ethernet network.
#[derive(Args, Clone, Copy, Debug)]
pub struct EthernetArgs {
    /// Instead of a fabric: this many hosts on one Ethernet switch, each with an interface eth0 and RoCE devices of its own
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["file", "shape", "packets", "ipoib_mode", "no_sm", "sm_host", "sm_config", "no_wait", "test"],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ETHERNET_HOSTS_MAX)))]
    ethernet: Option<u32>,
    /// Rate of each host's Ethernet cable, such as 25Gb/s or 100Mb/s [default: no limit]
    #[arg(long, value_name = "RATE", requires = "ethernet", value_parser = rate_mbps)]
    rate: Option<u32>,
    /// Time that a frame takes from host to host over Ethernet, such as 50us or 10ms [default: no delay]
    #[arg(long, value_name = "TIME", requires = "ethernet", value_parser = delay)]
    delay: Option<Duration>,
    /// Share of frames that Ethernet loses between two hosts, such as 1% or 50ppm
    #[arg(long, value_name = "SHARE", requires = "ethernet", value_parser = units::share_ppm)]
    loss: Option<u32>,
    /// MTU of the Ethernet interfaces in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", requires = "ethernet")]
    mtu: Option<u32>,
}

impl EthernetArgs {
    /// The network to bring up, if the user wants one. A `seed` of 0 stands for a random one.
    ///
    /// # Errors
    /// A value is out of its range; the text is for the user.
    pub fn spec(&self, seed: u64) -> Result<Option<EthernetSpec>, String> {
        let Some(hosts) = self.ethernet else { return Ok(None) };
        let spec = EthernetSpec {
            hosts,
            mtu: self.mtu.unwrap_or(MTU),
            rate_mbps: self.rate,
            delay: self.delay.unwrap_or_default(),
            loss_ppm: self.loss.unwrap_or(0),
            seed: if seed == 0 { weft_sys::random::u64() } else { seed },
        };
        spec.check().map(|()| Some(spec))
    }
}

/// Parses a rate into Mb/s: `25Gb/s`, `25gbit`, `100Mb/s`, `100mbit`.
fn rate_mbps(text: &str) -> Result<u32, String> {
    const UNITS: [(&str, f64); 4] = [("gb/s", MBPS_PER_GBPS), ("gbit", MBPS_PER_GBPS), ("mb/s", 1.0), ("mbit", 1.0)];
    let lower = text.trim().to_ascii_lowercase();
    let found = UNITS.iter().find_map(|(unit, scale)| Some((lower.strip_suffix(unit)?.trim_end(), scale)));
    let Some((Ok(number), scale)) = found.map(|(number, scale)| (number.parse::<f64>(), scale)) else {
        return Err("a rate is a number with a unit, Gb/s or Mb/s, such as 25Gb/s".to_owned());
    };
    let mbps = (number * scale).round();
    if !(1.0..=f64::from(u32::MAX)).contains(&mbps) {
        return Err("a rate is at least 1Mb/s".to_owned());
    }
    Ok(mbps as u32)
}

fn delay(text: &str) -> Result<Duration, String> {
    units::time(text, ETHERNET_DELAY_MAX)
}

/// Describes a network in one line.
pub fn summary(spec: &EthernetSpec) -> String {
    let mut text = format!("Ethernet: {} on one switch, MTU {}", counted(spec.hosts, "host"), spec.mtu);
    match spec.rate_mbps.map(f64::from) {
        Some(rate) if rate >= MBPS_PER_GBPS => text += &format!(", {} Gb/s", rate / MBPS_PER_GBPS),
        Some(rate) => text += &format!(", {rate} Mb/s"),
        None => {}
    }
    if !spec.delay.is_zero() {
        text += &format!(", delay {:?}", spec.delay);
    }
    if spec.loss_ppm > 0 {
        text += &format!(", loss {}%", f64::from(spec.loss_ppm) / 1e4);
    }
    text
}

/// The names and addresses of the hosts in a few words: `node1 (192.168.1.1) to node4 (192.168.1.4)`.
pub fn hosts(spec: &EthernetSpec) -> String {
    let host = |number| format!("{} ({})", ethernet_host_name(number), ethernet_address(number));
    match spec.hosts {
        1 => host(0),
        count => format!("{} to {}", host(0), host(count - 1)),
    }
}

/// The network as JSON.
pub fn as_json(EthernetStatus { spec, uptime_s, failure }: &EthernetStatus) -> Value {
    let hosts: Vec<Value> = (0..spec.hosts)
        .map(|number| json!({"host": ethernet_host_name(number), "address": ethernet_address(number)}))
        .collect();
    json!({
        "uptime_s": uptime_s, "mtu": spec.mtu, "rate_mbps": spec.rate_mbps, "delay_ns": spec.delay.as_nanos() as u64,
        "loss_ppm": spec.loss_ppm, "seed": spec.seed, "hosts": hosts, "failure": failure.map(|failure| failure.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        for (text, mbps) in [("25Gb/s", 25_000), ("100 Mb/s", 100), ("2.5gbit", 2500), ("10mbit", 10)] {
            assert_eq!(rate_mbps(text), Ok(mbps), "{text}");
        }
        for wrong in ["25", "Gb/s", "0Mb/s", "-1Gb/s", "nanGb/s", "25GB", "1e99Gb/s"] {
            assert!(rate_mbps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_summary_names_only_limits_that_there_are() {
        let delay = Duration::ZERO;
        let spec = EthernetSpec { hosts: 2, mtu: 1500, rate_mbps: None, delay, loss_ppm: 0, seed: 1 };
        assert_eq!(summary(&spec), "Ethernet: 2 hosts on one switch, MTU 1500");
        assert_eq!(hosts(&spec), "node1 (192.168.1.1) to node2 (192.168.1.2)");
        let delay = Duration::from_micros(50);
        let spec = EthernetSpec { rate_mbps: Some(25_000), delay, loss_ppm: 10_000, ..spec };
        assert_eq!(summary(&spec), "Ethernet: 2 hosts on one switch, MTU 1500, 25 Gb/s, delay 50µs, loss 1%");
    }
}
