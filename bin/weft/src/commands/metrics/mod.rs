//! `weft metrics`: everything that Weft counts, for Prometheus: adapters, queue pairs, ports of a fabric, subnet
//! managers, the daemon. Printed once, written to a file for node_exporter, or served over HTTP.

mod adapters;
mod daemon;
mod names;
mod ports;
mod queue_pairs;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weft_ipc::ConnectError;
use weft_metrics::{Endpoint, Exposition, Kind, Sample};
use weft_sm_process::exposition as managers;

use super::report::{self, Report};
use crate::output;

/// Options of `weft metrics`.
#[derive(Args, Debug)]
pub struct MetricsArgs {
    /// Serve the metrics at http://ADDRESS:PORT/metrics
    #[arg(short, long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9836")]
    listen: Option<SocketAddr>,
    /// Write the metrics to a file, which is replaced as a whole: for node_exporter's textfile collector
    #[arg(short, long, value_name = "FILE", conflicts_with = "listen")]
    output: Option<PathBuf>,
    /// Maximum number of queue pairs with metrics of their own
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=4096))]
    queue_pairs: u16,
    /// Maximum number of fabric ports with metrics of their own
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(0..=16384))]
    ports: u16,
}

/// Runs the command.
pub fn run(args: &MetricsArgs) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("weft metrics: {message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &MetricsArgs) -> Result<(), String> {
    match (args.listen, &args.output) {
        (Some(address), _) => listen(address, args),
        (None, Some(file)) => replace(file, &collect(args)?),
        (None, None) => {
            output::print(&collect(args)?);
            Ok(())
        }
    }
}

fn listen(address: SocketAddr, args: &MetricsArgs) -> Result<(), String> {
    let failed = |error: std::io::Error| {
        format!("cannot listen at {address}: {}; --listen ADDRESS:PORT names another", crate::errno::text(&error))
    };
    let endpoint = Endpoint::bind(address).map_err(failed)?;
    crate::outln!("http://{}/metrics", endpoint.address().map_err(failed)?);
    endpoint.serve(|| collect(args));
    Ok(())
}

/// Replaces a file in one step: a reader sees the old metrics or the new ones.
fn replace(file: &Path, text: &str) -> Result<(), String> {
    let mut name = file.file_name().ok_or_else(|| format!("{}: not the name of a file", file.display()))?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = file.with_file_name(name);
    let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        format!("cannot write {}: {}", file.display(), crate::errno::text(&error))
    })
}

/// Returns a page of all metrics. Without a daemon it says so, and has those of subnet managers alone.
fn collect(args: &MetricsArgs) -> Result<String, String> {
    let report = match report::session(None) {
        Ok(mut client) => Some(Report::take(&mut client, args.ports.into()).map_err(|error| error.to_string())?),
        Err(ConnectError::NotRunning) => None,
        Err(error) => return Err(error.to_string()),
    };
    let mut page = Exposition::new();
    daemon::up(&mut page, report.is_some());
    if let Some(report) = &report {
        add(&mut page, report, args.queue_pairs.into());
    }
    managers::add(&mut page, &managers::statuses());
    Ok(page.finish())
}

fn add(page: &mut Exposition, report: &Report, queue_pairs_max: usize) {
    daemon::add(page, report);
    adapters::add(page, report);
    let queue_pairs = queue_pairs::add(page, report, queue_pairs_max);
    ports::add(page, report);
    let adapters = report.devices.len().saturating_sub(adapters::ADAPTERS_MAX) as u64;
    let rows = [("adapter", adapters), ("port", report.has_more_ports.into()), ("queue_pair", queue_pairs)];
    let samples = rows.map(|(kind, count)| Sample::integer([("kind", kind)], count));
    let help = "Adapters and queue pairs without metrics of their own, and whether there are such ports.";
    page.family("weft_omitted", Kind::Gauge, help, samples);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::fabric_report;

    fn page(report: &Report, queue_pairs_max: usize) -> String {
        let mut page = Exposition::new();
        add(&mut page, report, queue_pairs_max);
        page.finish()
    }

    #[test]
    fn every_kind_of_object_has_metrics() {
        let text = page(&fabric_report(100), 4);
        for line in [
            "weft_adapter_transmit_packets_total{device=\"rxe0\",host=\"\"} 100",
            "weft_qp_transmit_bytes_total{device=\"rxe0\",host=\"\",qpn=\"17\",pid=\"4242\",comm=\"ib_write_bw\"} 100000",
            "weft_qp_round_trip_seconds{device=\"rxe0\",host=\"\",qpn=\"17\",pid=\"4242\",comm=\"ib_write_bw\"} 0.0000123",
            "weft_port_transmit_bytes_total{node=\"leaf1\",port=\"2\"} 25600",
            "weft_port_rate_bytes_per_second{node=\"leaf1\",port=\"2\"} 12500000000",
            "weft_port_info{node=\"leaf1\",port=\"2\",lid=\"7\",peer=\"node2:1\"} 1",
            "weft_fabric_hosts 2",
            "weft_processes 1",
            "weft_omitted{kind=\"queue_pair\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn queue_pairs_are_bounded_and_the_rest_is_counted() {
        let mut report = fabric_report(100);
        let one = report.pages[0].qps[0].clone();
        report.pages[0].qps = (0..10).map(|qpn| weft_ipc::stat::QpInfo { qpn, ..one.clone() }).collect();
        report.pages[0].untold = 5;
        let text = page(&report, 3);
        assert_eq!(text.matches("\nweft_qp_transmit_packets_total{").count(), 3);
        assert!(text.contains("weft_omitted{kind=\"queue_pair\"} 12\n"), "{text}");
    }
}
