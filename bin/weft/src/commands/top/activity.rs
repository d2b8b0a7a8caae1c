//! Rates from two reports: pure computation, no clock and no terminal.

use std::collections::BTreeMap;

use weft_ipc::fabric::FabricPort;
use weft_ipc::stat::{DeviceCounters, QpInfo, QpPage};
use weft_ipc::{PortState, ProcessInfo};
use weft_tool::queue_pair::{address, state_name, type_name};

use crate::commands::devices::Listed;
use crate::commands::report::Report;
use crate::commands::stat::{port_errors, port_state};

/// Counts per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Payload bytes sent in packets and frames.
    pub sent: f64,
    /// Payload bytes received in packets and frames.
    pub received: f64,
    /// Bytes copied directly to or from a peer of the host.
    pub copied: f64,
    /// Packets and frames sent and received.
    pub packets: f64,
    /// Packets and frames sent again.
    pub retransmitted: f64,
}

impl Rates {
    /// Returns all bytes per second.
    pub fn bytes(&self) -> f64 {
        self.sent + self.received + self.copied
    }
}

/// A process that has an adapter open.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProcessRow {
    /// The daemon's number of it.
    pub client: u64,
    /// Process ID, 0 if the daemon cannot see it.
    pub pid: u32,
    /// User ID, if known.
    pub uid: Option<u32>,
    /// Name of the program.
    pub program: String,
    /// Virtual host; empty for the machine.
    pub host: String,
    /// Queue pairs.
    pub qps: u32,
    /// Memory regions.
    pub mrs: u32,
    /// Traffic.
    pub rates: Rates,
    /// Work requests posted per second, of the queue pairs that the process lists.
    pub posted: f64,
    /// Completions with an error per second, flushed ones not included.
    pub errors: f64,
    /// Longest smoothed round trip of its queue pairs in nanoseconds, 0 for none.
    pub round_trip_ns: u64,
}

/// A queue pair.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QpRow {
    /// The daemon's number of its process.
    pub client: u64,
    /// Process ID.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
    /// Virtual host; empty for the machine.
    pub host: String,
    /// Device.
    pub device: String,
    /// Number.
    pub qpn: u32,
    /// Number of the peer.
    pub dest_qpn: Option<u32>,
    /// Address of the peer, as text.
    pub peer: String,
    /// Type, such as RC.
    pub kind: &'static str,
    /// State, such as RTS.
    pub state: &'static str,
    /// Path to the peer.
    pub path: String,
    /// Traffic.
    pub rates: Rates,
    /// Work requests posted per second.
    pub posted: f64,
    /// RNR NAKs received per second.
    pub rnr_naks: f64,
    /// Packets and frames sent again since the queue pair exists.
    pub retransmitted_total: u64,
    /// Smoothed round trip in nanoseconds, 0 if its transport measures none.
    pub round_trip_ns: u64,
}

/// A port: of a device on a network interface, or of the fabric.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PortRow {
    /// Name: `rxe0/1`, `leaf1:3`.
    pub name: String,
    /// Network interface, or the port at the other end of the cable.
    pub peer: String,
    /// State, such as active.
    pub state: &'static str,
    /// Data rate of the link in bits per second, 0 if unknown.
    pub link_bps: f64,
    /// Bytes sent per second.
    pub sent: f64,
    /// Bytes received per second.
    pub received: f64,
    /// Packets sent per second.
    pub packets_sent: f64,
    /// Packets received per second.
    pub packets_received: f64,
    /// Errors per second.
    pub errors: f64,
    /// Errors since the port exists.
    pub errors_total: u64,
}

impl PortRow {
    /// Returns the share of the link's rate that the busier direction uses; 0 if the rate is unknown.
    pub fn load(&self) -> f64 {
        if self.link_bps > 0.0 { self.sent.max(self.received) * 8.0 / self.link_bps } else { 0.0 }
    }
}

/// Everything that happened between two reports.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Activity {
    /// Processes.
    pub processes: Vec<ProcessRow>,
    /// Queue pairs.
    pub queue_pairs: Vec<QpRow>,
    /// Ports.
    pub ports: Vec<PortRow>,
    /// Traffic of all processes.
    pub total: Rates,
    /// Queue pairs that their processes have no room to list.
    pub untold: u64,
}

