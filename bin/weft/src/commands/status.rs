//! `weft status`: the daemon, and the processes that use it.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weft_fabric::topology::counted;
use weft_fabric::topology::{LinkState, Picture};
use weft_ipc::ethernet::EthernetStatus;
use weft_ipc::fabric::{FabricStatus, HostPrograms};
use weft_ipc::{
    Client, CmStatus, ConnectError, ConnectOptions, PortHealth, ProcessInfo, Spawn, StatusReport, Usage, VIEW_KEEPER,
};

use super::ethernet;
use crate::{outln, output};

/// Options of `weft status`.
#[derive(Args, Debug, Default)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(short, long)]
    pub(super) json: bool,
}

/// Runs the command. Does not start a daemon: exit code 3 means that none runs, as service managers define it.
pub fn run(args: &StatusArgs) -> ExitCode {
    let options = ConnectOptions { program: "weft".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    let report = match Client::connect(&options) {
        Ok(mut client) => client.status().and_then(|report| {
            let fabric = match client.fabric_status()? {
                Some(status) => {
                    let hosts = client.fabric_hosts()?;
                    let picture = if args.json { super::topology::read(&client.fabric_picture()?).ok() } else { None };
                    Some(Fabric { status, hosts, picture })
                }
                None => None,
            };
            Ok((report, Up { fabric, ethernet: client.ethernet_status()? }))
        }),
        Err(ConnectError::NotRunning) => {
            if args.json {
                outln!("{}", json!({"running": false}));
            } else {
                outln!("no daemon runs in this network namespace; programs start one when they need it");
            }
            return ExitCode::from(3);
        }
        Err(e) => {
            crate::errln!("weft status: {e}");
            return ExitCode::FAILURE;
        }
    };
    match report {
        Ok((mut report, up)) => {
            report.processes = of_others(report.processes, std::process::id());
            output::print(&if args.json { as_json(&report, &up) } else { text(&report, &up) });
            ExitCode::SUCCESS
        }
        Err(e) => {
            crate::errln!("weft status: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The processes among these sessions: one may have several (its devices, connection manager and management datagrams
/// each have their own). The session of this command, which asks, and those of the keepers of `weft run`'s views are
/// left out.
pub(super) fn of_others(sessions: Vec<ProcessInfo>, own_pid: u32) -> Vec<ProcessInfo> {
    let mut processes: Vec<ProcessInfo> = Vec::new();
    let asked_about = |session: &ProcessInfo| session.pid != own_pid && session.program != VIEW_KEEPER;
    for session in sessions.into_iter().filter(asked_about) {
        // A process of an unseen PID namespace has no number to recognise it by.
        let known = processes.iter_mut().find(|known| session.pid != 0 && known.pid == session.pid);
        match known {
            Some(known) => merge(known, session),
            None => processes.push(session),
        }
    }
    processes
}

fn merge(process: &mut ProcessInfo, session: ProcessInfo) {
    process.slot = process.slot.or(session.slot);
    if process.fault.is_empty() {
        process.fault = session.fault;
    }
    let (all, more) = (&mut process.usage, session.usage);
    let sum = |a: u32, b: u32| a.saturating_add(b);
    *all = Usage {
        pd: sum(all.pd, more.pd),
        cq: sum(all.cq, more.cq),
        qp: sum(all.qp, more.qp),
        mr: sum(all.mr, more.mr),
        srq: sum(all.srq, more.srq),
    };
}

fn port_text(port: &PortHealth) -> String {
    match port {
        PortHealth::Unused => "not in use".to_owned(),
        PortHealth::Held => "open".to_owned(),
        PortHealth::Recovering => "recovering: programs from before the daemon's restart hold it".to_owned(),
        PortHealth::Taken(who) => format!("taken: {who}"),
    }
}

/// The networks of virtual hosts that are up.
#[derive(Default)]
struct Up {
    fabric: Option<Fabric>,
    ethernet: Option<EthernetStatus>,
}

/// A fabric, the hosts that programs run as and, for JSON, the nodes and cables.
pub(super) struct Fabric {
    pub(super) status: FabricStatus,
    pub(super) hosts: Vec<HostPrograms>,
    pub(super) picture: Option<Picture>,
}

/// Maximum number of hosts with programs in the text; `--json` has all.
const HOSTS_SHOWN: usize = 12;

fn text(r: &StatusReport, up: &Up) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "daemon     version {}, pid {}, uid {}, up {} s", r.version, r.pid, r.uid, r.uptime_s);
    let _ = writeln!(out, "UDP 4791   {}", port_text(&r.port));
    let _ = writeln!(
        out,
        "slots      {} in use of {}, at most {} for one user",
        r.slots_in_use, r.pool_slots, r.slots_per_user_max
    );
    let _ = writeln!(out, "devices    {}", r.devices);
    cm_text(&mut out, &r.cm);
    if let Some(Fabric { status, hosts, .. }) = &up.fabric {
        fabric_text(&mut out, status, hosts);
    }
    if let Some(EthernetStatus { spec, uptime_s, failure }) = &up.ethernet {
        let _ = writeln!(out, "network    {}, up {uptime_s} s", ethernet::summary(spec));
        let _ = writeln!(out, "           {}; each has a daemon of its own", ethernet::hosts(spec));
        if let Some(failure) = failure {
            let _ = writeln!(out, "           failed: {failure}; run `weft down`, then `weft up --ethernet` again");
        }
    }
    let _ = writeln!(out, "processes  {}", r.processes.len());
    if r.processes.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n{:>8} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}  program",
        "PID", "UID", "slot", "pd", "cq", "qp", "mr", "srq"
    );
    for p in &r.processes {
        let slot = p.slot.map_or("-".to_owned(), |slot| slot.to_string());
        let u = &p.usage;
        let faults = if p.fault.is_empty() { String::new() } else { format!(" (WEFT_FAULT {})", p.fault) };
        let _ = writeln!(
            out,
            "{:>8} {:>6} {slot:>5} {:>5} {:>5} {:>5} {:>5} {:>5}  {}{faults}",
            p.pid, p.uid, u.pd, u.cq, u.qp, u.mr, u.srq, p.program
        );
    }
    out
}

/// Describes the fabric: its kind, its subnet manager, and the hosts with programs.
fn fabric_text(out: &mut String, status: &FabricStatus, hosts: &[HostPrograms]) {
    let _ = writeln!(out, "fabric     {}, up {} s", super::fabric_summary::summary(status), status.uptime_s);
    if status.packets {
        let _ = writeln!(out, "           every packet goes hop by hop");
    }
    if status.powered_off > 0 {
        let verb = if status.powered_off == 1 { "is" } else { "are" };
        let _ = writeln!(out, "           {} {verb} powered off", counted(status.powered_off, "node"));
    }
    match &status.managers[..] {
        [] => drop(writeln!(out, "  SM       none: weft run --host HOST -- opensm starts one")),
        managers => managers.iter().for_each(|sm| {
            let it = if sm.followers == 1 { "follows it" } else { "follow it" };
            let _ = writeln!(
                out,
                "  SM       {}:{}, LID {}, {} {it}",
                sm.node,
                sm.port,
                sm.lid,
                counted(sm.followers, "port")
            );
        }),
    }
    if !hosts.is_empty() {
        let shown = hosts.iter().take(HOSTS_SHOWN).map(|entry| format!("{} ({})", entry.host, entry.programs));
        let more = hosts.len().saturating_sub(HOSTS_SHOWN);
        let more =
            if more > 0 { format!(" and {more} more host{}", if more == 1 { "" } else { "s" }) } else { String::new() };
        let _ = writeln!(out, "  programs {}{more}", shown.collect::<Vec<_>>().join(", "));
    }
}

pub(super) fn fabric_json(Fabric { status, hosts, picture }: &Fabric) -> serde_json::Value {
    let links: serde_json::Map<String, serde_json::Value> =
        LinkState::ALL.iter().zip(status.links).map(|(state, count)| (state.word().to_owned(), count.into())).collect();
    let managers: Vec<_> = status
        .managers
        .iter()
        .map(|sm| json!({"node": sm.node, "port": sm.port, "lid": sm.lid, "followers": sm.followers}))
        .collect();
    let programs: Vec<_> = hosts.iter().map(|entry| json!({"host": entry.host, "programs": entry.programs})).collect();
    json!({
        "title": status.title, "packets": status.packets, "uptime_s": status.uptime_s, "hosts": status.hosts, "adapters": status.adapters,
        "switches": status.switches, "routers": status.routers, "powered_off": status.powered_off, "links": links,
        "managers": managers, "programs": programs,
        "nodes": picture.as_ref().map(super::topology::nodes_json),
        "cables": picture.as_ref().map(super::topology::cables_json),
    })
}

/// Describes the RDMA connection manager, if it is in use.
fn cm_text(out: &mut String, cm: &CmStatus) {
    if cm.processes > 0 || cm.gsi.is_some() {
        let _ = writeln!(
            out,
            "CM ids     {} listening, {} connected or connecting, {} others; {} event channels, {} multicast groups",
            cm.listeners, cm.connections, cm.idle_ids, cm.channels, cm.groups
        );
    }
    if let Some(gsi) = &cm.gsi {
        let dropped = gsi.malformed + gsi.icrc_errors + gsi.not_gmp + gsi.foreign;
        let _ = writeln!(
            out,
            "QP1        {} datagrams received, {} sent, {dropped} packets dropped ({} with a wrong ICRC)",
            gsi.received, gsi.sent, gsi.icrc_errors
        );
    }
}

fn cm_json(cm: &CmStatus) -> serde_json::Value {
    let gsi = cm.gsi.as_ref().map(|gsi| {
        json!({
            "received": gsi.received, "sent": gsi.sent, "malformed": gsi.malformed, "icrc_errors": gsi.icrc_errors,
            "not_gmp": gsi.not_gmp, "foreign": gsi.foreign, "unsendable": gsi.unsendable,
        })
    });
    json!({
        "processes": cm.processes, "channels": cm.channels, "listeners": cm.listeners,
        "connections": cm.connections, "idle_ids": cm.idle_ids, "groups": cm.groups, "gsi": gsi,
    })
}

fn as_json(r: &StatusReport, up: &Up) -> String {
    let processes: Vec<_> = r
        .processes
        .iter()
        .map(|p| {
            let u = &p.usage;
            json!({
                "pid": p.pid, "uid": p.uid, "program": p.program, "slot": p.slot,
                "pd": u.pd, "cq": u.cq, "qp": u.qp, "mr": u.mr, "srq": u.srq, "fault": p.fault,
            })
        })
        .collect();
    let value = json!({
        "running": true,
        "version": r.version,
        "pid": r.pid,
        "uid": r.uid,
        "uptime_s": r.uptime_s,
        "port": port_text(&r.port),
        "pool_slots": r.pool_slots,
        "slots_in_use": r.slots_in_use,
        "slots_per_user_max": r.slots_per_user_max,
        "devices": r.devices,
        "slot0_packets": r.slot0_packets,
        "cm": cm_json(&r.cm),
        "fabric": up.fabric.as_ref().map(fabric_json),
        "ethernet": up.ethernet.as_ref().map(ethernet::as_json),
        "processes": processes,
    });
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::generate::{Plan, Shape};
    use weft_ipc::ethernet::{EthernetFailure, EthernetSpec};
    use weft_ipc::fabric::SmPort;

    #[test]
    fn a_process_is_shown_once_and_the_command_itself_never() {
        let session = |pid, slot, qp| ProcessInfo {
            pid,
            uid: 0,
            program: "ib_write_bw".to_owned(),
            slot,
            usage: Usage { qp, ..Usage::default() },
            fault: String::new(),
        };
        let sessions = vec![
            session(7, None, 0),
            session(9, None, 0),
            session(7, Some(3), 2),
            session(0, None, 0),
            session(0, None, 1),
        ];
        let expected = vec![session(7, Some(3), 2), session(0, None, 0), session(0, None, 1)];
        assert_eq!(of_others(sessions, 9), expected);
    }

    fn report() -> StatusReport {
        StatusReport {
            version: "0.1.0".to_owned(),
            pid: 42,
            uid: 0,
            uptime_s: 7,
            port: PortHealth::Held,
            pool_slots: 64,
            slots_in_use: 1,
            slots_per_user_max: 512,
            devices: 2,
            slot0_packets: 0,
            cm: CmStatus::default(),
            processes: vec![ProcessInfo {
                pid: 99,
                uid: 1000,
                program: "ib_write_bw".to_owned(),
                slot: Some(3),
                usage: Usage { pd: 1, cq: 1, qp: 1, mr: 1, srq: 0 },
                fault: "loss=1%".to_owned(),
            }],
            more: false,
        }
    }

    #[test]
    fn the_report_is_a_short_table() {
        let report = report();
        let fabric = FabricStatus {
            title: "fat-tree 4,2".to_owned(),
            uptime_s: 5,
            hosts: 8,
            adapters: 8,
            switches: 6,
            links: [15, 0, 0, 0, 1],
            managers: vec![SmPort { node: "node1".to_owned(), port: 1, lid: 1, followers: 14 }],
            ..FabricStatus::default()
        };
        let hosts = vec![HostPrograms { host: "node1".to_owned(), programs: 2 }];
        let plan = Plan::new(Shape::Pair);
        let picture = Some(Picture::of(plan.generate().expect("a pair")));
        let fabric = Fabric { status: fabric, hosts, picture };
        let up = Up { fabric: Some(fabric), ethernet: None };
        let text = text(&report, &up);
        let lines = "fabric     fat-tree 4,2: 8 hosts, 6 switches, 16 links (15 active, 1 cut), up 5 s\n  \
                     SM       node1:1, LID 1, 14 ports follow it\n  programs node1 (2)\n";
        assert!(text.contains(lines), "{text}");
        let json = as_json(&report, &up);
        assert!(json.contains("\"active\":15") && json.contains("\"a\":\"node1:1\",\"b\":\"node2:1\""), "{json}");
        assert!(text.starts_with("daemon     version 0.1.0, pid 42, uid 0, up 7 s\nUDP 4791   open\n"));
        assert!(
            text.ends_with("      99   1000     3     1     1     1     1     0  ib_write_bw (WEFT_FAULT loss=1%)\n"),
            "{text}"
        );
        assert!(as_json(&report, &Up::default()).contains("\"slot\":3"));
    }

    #[test]
    fn a_failed_network_has_a_hint() {
        let spec = EthernetSpec {
            hosts: 2,
            mtu: 1500,
            rate_mbps: None,
            delay: std::time::Duration::ZERO,
            loss_ppm: 0,
            seed: 1,
        };
        let of = |failure| Up { fabric: None, ethernet: Some(EthernetStatus { spec, uptime_s: 5, failure }) };
        let (report, failed) = (report(), of(Some(EthernetFailure::Switch)));
        let line = "           failed: the hosts have lost their links: the process that owns the switch has ended; run \
                    `weft down`, then `weft up --ethernet` again\n";
        assert!(text(&report, &failed).contains(line), "{}", text(&report, &failed));
        assert!(!text(&report, &of(None)).contains("failed"));
        assert!(
            as_json(&report, &failed).contains("has ended") && as_json(&report, &of(None)).contains("\"failure\":null")
        );
    }
}
