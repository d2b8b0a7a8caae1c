//! Debian's five `ibv_*_pingpong`, unmodified.
//!
//! Each shape of lab, and each transport within one namespace, runs every tool with every option. User and GID
//! alternate, so that over the shapes each tool runs as both users and with both address families.

use anyhow::ensure;
use weft_interop::{Lab, Pair, Path, Shape, Table, Who, skip, table};

/// A tool and one set of its options. `{big}` stands for the largest path MTU of the lab.
const CASES: &[(&str, &str)] = &[
    ("ibv_rc_pingpong", "-c"),
    ("ibv_uc_pingpong", "-c"),
    ("ibv_ud_pingpong", "-c -s 1024"),
    ("ibv_srq_pingpong", "-c"),
    ("ibv_xsrq_pingpong", "-m 1024"),
    // Every option, once the basic cases above have passed.
    ("ibv_rc_pingpong", ""),
    ("ibv_rc_pingpong", "-e"),
    ("ibv_rc_pingpong", "-e -c"),
    ("ibv_rc_pingpong", "-n 10000"),
    ("ibv_rc_pingpong", "-s 1 -c"),
    ("ibv_rc_pingpong", "-s 63 -c -m {big}"),
    ("ibv_rc_pingpong", "-s 4097 -c -m {big}"),
    ("ibv_rc_pingpong", "-s 65536 -c"),
    ("ibv_rc_pingpong", "-s 65536 -e -m {big}"),
    ("ibv_rc_pingpong", "-s 1048576 -n 200 -c"),
    ("ibv_rc_pingpong", "-s 1048576 -n 200 -m {big}"),
    ("ibv_rc_pingpong", "-m 256 -s 10000 -c"),
    ("ibv_rc_pingpong", "-r 1 -n 500 -c"),
    ("ibv_rc_pingpong", "-t -c"),
    ("ibv_rc_pingpong", "-N -c"),
    ("ibv_rc_pingpong", "-N -e -s 8192 -c"),
    ("ibv_uc_pingpong", ""),
    ("ibv_uc_pingpong", "-e -c"),
    ("ibv_uc_pingpong", "-n 10000"),
    ("ibv_uc_pingpong", "-s 1 -c"),
    ("ibv_uc_pingpong", "-s 65536 -c"),
    ("ibv_uc_pingpong", "-s 1048576 -n 100 -m {big} -c"),
    ("ibv_ud_pingpong", "-s {big}"),
    ("ibv_ud_pingpong", "-e -c -s 1024"),
    ("ibv_ud_pingpong", "-n 10000 -s 512"),
    ("ibv_ud_pingpong", "-s 1 -c"),
    ("ibv_srq_pingpong", ""),
    ("ibv_srq_pingpong", "-e -c"),
    ("ibv_srq_pingpong", "-q 1 -n 10000"),
    ("ibv_srq_pingpong", "-q 4 -s 65536 -c"),
    ("ibv_srq_pingpong", "-q 2 -s 1048576 -n 50 -c"),
    ("ibv_srq_pingpong", "-q 100 -n 100 -s 1 -c"),
    ("ibv_xsrq_pingpong", "-m 1024 -e"),
    ("ibv_xsrq_pingpong", "-m 1024 -n 10000"),
    ("ibv_xsrq_pingpong", "-m 1024 -s 65536 -n 500"),
    ("ibv_xsrq_pingpong", "-m 1024 -s 1"),
    ("ibv_xsrq_pingpong", "-m {big} -s 1048576 -n 50"),
];

const TOOLS: &[&str] =
    &["ip", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_xsrq_pingpong"];

#[test]
fn one_namespace() {
    run("pingpong, one namespace", Shape::One, Path::SameHost, 0);
}

#[test]
fn one_namespace_without_shared_pages() {
    run("pingpong, one namespace, pages not shared", Shape::One, Path::Copies, 1);
}

#[test]
fn one_namespace_by_packets() {
    run("pingpong, one namespace, by packets", Shape::One, Path::Wire, 2);
}

#[test]
fn two_namespaces_mtu_1500() {
    run("pingpong, MTU 1500", Shape::Two { mtu: 1500 }, Path::SameHost, 3);
}

#[test]
fn two_namespaces_mtu_9000() {
    run("pingpong, MTU 9000", Shape::Two { mtu: 9000 }, Path::SameHost, 4);
}

#[test]
fn loopback_interface() {
    if !skip::have("loopback_interface", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("pingpong, loopback");
    for (tool, who) in [("ibv_rc_pingpong", Who::Root), ("ibv_ud_pingpong", Who::Ordinary)] {
        // Without -d: the first device of a fresh machine must work.
        table.case(tool, || Pair::new(tool, "-g 0 -c").who(who).succeed(&lab).map(drop));
    }
    table.finish();
}

/// Runs each case in one of five shapes, in turn; with `--all` in all of them.
fn run(name: &'static str, shape: Shape, path: Path, turn: usize) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab").on(path);
    let mut table = Table::sampling(name, if table::quick() { 1 } else { 5 }, turn);
    let cases = if table::quick() { &CASES[..5] } else { CASES };
    let big = if matches!(shape, Shape::Two { mtu: 9000 }) { "4096" } else { "1024" };
    for (number, (tool, options)) in cases.iter().enumerate() {
        // User and GID alternate with different periods, and differently in every shape.
        let who = if (number + turn).is_multiple_of(2) { Who::Root } else { Who::Ordinary };
        let v6 = (number + turn) % 3 == 2;
        let options = options.replace("{big}", big);
        let label = format!("{tool} {options} {who:?} {}", if v6 { "IPv6" } else { "IPv4" });
        table.sampled(&label, || {
            let index = |side| -> anyhow::Result<usize> {
                let device = lab.device(side)?;
                Ok(if v6 { device.gid_v6 } else { device.gid_v4 })
            };
            let (server, client) = (index(lab.server())?, index(lab.client())?);
            let pair = Pair::new(tool, &options).devices(&lab)?.who(who).within(60);
            let pair = pair.each(&format!("-g {server}"), &format!("-g {client}"));
            pair.judged(&lab, |outcome| {
                // xsrq prints no rate.
                for side in [&outcome.server, &outcome.client] {
                    ensure!(tool.contains("xsrq") || side.text.contains("usec/iter"), "no result printed");
                    ensure!(!side.text.contains("invalid data"), "wrong bytes arrived");
                }
                Ok(())
            })
        });
    }
    table.finish();
}
