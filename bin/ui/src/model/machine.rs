//! The machine as a page shows it: adapters, programs, flows and queue pairs, with rates from two reports, and
//! connections that broke.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_ipc::stat::{DeviceCounters, QpCounters, QpInfo, QpPage, StatReport};
use weft_ipc::{IB_DEVICE_INDEX_BASE, PortState};
use weft_tool::queue_pair::{address, state_name, type_name};

use super::breaks::{Break, Breaks};
use super::report::MachineReport;
use crate::limits::{ADAPTERS_MAX, FLOWS_MAX, PROGRAMS_MAX, QUEUE_PAIRS_MAX};

/// The present view.
#[derive(Debug, Default)]
pub struct Machine {
    last: Option<MachineReport>,
    breaks: Breaks,
    /// The view as pages got it last.
    pub value: Value,
}

/// Bytes per second, packets per second and packets sent again per second.
#[derive(Clone, Copy, Default)]
struct Rates {
    sent: f64,
    received: f64,
    copied: f64,
    packets: f64,
    resent: f64,
}

impl Machine {
    /// Takes a report. Returns the connections that broke since the last one, and the sums of bytes, packets and errors
    /// per second of the machine's own adapters.
    pub fn update(&mut self, report: MachineReport) -> (Vec<Break>, (f64, f64, f64)) {
        let seconds = self.last.as_ref().map_or(0.0, |last| report.at_ms.saturating_sub(last.at_ms) as f64 / 1000.0);
        let broken = self.last.as_ref().map_or(Vec::new(), |last| self.breaks.between(last, &report));
        let (adapters, total) = adapters(&report, self.last.as_ref(), seconds);
        let rows = queue_pairs(&report, self.last.as_ref(), seconds);
        self.value = json!({
            "at": report.at_ms, "adapters": adapters, "programs": programs(&report, &rows), "flows": flows(&rows),
            "qps": rows.iter().take(QUEUE_PAIRS_MAX).map(QpRow::json).collect::<Vec<_>>(),
            "qps_total": rows.len() as u64 + report.pages.iter().map(|page| u64::from(page.untold)).sum::<u64>(),
            "breaks": self.breaks.list(),
        });
        self.last = Some(report);
        (broken, total)
    }
}

/// Returns rows of adapters, and the sums of the machine's own.
fn adapters(report: &MachineReport, last: Option<&MachineReport>, seconds: f64) -> (Vec<Value>, (f64, f64, f64)) {
    let before = |index| last.and_then(|last| counters(&last.stat, index));
    let (mut rows, mut total) = (Vec::new(), (0.0, 0.0, 0.0));
    for (device, host) in report.devices.iter().take(ADAPTERS_MAX) {
        let now = counters(&report.stat, device.index).unwrap_or_default();
        let before = before(device.index).unwrap_or(now);
        let rates = of_device(&now, &before, seconds);
        let errors = rate(errors(&now), errors(&before), seconds);
        if device.index < IB_DEVICE_INDEX_BASE {
            total = (total.0 + rates.sent + rates.copied, total.1 + rates.packets, total.2 + errors);
        }
        let gids: Vec<String> = device.gids.iter().take(4).map(|entry| address(entry.gid)).collect();
        let lids: Vec<u16> = device.infiniband.iter().flat_map(|ib| ib.ports.iter().map(|port| port.lid)).collect();
        rows.push(json!({
            "name": device.name, "kind": device.kind, "host": host, "netdev": device.netdev, "mtu": device.active_mtu,
            "guid": format!("{:#018x}", device.node_guid), "up": device.state == PortState::Active, "gids": gids, "lids": lids,
            "sent": rates.sent.round(), "received": rates.received.round(), "copied": rates.copied.round(),
            "packets": rates.packets.round(), "resent": rates.resent.round(), "errors_total": errors_total(&now),
        }));
    }
    (rows, total)
}

fn counters(stat: &StatReport, index: u32) -> Option<DeviceCounters> {
    stat.devices.iter().find(|row| row.device == index).map(|row| row.counters)
}

fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

fn errors(counters: &DeviceCounters) -> u64 {
    counters.cqe_errors.saturating_add(counters.bad_qpn).saturating_add(counters.dropped_pkts)
}