/// Compares two reports, taken `seconds` apart. Without an earlier one all rates are zero; rates of an object that is in
/// the later report alone count from its start.
pub fn compare(before: Option<&Report>, after: &Report, seconds: f64) -> Activity {
    let earlier = before.map(Earlier::new).unwrap_or_default();
    let per = Per { seconds: before.map(|_| seconds.max(0.001)) };
    let processes: Vec<ProcessRow> = process_rows(&earlier, after, per);
    let mut total = Rates::default();
    for row in &processes {
        total.sent += row.rates.sent;
        total.received += row.rates.received;
        total.copied += row.rates.copied;
        total.packets += row.rates.packets;
        total.retransmitted += row.rates.retransmitted;
    }
    Activity {
        queue_pairs: qp_rows(&earlier, after, per),
        ports: port_rows(&earlier, after, per),
        untold: after.pages.iter().map(|page| u64::from(page.untold)).sum(),
        processes,
        total,
    }
}

/// Division by the time between two reports.
#[derive(Clone, Copy)]
struct Per {
    seconds: Option<f64>,
}

impl Per {
    fn second(self, now: u64, before: u64) -> f64 {
        self.seconds.map_or(0.0, |seconds| now.saturating_sub(before) as f64 / seconds)
    }
}

/// The earlier report by the identities of its objects.
#[derive(Default)]
struct Earlier<'a> {
    totals: BTreeMap<u64, &'a DeviceCounters>,
    qps: BTreeMap<(u64, u32, u32), &'a QpInfo>,
    devices: BTreeMap<u32, &'a DeviceCounters>,
    ports: BTreeMap<(&'a str, u8), &'a FabricPort>,
}

