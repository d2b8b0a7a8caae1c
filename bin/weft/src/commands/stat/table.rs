//! The table of counters: those that changed, and their rates.

use std::fmt::Write;

use weft_ipc::stat::{DeviceCounters, DeviceStat, StatReport};

use crate::commands::devices::Listed;

/// Formats a report; `before`: the previous report and the seconds since; `all`: include zeros.
pub fn text(report: &StatReport, before: Option<(f64, &StatReport)>, devices: &[Listed], all: bool) -> String {
    let mut out = String::new();
    for info in devices {
        let of = |report: &StatReport| report.devices.iter().find(|s| s.device == info.index).cloned();
        let stat = of(report).unwrap_or_default();
        heading(&mut out, info, &stat);
        let earlier = before.map(|(seconds, report)| (seconds, of(report).unwrap_or_default().counters));
        let rates: Option<Vec<f64>> =
            earlier.map(|(seconds, earlier)| rates(&stat.counters, &earlier, seconds).map(|(_, rate)| rate).collect());
        rows(&mut out, stat.counters.values(), rates.as_deref(), all);
        out.push('\n');
    }
    let _ = writeln!(out, "processes with a device open: {}", report.processes);
    let rates: Option<Vec<f64>> = before.map(|(seconds, earlier)| {
        let pairs = report.process.values().zip(earlier.process.values());
        pairs.map(|((_, now), (_, then))| rate(now, then, seconds)).collect()
    });
    rows(&mut out, report.process.values(), rates.as_deref(), all);
    out
}

/// Counters per second.
pub fn rates(
    now: &DeviceCounters,
    earlier: &DeviceCounters,
    seconds: f64,
) -> impl Iterator<Item = (&'static str, f64)> + use<> {
    now.values().zip(earlier.values()).map(move |((name, now), (_, then))| (name, rate(now, then, seconds)))
}

fn rate(now: u64, then: u64, seconds: f64) -> f64 {
    now.saturating_sub(then) as f64 / seconds.max(0.001)
}

fn heading(out: &mut String, info: &Listed, stat: &DeviceStat) {
    let o = &stat.objects;
    let host = info.host.as_ref().map(|host| format!(" of {host}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{}/1{host}  pd {} cq {} qp {} mr {} ctx {} srq {}",
        info.name, o.pd, o.cq, o.qp, o.mr, o.ctx, o.srq
    );
    if !o.paths.is_empty() {
        let paths: Vec<String> = o.paths.iter().map(|(path, count)| format!("{path} {count}")).collect();
        let _ = writeln!(out, "  queue pairs by path: {}", paths.join(", "));
    }
}

fn rows(out: &mut String, values: impl Iterator<Item = (&'static str, u64)>, rates: Option<&[f64]>, all: bool) {
    let mut any = false;
    for (i, (name, value)) in values.enumerate() {
        if value == 0 && !all {
            continue;
        }
        any = true;
        let _ = match rates.and_then(|rates| rates.get(i)) {
            Some(rate) => writeln!(out, "  {name:<24} {value:>20} {rate:>16.1}/s"),
            None => writeln!(out, "  {name:<24} {value:>20}"),
        };
    }
    if !any {
        out.push_str("  nothing counted yet\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;
    use weft_ipc::stat::DeviceObjects;

    #[test]
    fn what_moved_is_shown() {
        let report = |sent_pkts| StatReport {
            devices: vec![DeviceStat {
                device: 0,
                counters: DeviceCounters { sent_pkts, ..DeviceCounters::default() },
                objects: DeviceObjects { qp: 2, paths: vec![("wire".into(), 2)], ..DeviceObjects::default() },
            }],
            processes: 1,
            ..StatReport::default()
        };
        let expected = "rxe0/1  pd 0 cq 0 qp 2 mr 0 ctx 0 srq 0\n  queue pairs by path: wire 2\n  \
                        sent_pkts                                  30             10.0/s\n\n\
                        processes with a device open: 1\n  nothing counted yet\n";
        assert_eq!(text(&report(30), Some((2.0, &report(10))), &[rxe0().into()], false), expected);
        let on_host = text(&report(1), None, &crate::commands::devices::tests::both(), false);
        assert!(on_host.contains("\nweft0/1 of node2  pd 0 "), "{on_host}");
        assert!(
            text(&report(1), None, &[rxe0().into()], true).contains("rcvd_pkts                                   0\n")
        );
    }
}