fn errors_total(counters: &DeviceCounters) -> u64 {
    errors(counters)
}

fn of_device(now: &DeviceCounters, before: &DeviceCounters, seconds: f64) -> Rates {
    let of = |field: fn(&DeviceCounters) -> u64| rate(field(now), field(before), seconds);
    Rates {
        sent: of(|c| c.wire_bytes_sent.saturating_add(c.ring_bytes_sent)),
        received: of(|c| c.wire_bytes_rcvd.saturating_add(c.ring_bytes_rcvd)),
        copied: of(|c| c.memcpy_bytes.saturating_add(c.process_vm_bytes)),
        packets: of(|c| c.sent_pkts.saturating_add(c.ring_frames_sent)),
        resent: of(|c| c.retransmitted_pkts.saturating_add(c.ring_frames_resent)),
    }
}

fn of_queue_pair(now: &QpCounters, before: &QpCounters, seconds: f64) -> Rates {
    let of = |field: fn(&QpCounters) -> u64| rate(field(now), field(before), seconds);
    Rates {
        sent: of(|c| c.wire_bytes_sent.saturating_add(c.ring_bytes_sent)),
        received: of(|c| c.wire_bytes_rcvd.saturating_add(c.ring_bytes_rcvd)),
        copied: of(|c| c.memcpy_bytes.saturating_add(c.process_vm_bytes)),
        packets: of(|c| c.sent_pkts.saturating_add(c.ring_frames_sent)),
        resent: of(|c| c.retransmitted_pkts.saturating_add(c.ring_frames_resent)),
    }
}

/// A queue pair with its process.
struct QpRow<'a> {
    page: &'a QpPage,
    qp: &'a QpInfo,
    device: String,
    rates: Rates,
}

impl QpRow<'_> {
    fn bytes(&self) -> f64 {
        self.rates.sent + self.rates.received + self.rates.copied
    }

    fn peer(&self) -> String {
        self.qp.peer.map(address).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let (qp, page) = (self.qp, self.page);
        json!({
            "device": self.device, "host": page.host, "pid": page.pid, "comm": page.comm, "qpn": qp.qpn, "dest": qp.dest_qpn,
            "type": type_name(qp.qp_type), "state": state_name(qp.state), "peer": self.peer(), "path": qp.path.to_string(),
            "sent": self.rates.sent.round(), "received": self.rates.received.round(), "copied": self.rates.copied.round(),
            "resent": qp.counters.retransmitted_pkts.saturating_add(qp.counters.ring_frames_resent),
            "timeouts": qp.counters.completer_retry_err, "rnr": qp.counters.rcvd_rnr_err, "rtt_ns": qp.round_trip_ns,
        })
    }
}

/// Returns all queue pairs, those with traffic first.
fn queue_pairs<'a>(report: &'a MachineReport, last: Option<&MachineReport>, seconds: f64) -> Vec<QpRow<'a>> {
    let names: BTreeMap<u32, &str> =
        report.devices.iter().map(|(device, _)| (device.index, device.name.as_str())).collect();
    let before: BTreeMap<(u64, u32, u32), &QpCounters> = last
        .iter()
        .flat_map(|last| &last.pages)
        .flat_map(|page| page.qps.iter().map(|qp| ((page.client, qp.device, qp.qpn), &qp.counters)))
        .collect();
    let mut rows: Vec<QpRow<'_>> = report
        .pages
        .iter()
        .flat_map(|page| page.qps.iter().map(move |qp| (page, qp)))
        .map(|(page, qp)| {
            let before = before.get(&(page.client, qp.device, qp.qpn)).copied().unwrap_or(&qp.counters);
            let device = names.get(&qp.device).map_or_else(|| qp.device.to_string(), |name| (*name).to_owned());
            QpRow { page, qp, device, rates: of_queue_pair(&qp.counters, before, seconds) }
        })
        .collect();
    rows.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()));
    rows
}

