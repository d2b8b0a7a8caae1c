//! Details of verbs that only C programs see: descriptors, unacknowledged events, the sizes that calls write.
//!
//! The C programs are compiled against the installed headers and library, and run on Weft like any program.

use anyhow::{Context, ensure};
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, skip};

const HEADER: &str = "/usr/include/infiniband/verbs.h";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c_calls");
const PROGRAMS: [&str; 8] =
    ["calls", "closing", "destroyed", "disconnecting", "flush", "leaving", "memory", "unmapped"];

#[test]
fn c_programs_get_what_the_manual_pages_say() {
    if !skip::have("c_calls", &["ip", "cc", HEADER]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("C calls");
    for name in PROGRAMS {
        table.case(name, || {
            let program = lab.file(name);
            let mut cc = Command::new("cc");
            cc.args(["-Wall", "-Werror", "-o"]).arg(&program).arg(format!("{SOURCES}/{name}.c"));
            let status = cc.args(["-libverbs", "-lpthread"]).status().context("cc runs")?;
            ensure!(status.success(), "{name}.c does not compile");
            let program = program.to_str().context("the lab's path is not UTF-8")?;
            let device = lab.device(lab.client())?;
            let gid = device.gid_v4.to_string();
            let ended = lab.run(lab.client(), Who::Root, &[], &[program, &device.name, &gid])?.success()?;
            ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}
