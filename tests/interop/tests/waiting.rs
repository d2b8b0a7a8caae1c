//! Programs that sleep until a completion event comes: a C program that tries everything that may happen to a thread in
//! `ibv_get_cq_event`, and Debian's tools with events, on both transports within a host and between hosts.

use anyhow::{Context, Result, ensure};
use std::process::Command;
use weft_interop::{Lab, Pair, Path, Shape, Table, Who, skip};

const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h", "ib_send_lat", "ib_send_bw"];
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/waiting/waiting.c");

/// Tools whose threads sleep.
const TOOLS: &[(&str, &str)] = &[
    ("ib_send_lat", "-e -n 2000 -s 8"),
    ("ib_send_bw", "-e -n 5000 -s 4096"),
    ("ib_read_bw", "-e -n 500 -s 65536"),
    ("ib_send_lat", "-e -n 1000 -c UD -s 64"),
];

#[test]
fn a_waiting_thread_serves_and_may_be_disturbed() {
    if !skip::have("a_waiting_thread_serves_and_may_be_disturbed", NEEDED) {
        return;
    }
    let mut table = Table::new("waiting threads");
    for path in Path::BOTH {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        let program = compile(&lab);
        for who in Who::BOTH {
            table.case(&format!("disturbed, {} {who:?}", path.name()), || {
                let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
                let device = lab.device(lab.client())?;
                let words = [program.as_str(), &device.name, &device.gid_v4.to_string()];
                let ended = lab.run(lab.client(), who, &[], &words)?.success()?;
                ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
                Ok(())
            });
        }
        tools(&mut table, &lab, path.name());
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    tools(&mut table, &lab, "two hosts");
    table.finish();
}

fn tools(table: &mut Table, lab: &Lab, path: &str) {
    for (number, (tool, args)) in TOOLS.iter().enumerate() {
        let who = Who::BOTH[number % 2];
        table.case(&format!("{tool} {args}, {path} {who:?}"), || {
            Pair::new(tool, args).devices(lab)?.within(30).who(who).succeed(lab).map(drop)
        });
    }
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("waiting");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-Wno-unused-function", "-O1", "-o"]).arg(&program).arg(SOURCE);
    let status = cc.args(["-libverbs", "-lpthread"]).status().context("cc runs")?;
    ensure!(status.success(), "waiting.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