/// Returns the programs with an adapter open: host, process, name, queue pairs, bytes per second, faults.
fn programs(report: &MachineReport, rows: &[QpRow<'_>]) -> Vec<Value> {
    let mut by_client: BTreeMap<u64, (&QpPage, u64, f64)> = BTreeMap::new();
    for page in report.pages.iter().filter(|page| page.client != 0) {
        let entry = by_client.entry(page.client).or_insert((page, 0, 0.0));
        entry.1 += page.qps.len() as u64 + u64::from(page.untold);
    }
    for row in rows {
        if let Some(entry) = by_client.get_mut(&row.page.client) {
            entry.2 += row.bytes();
        }
    }
    let mut all: Vec<_> = by_client.into_values().collect();
    all.sort_by(|a, b| b.2.total_cmp(&a.2));
    let fault = |pid| report.faults.get(&pid).map(String::as_str).unwrap_or_default();
    let row = |(page, qps, bytes): &(&QpPage, u64, f64)| {
        json!([page.host, page.pid, page.comm, qps, bytes.round(), fault(page.pid)])
    };
    all.iter().take(PROGRAMS_MAX).map(row).collect()
}

/// Returns the flows: queue pairs of one program to one peer over one path, together.
fn flows(rows: &[QpRow<'_>]) -> Vec<Value> {
    let mut flows: BTreeMap<_, (&QpRow<'_>, u32, Rates)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.qp.peer.is_some()) {
        let key = (row.page.client, row.qp.device, row.qp.peer, row.qp.path.clone());
        let flow = flows.entry(key).or_insert((row, 0, Rates::default()));
        flow.1 += 1;
        flow.2.sent += row.rates.sent;
        flow.2.received += row.rates.received;
        flow.2.copied += row.rates.copied;
        flow.2.resent += row.rates.resent;
    }
    let mut all: Vec<_> = flows.into_values().collect();
    let bytes = |rates: &Rates| rates.sent + rates.received + rates.copied;
    all.sort_by(|a, b| bytes(&b.2).total_cmp(&bytes(&a.2)));
    let json = |(row, qps, rates): &(&QpRow<'_>, u32, Rates)| {
        json!({
            "host": row.page.host, "pid": row.page.pid, "comm": row.page.comm, "device": row.device, "peer": row.peer(),
            "path": row.qp.path.to_string(), "qps": qps, "rtt_ns": row.qp.round_trip_ns,
            "sent": rates.sent.round(), "received": rates.received.round(), "copied": rates.copied.round(),
            "resent": rates.resent.round(),
        })
    };
    all.iter().take(FLOWS_MAX).map(json).collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::testing::report;
    use super::*;

    #[test]
    fn flows_and_queue_pairs_have_rates() {
        let mut machine = Machine::default();
        machine.update(report(1000, 500, 3));
        machine.update(report(3000, 2_000_500, 3));
        let value = &machine.value;
        assert_eq!(value["qps"][0]["sent"], 1e6);
        assert_eq!((&value["qps"][0]["state"], &value["qps"][0]["type"]), (&json!("RTS"), &json!("RC")));
        assert_eq!((&value["flows"][0]["peer"], &value["flows"][0]["qps"]), (&json!("10.77.0.2"), &json!(1)));
        assert_eq!(value["programs"][0], json!(["", 4242, "ib_write_bw", 1, 1e6, ""]));
    }

    #[test]
    fn lists_are_bounded_and_the_busiest_come_first() {
        let many = |at_ms, factor: u64| {
            let mut report = report(at_ms, 0, 3);
            let one = report.pages[0].qps[0].clone();
            let qp = |number: u32| {
                let counters = QpCounters { wire_bytes_sent: u64::from(number) * factor, ..QpCounters::default() };
                QpInfo { qpn: number, counters, ..one.clone() }
            };
            report.pages[0].qps = (0..3000).map(qp).collect();
            report.pages[0].untold = 5;
            report
        };
        let mut machine = Machine::default();
        machine.update(many(1000, 0));
        machine.update(many(2000, 10));
        assert_eq!(machine.value["qps"].as_array().map(Vec::len), Some(QUEUE_PAIRS_MAX));
        assert_eq!((&machine.value["qps"][0]["qpn"], &machine.value["qps_total"]), (&json!(2999), &json!(3005)));
    }
}
