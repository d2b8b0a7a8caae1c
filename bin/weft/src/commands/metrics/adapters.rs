//! Metrics of adapters: counters of all processes on them, objects of those that run.

use weft_ipc::PortState;
use weft_ipc::stat::{DeviceCounters, DeviceStat};
use weft_metrics::{Exposition, Kind, Sample};

use super::names::metric;
use crate::commands::devices::Listed;
use crate::commands::report::Report;

/// Adapters of one page.
pub const ADAPTERS_MAX: usize = 256;

/// Adds them.
pub fn add(page: &mut Exposition, report: &Report) {
    let devices: Vec<(&Listed, DeviceStat)> = report.devices.iter().take(ADAPTERS_MAX).map(with_stat(report)).collect();
    for (place, (name, meaning)) in DeviceCounters::MEANINGS.iter().enumerate() {
        let samples = devices.iter().filter_map(|(device, stat)| {
            let (_, value) = stat.counters.values().nth(place)?;
            Some(Sample::integer(labels(device), value))
        });
        page.family(&metric("adapter", name), Kind::Counter, meaning, samples);
    }
    objects(page, &devices);
    let states = devices.iter().map(|(device, _)| {
        let is_active = device.state == PortState::Active;
        Sample::integer(labels(device), is_active.into())
    });
    page.family("weft_adapter_up", Kind::Gauge, "Whether the adapter's first port is active.", states);
    let info = devices.iter().map(|(device, _)| {
        let mut all = labels(device).to_vec();
        all.extend([("kind", device.kind.as_str()), ("netdev", device.netdev.as_str())]);
        Sample::integer(all, 1)
    });
    page.family("weft_adapter_info", Kind::Gauge, "Kind of the adapter, and its network interface.", info);
}

fn with_stat(report: &Report) -> impl Fn(&Listed) -> (&Listed, DeviceStat) {
    |device| {
        let stat = report.stat.devices.iter().find(|stat| stat.device == device.index);
        (device, stat.cloned().unwrap_or_default())
    }
}

fn labels(device: &Listed) -> [(&str, &str); 2] {
    [("device", device.name.as_str()), ("host", device.host.as_deref().unwrap_or_default())]
}

fn objects(page: &mut Exposition, devices: &[(&Listed, DeviceStat)]) {
    type Count = fn(&DeviceStat) -> u32;
    let rows: [(&str, &str, Count); 6] = [
        ("weft_adapter_protection_domains", "Protection domains of running processes.", |stat| stat.objects.pd),
        ("weft_adapter_completion_queues", "Completion queues of running processes.", |stat| stat.objects.cq),
        ("weft_adapter_queue_pairs", "Queue pairs of running processes.", |stat| stat.objects.qp),
        ("weft_adapter_memory_regions", "Memory regions of running processes.", |stat| stat.objects.mr),
        ("weft_adapter_contexts", "Times that running processes have the adapter open.", |stat| stat.objects.ctx),
        ("weft_adapter_shared_receive_queues", "Shared receive queues of running processes.", |stat| stat.objects.srq),
    ];
    for (name, help, count) in rows {
        let samples = devices.iter().map(|(device, stat)| Sample::integer(labels(device), count(stat).into()));
        page.family(name, Kind::Gauge, help, samples);
    }
}
