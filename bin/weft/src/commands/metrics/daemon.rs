//! Metrics of the daemon, of its connection manager, and of the processes that use it.

use weft_ipc::stat::ProcessCounters;
use weft_ipc::{CmStatus, StatusReport};
use weft_metrics::{Exposition, Kind, Sample};

use super::names::metric;
use crate::commands::report::Report;

/// Adds whether a daemon runs.
pub fn up(page: &mut Exposition, is_up: bool) {
    let help = "Whether a daemon runs in this network namespace.";
    page.family("weft_daemon_up", Kind::Gauge, help, [Sample::plain(is_up.into())]);
}

/// Adds the metrics of a daemon that runs.
pub fn add(page: &mut Exposition, report: &Report) {
    daemon(page, &report.status);
    connection_manager(page, &report.status.cm);
    let processes = [Sample::plain(report.stat.processes.into())];
    page.family("weft_processes", Kind::Gauge, "Processes that have an adapter open.", processes);
    for ((name, meaning), (_, value)) in ProcessCounters::MEANINGS.iter().zip(report.stat.process.values()) {
        page.family(&metric("process", name), Kind::Counter, meaning, [Sample::plain(value)]);
    }
}

fn daemon(page: &mut Exposition, status: &StatusReport) {
    let version = [Sample::integer([("version", status.version.as_str())], 1)];
    page.family("weft_daemon_info", Kind::Gauge, "Version of the daemon.", version);
    let rows = [
        ("weft_daemon_uptime_seconds", "Time since the daemon started.", status.uptime_s),
        ("weft_daemon_devices", "Devices on network interfaces.", status.devices.into()),
        ("weft_daemon_slots", "Sockets of the pool, one for each process.", status.pool_slots.into()),
        ("weft_daemon_slots_in_use", "Sockets of the pool that belong to processes.", status.slots_in_use.into()),
        ("weft_daemon_clients", "Processes connected to the daemon.", status.processes.len() as u64),
    ];
    for (name, help, value) in rows {
        page.family(name, Kind::Gauge, help, [Sample::plain(value)]);
    }
    let dropped = [Sample::plain(status.slot0_packets)];
    let help = "Packets dropped because no queue pair has their number.";
    page.family("weft_daemon_unclaimed_packets_total", Kind::Counter, help, dropped);
}

fn connection_manager(page: &mut Exposition, cm: &CmStatus) {
    let ids = [("listening", cm.listeners), ("connected", cm.connections), ("other", cm.idle_ids)];
    let ids = ids.map(|(state, count)| Sample::integer([("state", state)], count.into()));
    page.family("weft_cm_ids", Kind::Gauge, "Ids of the RDMA connection manager by state.", ids);
    let channels = [Sample::plain(cm.channels.into())];
    page.family("weft_cm_event_channels", Kind::Gauge, "Event channels of the connection manager.", channels);
    let Some(gsi) = &cm.gsi else { return };
    let rows = [
        ("weft_gsi_receive_datagrams_total", "Management datagrams that queue pair 1 accepted.", gsi.received),
        ("weft_gsi_transmit_datagrams_total", "Management datagrams that queue pair 1 sent.", gsi.sent),
        ("weft_gsi_icrc_errors_total", "Packets to queue pair 1 dropped for a wrong ICRC.", gsi.icrc_errors),
        ("weft_gsi_malformed_packets_total", "Packets to queue pair 1 dropped that are not RoCE.", gsi.malformed),
    ];
    for (name, help, value) in rows {
        page.family(name, Kind::Counter, help, [Sample::plain(value)]);
    }
}
