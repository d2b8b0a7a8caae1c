//! Weft's qperf against Debian's, in both directions: the same rows, results of both sides, and errors reported to the
//! peer.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Ended, Lab, Proc, Shape, Side, Table, Who, product, skip};

const PORT: u16 = 19765;

/// Each test with all its rows; `-n` ends the short ones early.
const TESTS: &[&str] = &[
    "conf",
    "-t 1 -vvs -vvu tcp_bw",
    "-t 1 -vvs tcp_lat",
    "-t 1 -vvs -m 1K udp_bw",
    "-t 1 udp_lat",
    "-t 1 -cm 1 -vvs -vvu rc_bw",
    "-t 1 -cm 1 -vvs rc_bi_bw",
    "-t 1 -cm 1 -vvs -m 100 rc_lat",
    "-t 1 -cm 1 -cp 1 -vvu rc_rdma_write_bw",
    "-t 1 -cm 1 -vs rc_rdma_write_lat",
    "-t 1 -cm 1 -vvs rc_rdma_read_bw",
    "-t 1 -cm 1 rc_rdma_read_lat",
    "-cm 1 -n 500 -m 2K -vvs rc_bw",
    "-t 1 -oo msg_size:1:4K:*64 tcp_lat",
];

#[test]
fn ours_and_debians_measure_each_other() {
    if !skip::have("ours_and_debians_measure_each_other", &["ip", "qperf"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("our qperf");
    for (serves, asks) in [(true, true), (true, false), (false, true)] {
        let name = |ours| if ours { "ours" } else { "Debian's" };
        let pair = format!("{} serves {}", name(serves), name(asks));
        let server = serve(&lab, serves);
        for test in TESTS {
            table.case(&format!("{pair}: {test}"), || {
                ensure!(server.is_ok(), "{:?}", server.as_ref().err());
                let ended = ask(&lab, asks, test)?.success()?;
                let rows = rows(&ended);
                ensure!(rows.len() >= expected(test), "{}", ended.report());
                ensure!(ended.text.lines().all(|line| !line.contains("warning")), "{}", ended.report());
                Ok(())
            });
        }
        table.case(&format!("{pair}: a request that cannot be met is told"), || {
            // The original reads the text in its signal handler without waiting for it, and so loses it now and then, also
            // when it talks to itself.
            let tries = if asks { 1 } else { 20 };
            for attempt in 1..=tries {
                let ended = ask(&lab, asks, "-t 1 -cm 1 -rnr 200000 rc_rdma_read_lat")?;
                ensure!(!ended.ok(), "{}", ended.report());
                if ended.text.contains("device only supports") {
                    break;
                }
                ensure!(attempt < tries, "{}", ended.report());
            }
            Ok(())
        });
        table.case(&format!("{pair}: quit"), || {
            ask(&lab, asks, "quit")?.success()?;
            server?.wait(Duration::from_secs(5)).success().map(drop)
        });
    }
    table.finish();
}

/// Over RoCE the original needs the connection manager. Weft's finds its peer by the addresses of the TCP connection.
#[test]
fn ours_needs_no_connection_manager() {
    if !skip::have("ours_needs_no_connection_manager", &["ip"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("our qperf, without the connection manager");
    let server = serve(&lab, true).expect("a server");
    for test in ["rc_bw", "rc_lat", "uc_bw", "uc_lat", "-m 1K ud_bw", "ud_lat", "-m 1K ud_bi_bw", "rc_rdma_read_bw"] {
        table.case(test, || {
            let ended = ask(&lab, true, &format!("-t 1 {test}"))?.success()?;
            ensure!(!rows(&ended).is_empty(), "{}", ended.report());
            Ok(())
        });
    }
    server.kill();
    table.finish();
}

fn serve(lab: &Lab, ours: bool) -> Result<Proc> {
    let mut server = start(lab, lab.server(), ours, &[])?;
    ensure!(server.wait_listening(PORT, Duration::from_secs(10)), "no server: {}", server.text());
    Ok(server)
}

fn ask(lab: &Lab, ours: bool, test: &str) -> Result<Ended> {
    let words: Vec<_> = std::iter::once(lab.server().v4).chain(test.split_whitespace()).collect();
    Ok(start(lab, lab.client(), ours, &words)?.wait(Duration::from_secs(30)))
}

fn start(lab: &Lab, side: &Side, ours: bool, words: &[&str]) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    let before: &[&str] = if ours { &[] } else { &["run", "--"] };
    let line: Vec<_> = [weft.as_str()].iter().chain(before).chain(&["qperf"]).chain(words).copied().collect();
    lab.start_bare(side, Who::Root, &line)
}

/// Returns the names of rows with a nonzero value.
fn rows(ended: &Ended) -> Vec<String> {
    let named = |line: &str| Some((line.split_once(" = ")?.0.trim().to_owned(), line.split_once(" = ")?.1.to_owned()));
    let rows = ended.text.lines().filter_map(named);
    rows.filter(|(_, value)| !value.trim().is_empty() && !value.trim().starts_with("0 "))
        .map(|(name, _)| name)
        .collect()
}

/// Returns the minimum number of rows of a test, which depends on the requested detail.
fn expected(test: &str) -> usize {
    let more = |option: &str, rows| if test.contains(option) { rows } else { 0 };
    match test {
        "conf" => 8,
        _ => 1 + more("-vs", 1) + more("-vvs", 5) + more("-vvu", 3) + more("-oo", 1),
    }
}
