//! `weft stat`: counters of devices, queue pairs and ports of a fabric; those of devices are summed over all processes including those that ended. As a table,
//! with rates while watching; in the form of iproute2's `rdma statistic` after the word `show`; and as JSON.

mod meanings;
mod ports;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value, json};
use weft_ipc::Client;
use weft_ipc::stat::{DeviceCounters, StatReport};

pub(super) use ports::{errors as port_errors, state_name as port_state};

use super::devices::{self, HostArg, Listed};
use super::iproute::{self, Members, OutputArgs};
use super::qp;
use crate::output;

/// Counters of rxe, in the order in which `rdma statistic` shows them.
pub(super) const RXE_COUNTERS: [&str; 15] = [
    "sent_pkts",
    "rcvd_pkts",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "send_rnr_err",
    "rcvd_seq_err",
    "ack_deferred",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "send_err",
    "link_downed",
    "rdma_sends",
    "rdma_recvs",
];

/// Shortest watch interval: each report wakes every process that has a device open.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Options of `weft stat`.
#[derive(Args, Debug)]
pub struct StatArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArg,
    /// Repeat every second, or every SECONDS, and show rates
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1)]
    watch: Option<Option<String>>,
    /// Number of reports while watching [default: until interrupted]
    #[arg(short, long, requires = "watch")]
    count: Option<u64>,
    /// Print what each counter counts
    #[arg(long, conflicts_with_all = ["watch", "words"])]
    explain: bool,
    /// `DEV`: print a table. `show [link DEV/1]`: print as `rdma statistic` does. `qp [link DEV]`: print per queue pair.
    /// `port [NODE[:PORT]]`: print per port of the fabric
    #[arg(value_name = "DEV | show [link DEV/1] | qp [link DEV] | port [NODE[:PORT]]")]
    words: Vec<String>,
}

/// Runs the command.
pub fn run(args: &StatArgs) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &StatArgs) -> Result<(), String> {
    if args.explain {
        output::print(&meanings::text());
        return Ok(());
    }
    let mut words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    // In `--watch DEV`, the word after the option is not a number.
    let interval = match &args.watch {
        None => None,
        Some(None) => Some(Duration::from_secs(1)),
        Some(Some(text)) => {
            Some(seconds(text).or_else(|error| match text.starts_with(|c: char| c.is_ascii_digit()) {
                true => Err(error),
                false => {
                    words.push(text);
                    Ok(Duration::from_secs(1))
                }
            })?)
        }
    };
    match words.as_slice() {
        ["qp", rest @ ..] => {
            let rest = rest.strip_prefix(&["show"]).unwrap_or(rest);
            let listing = qp::show("weft stat", rest, &args.host, args.output, qp::Shown::Counters)?;
            output::print(&listing.text);
            listing.untold.iter().for_each(|line| crate::errln!("{line}"));
            Ok(())
        }
        ["port", rest @ ..] => ports::show(rest, args.output),
        ["show" | "list" | "lst", rest @ ..] | rest @ ["link", ..] => {
            let (report, devices) = Asker::new(rest, &args.host)?.look()?;
            let rows = links(&report, &devices);
            let text = if args.output.json { iproute::json(&rows, args.output.pretty) } else { qp::text(&rows) };
            output::print(&text);
            Ok(())
        }
        rest => match interval {
            None => {
                let (report, devices) = Asker::new(rest, &args.host)?.look()?;
                print(&report, None, &devices, args.output);
                Ok(())
            }
            Some(interval) => watch(&mut Asker::new(rest, &args.host)?, interval, args),
        },
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("--watch {text}: a number of seconds is wanted, 0.1 or more");
    let seconds = text.parse::<f64>().map_err(|_| wrong())?;
    let interval = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if interval < INTERVAL_MIN { Err(wrong()) } else { Ok(interval) }
}

/// Queries the daemon for reports.
struct Asker<'a> {
    client: Client,
    words: &'a [&'a str],
}

impl<'a> Asker<'a> {
    fn new(words: &'a [&'a str], host: &HostArg) -> Result<Asker<'a>, String> {
        let client = devices::connect(host.host.as_deref()).map_err(|e| format!("weft stat: {e}"))?;
        Ok(Asker { client, words })
    }

    fn look(&mut self) -> Result<(StatReport, Vec<Listed>), String> {
        let client = &mut self.client;
        let mut devices = devices::in_use(client).map_err(|e| format!("weft stat: {e}"))?;
        let report = client.stat().map_err(|e| format!("weft stat: {e}"))?;
        qp::select(&mut devices, "weft stat", self.words)?;
        Ok((report, devices))
    }
}