impl<'a> Earlier<'a> {
    fn new(report: &'a Report) -> Earlier<'a> {
        let all = report.pages.iter();
        let qps = all.clone().flat_map(|page| page.qps.iter().map(|qp| ((page.client, qp.device, qp.qpn), qp)));
        Earlier {
            totals: all.map(|page| (page.client, &page.totals)).collect(),
            qps: qps.collect(),
            devices: report.stat.devices.iter().map(|stat| (stat.device, &stat.counters)).collect(),
            ports: report.ports.iter().map(|port| ((port.node.as_str(), port.port), port)).collect(),
        }
    }
}

fn process_rows(earlier: &Earlier<'_>, after: &Report, per: Per) -> Vec<ProcessRow> {
    let known: BTreeMap<u32, &ProcessInfo> = after
        .status
        .processes
        .iter()
        .filter(|process| process.pid != 0)
        .map(|process| (process.pid, process))
        .collect();
    let mut rows: BTreeMap<u64, ProcessRow> = BTreeMap::new();
    for page in after.pages.iter().filter(|page| page.client != 0) {
        let row = rows.entry(page.client).or_insert_with(|| process_row(earlier, page, &known, per));
        for qp in &page.qps {
            let before = earlier.qps.get(&(page.client, qp.device, qp.qpn));
            row.posted += per.second(posts(qp), before.map_or(0, |qp| posts(qp)));
            row.round_trip_ns = row.round_trip_ns.max(qp.round_trip_ns);
            row.qps += 1;
        }
        row.qps = row.qps.saturating_add(page.untold);
    }
    rows.into_values().collect()
}

fn process_row(earlier: &Earlier<'_>, page: &QpPage, known: &BTreeMap<u32, &ProcessInfo>, per: Per) -> ProcessRow {
    let zero = DeviceCounters::default();
    let (now, before) = (&page.totals, earlier.totals.get(&page.client).copied().unwrap_or(&zero));
    let of = |count: fn(&DeviceCounters) -> u64| per.second(count(now), count(before));
    let process = known.get(&page.pid);
    ProcessRow {
        client: page.client,
        pid: page.pid,
        uid: process.map(|process| process.uid),
        program: page.comm.clone(),
        host: page.host.clone(),
        mrs: process.map_or(0, |process| process.usage.mr),
        rates: Rates {
            sent: of(|c| c.wire_bytes_sent.saturating_add(c.ring_bytes_sent)),
            received: of(|c| c.wire_bytes_rcvd.saturating_add(c.ring_bytes_rcvd)),
            copied: of(|c| c.memcpy_bytes.saturating_add(c.process_vm_bytes)),
            packets: of(|c| sum([c.sent_pkts, c.rcvd_pkts, c.ring_frames_sent, c.ring_frames_rcvd])),
            retransmitted: of(|c| c.retransmitted_pkts.saturating_add(c.ring_frames_resent)),
        },
        errors: of(|c| c.cqe_errors),
        ..ProcessRow::default()
    }
}

fn sum<const N: usize>(counts: [u64; N]) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

fn posts(qp: &QpInfo) -> u64 {
    qp.posted_sends.saturating_add(qp.posted_recvs)
}

fn qp_rows(earlier: &Earlier<'_>, after: &Report, per: Per) -> Vec<QpRow> {
    let of_page = |page: &QpPage| {
        let rows = page.qps.iter().filter_map(|qp| {
            let before = earlier.qps.get(&(page.client, qp.device, qp.qpn)).copied();
            Some(qp_row(page, qp, before, after.device(qp.device)?, per))
        });
        rows.collect::<Vec<_>>()
    };
    after.pages.iter().flat_map(of_page).collect()
}

fn qp_row(page: &QpPage, qp: &QpInfo, before: Option<&QpInfo>, device: &Listed, per: Per) -> QpRow {
    let zero = QpInfo::default();
    let before = before.unwrap_or(&zero);
    let of = |count: fn(&QpInfo) -> u64| per.second(count(qp), count(before));
    let again: fn(&QpInfo) -> u64 = |qp| qp.counters.retransmitted_pkts.saturating_add(qp.counters.ring_frames_resent);
    QpRow {
        client: page.client,
        pid: page.pid,
        program: page.comm.clone(),
        host: page.host.clone(),
        device: device.name.clone(),
        qpn: qp.qpn,
        dest_qpn: qp.dest_qpn,
        // Peers on a fabric have no address unless the path has a global route.
        peer: qp.peer.filter(|gid| *gid != [0; 16]).map(address).unwrap_or_default(),
        kind: type_name(qp.qp_type),
        state: state_name(qp.state),
        path: qp.path.to_string(),
        rates: Rates {
            sent: of(|qp| qp.counters.wire_bytes_sent.saturating_add(qp.counters.ring_bytes_sent)),
            received: of(|qp| qp.counters.wire_bytes_rcvd.saturating_add(qp.counters.ring_bytes_rcvd)),
            copied: of(|qp| qp.counters.memcpy_bytes.saturating_add(qp.counters.process_vm_bytes)),
            packets: of(|qp| {
                let c = &qp.counters;
                sum([c.sent_pkts, c.rcvd_pkts, c.ring_frames_sent, c.ring_frames_rcvd])
            }),
            retransmitted: of(again),
        },
        posted: of(posts),
        rnr_naks: of(|qp| qp.counters.rcvd_rnr_err),
        retransmitted_total: again(qp),
        round_trip_ns: qp.round_trip_ns,
    }
}

fn port_rows(earlier: &Earlier<'_>, after: &Report, per: Per) -> Vec<PortRow> {
    let machine = after.devices.iter().filter(|device| device.infiniband.is_none());
    let machine = machine.map(|device| device_port(earlier, after, device, per));
    machine.chain(after.ports.iter().map(|port| fabric_port(earlier, port, per))).collect()
}

/// The port of a device on a network interface: packets that programs sent and received through it.
fn device_port(earlier: &Earlier<'_>, after: &Report, device: &Listed, per: Per) -> PortRow {
    let zero = DeviceCounters::default();
    let now = after.stat.devices.iter().find(|stat| stat.device == device.index).map_or(&zero, |stat| &stat.counters);
    let before = earlier.devices.get(&device.index).copied().unwrap_or(&zero);
    let of = |count: fn(&DeviceCounters) -> u64| per.second(count(now), count(before));
    // Streams have no packets to count.
    let bytes: [fn(&DeviceCounters) -> u64; 2] = match device.is_iwarp() {
        true => [|c| c.wire_bytes_sent, |c| c.wire_bytes_rcvd],
        false => [|c| c.sent_bytes, |c| c.rcvd_bytes],
    };
    let errors: fn(&DeviceCounters) -> u64 =
        |c| sum([c.dropped_pkts, c.bad_qpn, c.bad_pkey, c.bad_address, c.qkey_violations, c.link_downed]);
    PortRow {
        name: format!("{}/1", device.name),
        peer: device.netdev.clone(),
        state: if device.state == PortState::Active { "active" } else { "down" },
        link_bps: device.link_speed_mbps.map_or(0.0, |mbps| f64::from(mbps) * 1e6),
        sent: of(bytes[0]),
        received: of(bytes[1]),
        packets_sent: of(|c| c.sent_pkts),
        packets_received: of(|c| c.rcvd_pkts),
        errors: of(errors),
        errors_total: errors(now),
    }
}

fn fabric_port(earlier: &Earlier<'_>, port: &FabricPort, per: Per) -> PortRow {
    let zero = FabricPort::default();
    let before = earlier.ports.get(&(port.node.as_str(), port.port)).copied().unwrap_or(&zero);
    let of = |count: fn(&FabricPort) -> u64| per.second(count(port), count(before));
    PortRow {
        name: format!("{}:{}", port.node, port.port),
        peer: port.peer.as_ref().map(|peer| format!("{}:{}", peer.node, peer.port)).unwrap_or_default(),
        state: port_state(port.state),
        link_bps: f64::from(port.rate_tenths) * 1e8,
        sent: of(|port| port.counters.xmit_bytes),
        received: of(|port| port.counters.rcv_bytes),
        packets_sent: of(|port| port.counters.xmit_packets),
        packets_received: of(|port| port.counters.rcv_packets),
        errors: of(port_errors),
        errors_total: port_errors(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::{fabric_report, report};

    #[test]
    fn rates_are_differences_over_time() {
        let activity = compare(Some(&report(1_000)), &report(3_000), 2.0);
        let process = &activity.processes[0];
        assert_eq!((process.pid, process.qps, process.mrs, process.uid), (4242, 1, 2, Some(1000)));
        assert_eq!((process.rates.sent, process.rates.packets), (1_000_000.0, 1_000.0));
        assert_eq!((process.rates.retransmitted, process.posted), (100.0, 500.0));
        let qp = &activity.queue_pairs[0];
        assert_eq!((qp.rates, qp.round_trip_ns, qp.retransmitted_total), (process.rates, 12_300, 300));
        assert_eq!((qp.kind, qp.state, qp.peer.as_str(), qp.device.as_str()), ("RC", "RTS", "10.77.0.2", "rxe0"));
        assert_eq!((activity.ports[0].name.as_str(), activity.ports[0].sent), ("rxe0/1", 1_044_000.0));
        assert_eq!(activity.total, process.rates);
    }

    #[test]
    fn without_an_earlier_report_there_are_no_rates() {
        let activity = compare(None, &report(1_000), 2.0);
        assert_eq!((activity.total, activity.queue_pairs[0].posted), (Rates::default(), 0.0));
        assert_eq!(activity.queue_pairs[0].retransmitted_total, 100);
    }

    #[test]
    fn a_counter_that_fell_counts_nothing() {
        assert_eq!(compare(Some(&report(3_000)), &report(1_000), 1.0).total, Rates::default());
    }

    #[test]
    fn another_process_with_the_same_id_counts_from_its_start() {
        let (before, mut after) = (report(1_000), report(400));
        after.pages[0].client = 10;
        assert_eq!(compare(Some(&before), &after, 1.0).processes[0].rates.sent, 400_000.0);
    }

    #[test]
    fn pages_of_one_process_are_one_row() {
        let mut after = report(1_000);
        let mut more = after.pages[0].clone();
        more.qps[0].qpn = 18;
        more.untold = 3;
        after.pages.push(more);
        let activity = compare(None, &after, 1.0);
        assert_eq!((activity.processes.len(), activity.processes[0].qps, activity.untold), (1, 5, 3));
        assert_eq!(activity.queue_pairs.len(), 2);
    }

    #[test]
    fn ports_of_the_fabric_have_load() {
        let activity = compare(Some(&fabric_report(0)), &fabric_report(50_000_000), 2.0);
        let port = activity.ports.iter().find(|port| port.name == "leaf1:2").expect("the fabric's port");
        assert_eq!((port.peer.as_str(), port.state, port.link_bps), ("node2:1", "active", 1e11));
        assert_eq!((port.sent, port.packets_sent), (6.4e9, 25e6));
        assert!((port.load() - 0.512).abs() < 1e-9, "{}", port.load());
    }
}
