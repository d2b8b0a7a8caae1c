//! Metrics of queue pairs, each with labels that name its process: a bounded number of them.

use weft_ipc::stat::{QpInfo, QpPage};
use weft_metrics::{Exposition, Kind, Sample};
use weft_tool::queue_pair::{address, state_name, type_name};

use crate::commands::report::Report;

/// A queue pair of a page, with texts for its labels.
struct Row<'a> {
    qp: &'a QpInfo,
    device: &'a str,
    host: &'a str,
    comm: &'a str,
    qpn: String,
    pid: String,
}

impl Row<'_> {
    fn labels(&self) -> Vec<(&str, &str)> {
        vec![
            ("device", self.device),
            ("host", self.host),
            ("qpn", self.qpn.as_str()),
            ("pid", self.pid.as_str()),
            ("comm", self.comm),
        ]
    }
}

/// Adds the first `most` queue pairs; returns how many others there are.
pub fn add(page: &mut Exposition, report: &Report, most: usize) -> u64 {
    let pages = report.pages.iter();
    let all = pages.clone().flat_map(|page| page.qps.iter().filter_map(move |qp| row(report, page, qp)));
    let rows: Vec<Row<'_>> = all.clone().take(most).collect();
    counters(page, &rows);
    let round_trips = rows.iter().filter(|row| row.qp.round_trip_ns > 0);
    let round_trips = round_trips.map(|row| Sample::real(row.labels(), row.qp.round_trip_ns as f64 / 1e9));
    let help = "Smoothed round trip to the peer over a network.";
    page.family("weft_qp_round_trip_seconds", Kind::Gauge, help, round_trips);
    info(page, &rows);
    let untold: u64 = pages.map(|page| u64::from(page.untold)).sum();
    all.skip(most).count() as u64 + untold
}

fn row<'a>(report: &'a Report, page: &'a QpPage, qp: &'a QpInfo) -> Option<Row<'a>> {
    let device = report.device(qp.device)?;
    Some(Row {
        qp,
        device: &device.name,
        host: device.host.as_deref().unwrap_or_default(),
        comm: &page.comm,
        qpn: qp.qpn.to_string(),
        pid: page.pid.to_string(),
    })
}

fn counters(page: &mut Exposition, rows: &[Row<'_>]) {
    type Count = fn(&QpInfo) -> u64;
    let families: [(&str, &str, Count); 10] = [
        ("weft_qp_transmit_packets_total", "Packets sent.", |qp| qp.counters.sent_pkts),
        ("weft_qp_receive_packets_total", "Packets received.", |qp| qp.counters.rcvd_pkts),
        ("weft_qp_transmit_bytes_total", "Payload bytes sent in packets and in frames within the host.", |qp| {
            qp.counters.wire_bytes_sent.saturating_add(qp.counters.ring_bytes_sent)
        }),
        ("weft_qp_receive_bytes_total", "Payload bytes received in packets and in frames within the host.", |qp| {
            qp.counters.wire_bytes_rcvd.saturating_add(qp.counters.ring_bytes_rcvd)
        }),
        ("weft_qp_copied_bytes_total", "Bytes that the queue pair copied to or from a peer of its host.", |qp| {
            qp.counters.memcpy_bytes.saturating_add(qp.counters.process_vm_bytes)
        }),
        ("weft_qp_posted_sends_total", "Work requests posted to the send queue.", |qp| qp.posted_sends),
        ("weft_qp_posted_receives_total", "Work requests posted to its own receive queue.", |qp| qp.posted_recvs),
        ("weft_qp_retransmitted_packets_total", "Packets sent again.", |qp| qp.counters.retransmitted_pkts),
        ("weft_qp_retry_timeouts_total", "Times that the retry timer ran out.", |qp| qp.counters.completer_retry_err),
        ("weft_qp_receive_rnr_errors_total", "RNR NAKs received.", |qp| qp.counters.rcvd_rnr_err),
    ];
    for (name, help, count) in families {
        let samples = rows.iter().map(|row| Sample::integer(row.labels(), count(row.qp)));
        page.family(name, Kind::Counter, help, samples);
    }
}

fn info(page: &mut Exposition, rows: &[Row<'_>]) {
    let texts: Vec<[String; 3]> = rows
        .iter()
        .map(|row| {
            let peer = row.qp.peer.filter(|gid| *gid != [0; 16]).map(address).unwrap_or_default();
            [row.qp.dest_qpn.map(|qpn| qpn.to_string()).unwrap_or_default(), peer, row.qp.path.to_string()]
        })
        .collect();
    let samples = rows.iter().zip(&texts).map(|(row, [dest_qpn, peer, path])| {
        let mut labels = row.labels();
        labels.extend([("type", type_name(row.qp.qp_type)), ("state", state_name(row.qp.state))]);
        labels.extend([("dest_qpn", dest_qpn.as_str()), ("peer", peer.as_str()), ("path", path.as_str())]);
        Sample::integer(labels, 1)
    });
    page.family("weft_qp_info", Kind::Gauge, "Type, state and peer of the queue pair.", samples);
}