fn watch(asker: &mut Asker, interval: Duration, args: &StatArgs) -> Result<(), String> {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let mut last: Option<(Instant, StatReport)> = None;
    let mut looks = 0;
    loop {
        let started = Instant::now();
        let (report, devices) = asker.look()?;
        let now = Instant::now();
        if terminal && !args.output.json {
            output::print("\x1b[H\x1b[2J");
        }
        let before = last.as_ref().map(|(at, report)| (now.duration_since(*at).as_secs_f64(), report));
        print(&report, before, &devices, args.output);
        looks += 1;
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
        last = Some((now, report));
        std::thread::sleep(interval.saturating_sub(started.elapsed()));
    }
}

/// Prints a report; `before`: the previous report and the seconds since.
fn print(report: &StatReport, before: Option<(f64, &StatReport)>, devices: &[Listed], output: OutputArgs) {
    match output.json {
        true => {
            let value = as_json(report, before, devices);
            let text = if output.pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            output::print(&(text.unwrap_or_default() + "\n"));
        }
        false => output::print(&table::text(report, before, devices, output.details)),
    }
}

/// Rows of links, as `rdma statistic show link` has them.
fn links(report: &StatReport, devices: &[Listed]) -> Vec<Members> {
    let row = |device: &Listed| {
        let counters = counters_of(report, device.index);
        let mut members = qp::link_members(device);
        members.extend(RXE_COUNTERS.iter().map(|name| (*name, value_of(&counters, name).into())));
        members
    };
    devices.iter().map(row).collect()
}

fn counters_of(report: &StatReport, device: u32) -> DeviceCounters {
    report.devices.iter().find(|stat| stat.device == device).map(|stat| stat.counters).unwrap_or_default()
}

/// Returns a counter by its name.
pub(super) fn value_of(counters: &DeviceCounters, name: &str) -> u64 {
    counters.values().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}

fn object<V: Into<Value>>(members: impl Iterator<Item = (String, V)>) -> Value {
    Value::Object(members.map(|(name, value)| (name, value.into())).collect::<Map<_, _>>())
}

fn as_json(report: &StatReport, before: Option<(f64, &StatReport)>, devices: &[Listed]) -> Value {
    let device = |info: &Listed| {
        let counters = counters_of(report, info.index);
        let stat = report.devices.iter().find(|stat| stat.device == info.index).cloned().unwrap_or_default();
        let o = &stat.objects;
        let mut value = json!({
            "ifindex": info.number,
            "ifname": info.name,
            "port": 1,
            "counters": object(counters.values().map(|(name, value)| (name.to_owned(), value))),
            "resources": { "pd": o.pd, "cq": o.cq, "qp": o.qp, "mr": o.mr, "ctx": o.ctx, "srq": o.srq },
            "paths": object(o.paths.iter().map(|(path, count)| (path.to_string(), *count))),
        });
        if let Some(host) = &info.host {
            value["host"] = host.as_str().into();
        }
        if let Some((seconds, earlier)) = before {
            let rates = table::rates(&counters, &counters_of(earlier, info.index), seconds);
            value["per_second"] = object(rates.map(|(name, rate)| (name.to_owned(), rate)));
        }
        value
    };
    json!({
        "devices": devices.iter().map(device).collect::<Vec<_>>(),
        "process": object(report.process.values().map(|(name, value)| (name.to_owned(), value))),
        "processes": report.processes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;
    use weft_ipc::stat::DeviceStat;

    fn report(sent_pkts: u64) -> StatReport {
        let counters = DeviceCounters { sent_pkts, rcvd_pkts: 7, ..DeviceCounters::default() };
        let devices = vec![DeviceStat { device: 0, counters, ..DeviceStat::default() }];
        StatReport { devices, processes: 1, ..StatReport::default() }
    }

    #[test]
    fn links_are_as_rdma_statistic_prints_them() {
        let text = qp::text(&links(&report(5), &[rxe0().into()]));
        let expected = "link rxe0/1 sent_pkts 5 rcvd_pkts 7 duplicate_request 0 out_of_seq_request 0 rcvd_rnr_err 0 \
                        send_rnr_err 0 rcvd_seq_err 0 ack_deferred 0 retry_exceeded_err 0 retry_rnr_exceeded_err 0 \
                        completer_retry_err 0 send_err 0 link_downed 0 rdma_sends 0 rdma_recvs 0 \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_has_counters_and_rates() {
        let value = as_json(&report(50), Some((2.0, &report(10))), &[rxe0().into()]);
        assert_eq!(value["devices"][0]["counters"]["sent_pkts"], 50);
        assert_eq!(value["devices"][0]["per_second"]["sent_pkts"], 20.0);
        assert_eq!(as_json(&report(50), None, &[rxe0().into()])["devices"][0].get("per_second"), None);
    }

    #[test]
    fn every_counter_of_rxe_is_one_of_ours() {
        let known = DeviceCounters::default();
        for name in RXE_COUNTERS {
            assert!(known.values().any(|(ours, _)| ours == name), "{name}");
        }
    }

    #[test]
    fn intervals_are_checked() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.01", "x", "-1", "1e99", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
