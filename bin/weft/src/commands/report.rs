//! Everything that the daemon reports about itself, processes, adapters, queue pairs and ports, taken at one time.

use std::time::Instant;

use weft_ipc::fabric::{FabricPort, FabricStatus};
use weft_ipc::stat::{QpPage, StatReport};
use weft_ipc::{Client, ConnectError, ConnectOptions, RequestError, Spawn, StatusReport};

use super::devices::{self, Listed};
use super::status::of_others;

/// A report of the daemon.
#[derive(Clone, Debug)]
pub struct Report {
    /// When it was complete.
    pub taken: Instant,
    /// The daemon, and the processes that use it, each once.
    pub status: StatusReport,
    /// The machine's devices, and the adapters of virtual hosts that are in use.
    pub devices: Vec<Listed>,
    /// Counters of devices and processes.
    pub stat: StatReport,
    /// Queue pairs, in pages of one process each.
    pub pages: Vec<QpPage>,
    /// The fabric, if one is up.
    pub fabric: Option<FabricStatus>,
    /// Its ports.
    pub ports: Vec<FabricPort>,
    /// Whether the fabric has more ports.
    pub has_more_ports: bool,
}

impl Report {
    /// Asks for a report with at most `ports_max` ports of the fabric. Takes some 30 ms, in which processes bring their
    /// counters up to date.
    pub fn take(client: &mut Client, ports_max: usize) -> Result<Report, RequestError> {
        let devices = devices::in_use(client)?;
        let stat = client.stat()?;
        let pages = client.list_qps()?;
        let mut status = client.status()?;
        status.processes = of_others(status.processes, std::process::id());
        let fabric = client.fabric_status()?;
        let (ports, has_more_ports) = match &fabric {
            // The fabric may end between the two requests.
            Some(_) if ports_max > 0 => client.fabric_ports(ports_max).unwrap_or_default(),
            _ => (Vec::new(), false),
        };
        Ok(Report { taken: Instant::now(), status, devices, stat, pages, fabric, ports, has_more_ports })
    }

    /// Returns a device by the daemon's number; `None` for a device of a host that the session does not see.
    pub fn device(&self, index: u32) -> Option<&Listed> {
        self.devices.iter().find(|device| device.index == index)
    }
}

/// Opens a session, as this host or as the one that `WEFT_HOST` names; starts no daemon.
pub fn session(host: Option<&str>) -> Result<Client, ConnectError> {
    let mut options = ConnectOptions { program: "weft".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    if let Some(host) = host {
        options.host = host.to_owned();
    }
    Client::connect(&options)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;
    use weft_ipc::stat::{DeviceCounters, DeviceStat, QpCounters, QpInfo};
    use weft_ipc::{CmStatus, PortHealth, ProcessInfo, Usage};

    /// A report with one process and one queue pair that has sent `packets` packets of 1,000 bytes.
    pub fn report(packets: u64) -> Report {
        let counters = DeviceCounters {
            sent_pkts: packets,
            sent_bytes: 1_044 * packets,
            wire_bytes_sent: 1_000 * packets,
            retransmitted_pkts: packets / 10,
            ..DeviceCounters::default()
        };
        let qp = QpInfo {
            device: 0,
            qpn: 17,
            dest_qpn: Some(18),
            qp_type: 2,
            state: 3,
            peer: Some("::ffff:10.77.0.2".parse::<std::net::Ipv6Addr>().unwrap().octets()),
            path: "wire".into(),
            posted_sends: packets / 2,
            round_trip_ns: 12_300,
            counters: QpCounters {
                sent_pkts: packets,
                wire_bytes_sent: 1_000 * packets,
                retransmitted_pkts: packets / 10,
                ..QpCounters::default()
            },
            ..QpInfo::default()
        };
        let process = ProcessInfo {
            pid: 4242,
            uid: 1000,
            program: "ib_write_bw".to_owned(),
            slot: Some(3),
            usage: Usage { pd: 1, cq: 1, qp: 1, mr: 2, srq: 0 },
            fault: String::new(),
        };
        let status = StatusReport {
            version: "0.1.0".to_owned(),
            pid: 42,
            uid: 0,
            uptime_s: 7,
            port: PortHealth::Held,
            pool_slots: 64,
            slots_in_use: 1,
            slots_per_user_max: 512,
            devices: 1,
            slot0_packets: 0,
            cm: CmStatus::default(),
            processes: vec![process],
            more: false,
        };
        let page = QpPage {
            client: 9,
            pid: 4242,
            comm: "ib_write_bw".to_owned(),
            totals: counters,
            qps: vec![qp],
            ..QpPage::default()
        };
        let stat = DeviceStat { device: 0, counters, ..DeviceStat::default() };
        Report {
            taken: Instant::now(),
            status,
            devices: vec![rxe0().into()],
            stat: StatReport { devices: vec![stat], processes: 1, ..StatReport::default() },
            pages: vec![page],
            fabric: None,
            ports: Vec::new(),
            has_more_ports: false,
        }
    }

    /// The same with a fabric, one of whose ports has sent `packets` packets of 256 bytes.
    pub fn fabric_report(packets: u64) -> Report {
        let counters = weft_ipc::stat::PortCounters {
            xmit_packets: packets,
            xmit_bytes: 256 * packets,
            ..weft_ipc::stat::PortCounters::default()
        };
        let peer = weft_ipc::fabric::PortName { node: "node2".to_owned(), port: 1 };
        let port = FabricPort {
            node: "leaf1".to_owned(),
            port: 2,
            peer: Some(peer),
            state: 4,
            lid: 7,
            rate_tenths: 1000,
            counters,
        };
        let fabric = FabricStatus { title: "pair".to_owned(), hosts: 2, ..FabricStatus::default() };
        Report { fabric: Some(fabric), ports: vec![port], ..report(packets) }
    }
}
