//! `weft status`: the daemon, and who uses it.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weft_ipc::{Client, CmStatus, ConnectError, ConnectOptions, PortHealth, Spawn, StatusReport};

use crate::{outln, output};

/// Options of `weft status`.
#[derive(Args, Debug, Default)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// Runs the command. Does not start a daemon: code 3 says that none runs, as service managers do.
pub fn run(args: &StatusArgs) -> ExitCode {
    let options = ConnectOptions { program: "weft".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    let report = match Client::connect(&options) {
        Ok(mut client) => client.status(),
        Err(ConnectError::NotRunning) => {
            if args.json {
                outln!("{}", json!({"running": false}));
            } else {
                outln!("no daemon runs in this network namespace; programs start one when they need it");
            }
            return ExitCode::from(3);
        }
        Err(e) => {
            eprintln!("weft status: {e}");
            return ExitCode::FAILURE;
        }
    };
    match report {
        Ok(report) => {
            output::print(&if args.json { as_json(&report) } else { text(&report) });
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("weft status: {e}");
            ExitCode::FAILURE
        }
    }
}

fn port_text(port: &PortHealth) -> String {
    match port {
        PortHealth::Unused => "not in use".to_owned(),
        PortHealth::Held => "open".to_owned(),
        PortHealth::Recovering => "recovering: programs from before the daemon's restart hold it".to_owned(),
        PortHealth::Taken(who) => format!("taken: {who}"),
    }
}

fn text(r: &StatusReport) -> String {
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
        let _ = writeln!(
            out,
            "{:>8} {:>6} {slot:>5} {:>5} {:>5} {:>5} {:>5} {:>5}  {}",
            p.pid, p.uid, u.pd, u.cq, u.qp, u.mr, u.srq, p.program
        );
    }
    out
}

/// The RDMA connection manager, once somebody uses it.
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

fn as_json(r: &StatusReport) -> String {
    let processes: Vec<_> = r
        .processes
        .iter()
        .map(|p| {
            let u = &p.usage;
            json!({
                "pid": p.pid, "uid": p.uid, "program": p.program, "slot": p.slot,
                "pd": u.pd, "cq": u.cq, "qp": u.qp, "mr": u.mr, "srq": u.srq,
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
        "processes": processes,
    });
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_ipc::{ProcessInfo, Usage};

    #[test]
    fn the_report_is_a_short_table() {
        let report = StatusReport {
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
            }],
            more: false,
        };
        let text = text(&report);
        assert!(text.starts_with("daemon     version 0.1.0, pid 42, uid 0, up 7 s\nUDP 4791   open\n"));
        assert!(text.ends_with("      99   1000     3     1     1     1     1     0  ib_write_bw\n"), "{text}");
        assert!(as_json(&report).contains("\"slot\":3"));
    }
}
