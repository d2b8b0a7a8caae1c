//! Weft's own tools print the same as Debian's, and work with them.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;
use weft_interop::{Lab, Pair, Shape, Table, Who, product, skip};

#[test]
fn listings_equal_the_originals() {
    if !skip::have("listings_equal_the_originals", &["ip", "ibv_devices", "ibv_devinfo"]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("our tools, listings");
    let device = lab.device(lab.client()).expect("a device").name.clone();
    let lines: &[&[&str]] = &[
        &["ibv_devices"],
        &["ibv_devinfo"],
        &["ibv_devinfo", "-v"],
        &["ibv_devinfo", "-l"],
        &["ibv_devinfo", "-d", &device],
        &["ibv_devinfo", "-d", &device, "-i", "1"],
        &["ibv_devinfo", "-d", "nosuch"],
    ];
    for words in lines {
        table.case(&words.join(" "), || {
            let theirs = lab.run(lab.client(), Who::Root, &[], words)?;
            let ours = lab.weft(lab.client(), Who::Root, &[], words)?;
            ensure!(ours.text == theirs.text, "ours:\n{}\ntheirs:\n{}", ours.text, theirs.text);
            ensure!(ours.status.map(|s| s.code()) == theirs.status.map(|s| s.code()), "{}", ours.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn pingpongs_talk_to_the_originals() {
    if !skip::have("pingpongs_talk_to_the_originals", &["ip", "ibv_rc_pingpong"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("our tools, pingpongs");
    for (tool, args) in [
        ("ibv_rc_pingpong", "-c"),
        ("ibv_rc_pingpong", "-e -s 65536 -c"),
        ("ibv_uc_pingpong", "-c"),
        ("ibv_ud_pingpong", "-c -s 1024"),
        ("ibv_srq_pingpong", "-c"),
        ("ibv_xsrq_pingpong", "-m 1024"),
    ] {
        for (ours_serves, ours_asks) in [(true, true), (true, false), (false, true)] {
            let name = |ours| if ours { "ours" } else { "Debian's" };
            table.case(&format!("{tool} {args}: {} serves {}", name(ours_serves), name(ours_asks)), || {
                mixed(&lab, tool, args, ours_serves, ours_asks)
            });
        }
    }
    table.finish();
}

/// Runs a server and a client, each Weft's or Debian's.
fn mixed(lab: &Lab, tool: &str, args: &str, ours_serves: bool, ours_asks: bool) -> Result<()> {
    let weft = product::weft()?.display().to_string();
    let gid = |side| lab.device(side).map(|d| d.gid_v4.to_string());
    let words = |ours: bool, gid: &str| -> Vec<String> {
        let before: &[&str] = if ours { &[] } else { &["run", "--"] };
        let words = std::iter::once(weft.as_str()).chain(before.iter().copied()).chain([tool]);
        words.chain(args.split_whitespace()).chain(["-g", gid]).map(str::to_owned).collect()
    };
    let start = |side, words: Vec<String>| {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        lab.start_bare(side, Who::Root, &words)
    };
    let (server, mut client) = (lab.server(), words(ours_asks, &gid(lab.client())?));
    let mut serving = start(server, words(ours_serves, &gid(server)?))?;
    let port = Pair::new(tool, "").port;
    ensure!(serving.wait_listening(port, Duration::from_secs(10)), "no server: {}", serving.kill().report());
    client.push(server.v4.to_owned());
    start(lab.client(), client)?.wait(Duration::from_secs(20)).success()?;
    serving.wait(Duration::from_secs(5)).success().map(drop)
}

/// A command, and fields of its output as JSON pointers. `null` stands for any value.
type Printed = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Commands with `--json`.
const JSON: &[Printed] = &[
    (
        &["cm", "--json"],
        &[("/0/ifname", "null"), ("/0/default_roce_mode", "\"RoCE v2\""), ("/0/default_roce_tos", "0")],
    ),
    (&["env", "--json"], &[("/LD_LIBRARY_PATH", "null"), ("/WEFT_BIN", "null")]),
    (
        &["up", "--json", "--star", "2"],
        &[
            ("/title", "\"star 2\""),
            ("/hosts", "2"),
            ("/switches", "1"),
            ("/links/active", "2"),
            ("/sm_host", "\"node1\""),
        ],
    ),
    (
        &["up", "--json", "--replace", "--no-sm", "--pair"],
        &[("/title", "\"pair\""), ("/hosts", "2"), ("/switches", "0"), ("/links/init", "1")],
    ),
    (
        &["daemon", "--status", "--json"],
        &[
            ("/running", "true"),
            ("/pid", "null"),
            ("/version", "null"),
            ("/devices", "1"),
            ("/fabric/title", "\"pair\""),
        ],
    ),
    (
        &["sm", "preview", "--json", "--star", "3"],
        &[
            ("/title", "\"star 3\""),
            ("/nodes", "4"),
            ("/cables", "3"),
            ("/previews/0/is_up", "true"),
            ("/previews/0/quality/broken_paths", "0"),
            ("/previews/0/quality/engine", "null"),
        ],
    ),
];

#[test]
fn commands_print_json() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("our tools, JSON");
    for (words, fields) in JSON {
        table.case(&words.join(" "), || {
            let ended = lab.weft(lab.client(), Who::Root, &[], words)?.success()?;
            let value: Value = serde_json::from_str(&ended.text).with_context(|| ended.report())?;
            for (field, wanted) in *fields {
                let found = value.pointer(field).filter(|found| !found.is_null());
                let found = found.with_context(|| format!("no {field}: {}", ended.report()))?;
                let wanted: Value = serde_json::from_str(wanted)?;
                ensure!(wanted.is_null() || *found == wanted, "{field} is not {wanted}: {}", ended.report());
            }
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn the_demo_needs_nothing() {
    let mut table = Table::new("weft demo");
    for shape in [Shape::Loopback, Shape::One] {
        let lab = Lab::new(shape).expect("a lab");
        for who in Who::BOTH {
            table.case(&format!("{shape:?} {who:?}"), || {
                lab.weft(lab.client(), who, &[], &["demo"])?.success().map(drop)
            });
        }
    }
    table.finish();
}
