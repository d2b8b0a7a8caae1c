//! `weft qp`: the queue pairs of all processes in the network namespace, as iproute2's `rdma resource show qp`, with
//! the path that each takes to its peer.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use weft_ipc::stat::{QpInfo, QpPage};
use weft_tool::queue_pair::{address, state_name, type_name};

use super::devices::{self, HostArg, Listed, Scope};
use super::iproute::{self, Members, OutputArgs};
use crate::output;

/// Options of `weft qp`.
#[derive(Args, Debug)]
pub struct QpArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArg,
    /// Show only the queue pairs of a device, or of a device and port
    #[arg(value_name = "[show] [link] [DEV]")]
    words: Vec<String>,
}

/// Runs the command.
pub fn run(args: &QpArgs) -> ExitCode {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let words = words.strip_prefix(&["show"]).unwrap_or(&words);
    match show("weft qp", words, &args.host, args.output, Shown::Resource) {
        Ok(shown) => {
            output::print(&shown.text);
            if shown.text.is_empty() {
                crate::errln!("weft qp: no process has a queue pair there");
            }
            for line in shown.untold {
                crate::errln!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The part of a queue pair to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// Its type, state and peer.
    Resource,
    /// Its counters.
    Counters,
}

/// Output of a listing.
#[derive(Debug)]
pub(super) struct Listing {
    /// Text for standard output.
    pub text: String,
    /// Lines for standard error: processes whose queue pairs are only partly known.
    pub untold: Vec<String>,
}

/// Lists queue pairs as text or JSON. `words`: `[link] [DEV[/PORT]]`.
pub(super) fn show(
    command: &str,
    words: &[&str],
    host: &HostArg,
    output: OutputArgs,
    shown: Shown,
) -> Result<Listing, String> {
    let (mut client, mut devices) = devices::list(command, host, Scope::InUse)?;
    select(&mut devices, command, words)?;
    let pages = client.list_qps().map_err(|e| format!("{command}: {e}"))?;
    let rows = rows(&pages, &devices, shown);
    let text = if output.json { iproute::json(&rows, output.pretty) } else { text(&rows) };
    let untold = pages.iter().filter(|page| page.untold > 0).map(|page| {
        format!("{command}: process {} ({}) has {} more queue pairs than it reports", page.pid, page.comm, page.untold)
    });
    Ok(Listing { text, untold: untold.collect() })
}

/// Keeps only the device that the words name; keeps all if they name none.
pub(super) fn select(devices: &mut Vec<Listed>, command: &str, words: &[&str]) -> Result<(), String> {
    let wanted = match words {
        [] | ["link" | "dev"] => return Ok(()),
        ["link" | "dev", wanted] | [wanted] => wanted,
        _ => return Err(format!("Usage: {command} [show] [link DEV]")),
    };
    let (name, port) = wanted.split_once('/').unwrap_or((wanted, "1"));
    if !matches!(port, "1" | "-") || devices.iter().all(|device| device.name != name) {
        return Err(devices::wrong_name(wanted, devices));
    }
    devices.retain(|device| device.name == name);
    Ok(())
}

/// One row for each queue pair, device by device.
fn rows(pages: &[QpPage], devices: &[Listed], shown: Shown) -> Vec<Members> {
    let of = |device: &Listed| {
        let on = |qp: &&QpInfo| qp.device == device.index;
        let all = pages.iter().flat_map(|page| page.qps.iter().filter(on).map(move |qp| (page, qp)));
        all.map(|(page, qp)| row(page, qp, device, shown)).collect::<Vec<_>>()
    };
    devices.iter().flat_map(of).collect()
}

/// The first members of a row about port 1 of a device.
pub(super) fn link_members(device: &Listed) -> Members {
    let mut members: Members =
        vec![("ifindex", device.number.into()), ("ifname", device.name.as_str().into()), ("port", 1.into())];
    members.extend(device.host.iter().map(|host| ("host", host.as_str().into())));
    members
}

fn row(page: &QpPage, qp: &QpInfo, device: &Listed, shown: Shown) -> Members {
    let mut members = link_members(device);
    members.push(("lqpn", qp.qpn.into()));
    if let Some(dest) = qp.dest_qpn {
        members.push(("rqpn", dest.into()));
    }
    members.push(("type", type_name(qp.qp_type).into()));
    members.push(("state", state_name(qp.state).into()));
    match shown {
        Shown::Resource => {
            if qp.dest_qpn.is_some() {
                members.push(("rq-psn", qp.rq_psn.into()));
            }
            members.push(("sq-psn", qp.sq_psn.into()));
            if let Some(peer) = qp.peer {
                members.push(("peer", address(peer).into()));
            }
        }
        Shown::Counters => members.extend(qp.counters.values().map(|(name, value)| (name, value.into()))),
    }
    let path = qp.path.to_string();
    if !path.is_empty() {
        members.push(("path", path.into()));
    }
    members.push(("pid", page.pid.into()));
    members.push(("comm", page.comm.as_str().into()));
    members
}

/// Formats rows as `rdma` prints them: a blank after each word.
pub(super) fn text(rows: &[Members]) -> String {
    let mut out = String::new();
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for row in rows {
        let of = |wanted: &str| row.iter().find(|(key, _)| *key == wanted).map(|(_, v)| word(v)).unwrap_or_default();
        let _ = write!(out, "link {}/{} ", of("ifname"), of("port"));
        for (key, value) in row.iter().filter(|(key, _)| !matches!(*key, "ifindex" | "ifname" | "port")) {
            let _ = write!(out, "{key} {} ", word(value));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;
    use weft_ipc::stat::QpCounters;

    fn page() -> QpPage {
        let connected = QpInfo {
            device: 0,
            qpn: 17,
            dest_qpn: Some(18),
            qp_type: 2,
            state: 3,
            rq_psn: 5,
            sq_psn: 6,
            peer: Some("::ffff:10.77.0.2".parse::<std::net::Ipv6Addr>().unwrap().octets()),
            path: "same-host(memcpy)".into(),
            posted_sends: 0,
            posted_recvs: 0,
            round_trip_ns: 0,
            counters: QpCounters { sent_pkts: 9, ..QpCounters::default() },
        };
        let datagram =
            QpInfo { qpn: 19, dest_qpn: None, qp_type: 4, state: 1, peer: None, path: "".into(), ..connected.clone() };
        QpPage { pid: 444, comm: "rping".to_owned(), qps: vec![connected, datagram], ..QpPage::default() }
    }

    #[test]
    fn text_is_as_rdma_resource_prints() {
        let text = text(&rows(&[page()], &[rxe0().into()], Shown::Resource));
        let expected = "link rxe0/1 lqpn 17 rqpn 18 type RC state RTS rq-psn 5 sq-psn 6 peer 10.77.0.2 \
                        path same-host(memcpy) pid 444 comm rping \n\
                        link rxe0/1 lqpn 19 type UD state INIT sq-psn 6 pid 444 comm rping \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn counters_and_other_devices() {
        let text = text(&rows(&[page()], &[rxe0().into()], Shown::Counters));
        assert!(text.starts_with("link rxe0/1 lqpn 17 rqpn 18 type RC state RTS sent_pkts 9 rcvd_pkts 0 "), "{text}");
        let other = weft_ipc::DeviceInfo { index: 7, ..rxe0() };
        assert!(rows(&[page()], &[other.into()], Shown::Resource).is_empty());
    }

    #[test]
    fn queue_pairs_on_a_fabric_tell_their_host() {
        let devices = devices::tests::both();
        let mut page = page();
        page.qps[0].device = devices[1].index;
        let text = text(&rows(&[page], &devices, Shown::Resource));
        assert!(text.starts_with("link rxe0/1 lqpn 19 "), "{text}");
        assert!(text.contains("\nlink weft0/1 host node2 lqpn 17 rqpn 18 type RC "), "{text}");
    }

    #[test]
    fn a_device_is_named_as_rdma_has_it() {
        for words in [&[][..], &["rxe0"], &["link", "rxe0/1"], &["dev", "rxe0"]] {
            let mut devices = vec![rxe0().into()];
            assert_eq!(select(&mut devices, "weft qp", words), Ok(()), "{words:?}");
            assert_eq!(devices.len(), 1);
        }
        for words in [&["rxe1"][..], &["rxe0/2"], &["link", "rxe0", "x"]] {
            assert!(select(&mut vec![rxe0().into()], "weft qp", words).is_err(), "{words:?}");
        }
    }
}
