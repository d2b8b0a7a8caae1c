//! Resource limits of a program (setrlimit(2)): Weft stays within them, and no limit kills a program.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::{Lab, Shape, Table, Who, skip};

const TOOLS: &[&str] = &["ip", "ibv_devinfo", "ibv_rc_pingpong"];

/// File size limits, in KiB: below a page of the ledger, between its pages, and above all of them.
const FILE_SIZES: &[u32] = &[0, 1, 4, 32, 64, 1024];

#[test]
fn file_size_limits_kill_no_program() {
    if !skip::have("file_size_limits_kill_no_program", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("file size limits");
    for who in [Who::Ordinary, Who::Root] {
        for kib in FILE_SIZES {
            table.case(&format!("{kib} KiB, {who:?}"), || below_file_size(&lab, who, *kib));
        }
    }
    table.finish();
}

/// Runs both ends of a ping-pong with this limit; `weft qp` makes the waiting one write all pages of its ledger.
fn below_file_size(lab: &Lab, who: Who, kib: u32) -> Result<()> {
    // The output goes through a pipe, since the file that collects it has a size, too.
    let limited = |program: &str| format!("(ulimit -S -f {kib}; exec {program}) | cat; exit ${{PIPESTATUS[0]}}");
    let side = lab.client();
    lab.run(side, who, &[], &["bash", "-c", &limited("ibv_devinfo")])?.success()?;
    let mut server = lab.start(side, who, &[], &["bash", "-c", &limited("ibv_rc_pingpong -g 0")])?;
    ensure!(server.wait_listening(DEFAULT_PORT, Duration::from_secs(20)), "no server: {}", server.kill().report());
    let shown = lab.weft(side, Who::Root, &[], &["qp"])?.success()?;
    ensure!(shown.text.contains("ibv_rc_pingpong"), "the ledger does not show the server: {}", shown.report());
    let client = limited(&format!("ibv_rc_pingpong -g 0 {}", side.v4));
    lab.run(side, who, &[], &["bash", "-c", &client])?.success().context("the client")?;
    server.wait(Duration::from_secs(20)).success().context("the server").map(drop)
}
