//! RDMA CM: Debian's programs connect, unmodified, in one namespace and between two, as root and as an ordinary user.
//!
//! rdmacm-utils, perftest's `-R`, `qperf -cm 1`, pyverbs' own tests; and small C programs (`rdmacm_calls`) for details
//! that only C programs see. `weft resource show cm_id` shows when a server listens.

use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::ends::{Ends, cmtime, lasting_cmtime};
use weft_interop::{Lab, Path, Shape, Table, Who, skip, table};

const UTILS: &[&str] = &["ip", "rping", "ucmatose", "udaddy", "mckey", "cmtime"];
const QPERF_PORT: u16 = 19765;
/// Tries of perftest if its server does not listen yet for the second connection.
const TRIES: u32 = 5;

/// The user, and whether over IPv6.
const TURNS: [(Who, bool); 4] = [(Who::Root, false), (Who::Ordinary, false), (Who::Root, true), (Who::Ordinary, true)];

#[test]
fn one_namespace() {
    utils("RDMA CM, one namespace", Shape::One, Path::SameHost, &TURNS);
}

#[test]
fn one_namespace_by_packets() {
    utils("RDMA CM, one namespace, by packets", Shape::One, Path::Wire, &TURNS[1..3]);
}

#[test]
fn two_namespaces() {
    utils("RDMA CM, two namespaces", Shape::Two { mtu: 1500 }, Path::SameHost, &TURNS);
}

#[test]
fn loopback_alone() {
    if !skip::have("loopback_alone", UTILS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("RDMA CM, loopback alone");
    for who in Who::BOTH {
        table.case(&format!("rping 127.0.0.1 {who:?}"), || rping(&lab, who, "127.0.0.1", "-C 20"));
        table.case(&format!("rping ::1 {who:?}"), || rping(&lab, who, "::1", "-C 20"));
    }
    table.finish();
}

fn utils(name: &'static str, shape: Shape, path: Path, turns: &[(Who, bool)]) {
    if !skip::have(name, UTILS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab").on(path);
    if !lab.has_two_users() {
        // Otherwise the daemon may be that of the inner user namespace, which sees root's programs as its own user's:
        // its successor of another namespace does not know them again.
        lab.device(lab.client()).expect("a device of root's daemon");
    }
    // The paths and shapes share the product.
    let mut table = Table::sampling(name, 3, usize::from(path == Path::Wire));
    for &(who, ipv6) in turns {
        let server = lab.server();
        let address = if ipv6 { server.v6 } else { server.v4 };
        let label = |what: &str| format!("{what} {address} {who:?}");
        for options in ["-C 20", "-C 5 -S 65535 -V", "-C 3 -V -q"] {
            table.sampled(&label(&format!("rping {options}")), || rping(&lab, who, address, options));
        }
        table.case(&label("rping -P"), || persistent(&lab, who, address));
        let bind = format!("-b {address}");
        let aim = format!("-s {address}");
        let family = if ipv6 { "-f ipv6" } else { "-f ip" };
        for (tool, options) in [
            ("ucmatose", "-c 200"),
            ("ucmatose", "-c 3 -C 20 -S 5000 -m"),
            ("ucmatose", "-t 32 -a 20"),
            ("udaddy", ""),
            ("udaddy", "-c 4 -C 20 -S 900"),
        ] {
            table.sampled(&label(&format!("{tool} {options}")), || {
                let ends = Ends::new(tool, &format!("{family} {options}")).each(&bind, &aim).who(who);
                ends.judged(&lab, |client, server| {
                    ensure!(client.contains("return status 0") && server.contains("return status 0"), "no status 0");
                    Ok(())
                })
            });
        }
        if !ipv6 || lasting_cmtime() {
            table.case(&label("cmtime -c 500"), || many(&lab, who, address, 500));
        }
    }
    for (server, client) in [
        ("rdma_server", "rdma_client"),
        ("rdma_xserver -c r", "rdma_xclient -c r"),
        ("rdma_xserver -c x", "rdma_xclient -c x"),
    ] {
        table.case(client, || {
            let ends = Ends::two(server, &format!("{client} -s {}", lab.server().v4)).who(Who::Ordinary);
            ends.judged(&lab, |client, server| {
                ensure!(client.contains("end 0") && server.contains("end 0"), "it did not end well");
                Ok(())
            })
        });
    }
    for (who, group) in [(Who::Root, "239.77.0.9"), (Who::Ordinary, "239.77.0.10"), (Who::Root, "ff1e::7709")] {
        table.case(&format!("mckey {group} {who:?}"), || mckey(&lab, who, group));
    }
    if matches!(lab.shape, Shape::One) {
        table.case("rping 127.0.0.1", || rping(&lab, Who::Ordinary, "127.0.0.1", "-C 20"));
        calls(&mut table, &lab);
    }
    table.finish();
}

/// Returns the ping data of the guides: the alphabet, starting at the ping's number and wrapping around.
fn ping_data(number: u32, size: usize) -> String {
    let head = format!("rdma-ping-{number}: ");
    let letters = (b'A'..=b'z').cycle().skip(number as usize).map(char::from);
    head.chars().chain(letters).take(size.saturating_sub(1)).collect()
}

fn rping(lab: &Lab, who: Who, address: &str, options: &str) -> Result<()> {
    // As in the guides, the server listens on any address; in the other runs it names its own.
    let any = if address.contains(':') { "-s -a ::0" } else { "-s" };
    let own = format!("-s -a {address}");
    let server = if options == "-C 20" { any } else { &own };
    let ends = Ends::new("rping", &format!("-v {options}")).each(server, &format!("-c -a {address}")).who(who);
    let count = options.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    let size = options.split_once("-S ").and_then(|(_, n)| n.split(' ').next()?.parse().ok()).unwrap_or(64);
    ends.judged(lab, |client, server| {
        for number in 0..count {
            // Only the beginning of long lines: stderr's output falls among them.
            let data = ping_data(number, size);
            let data = if size > 1000 { data[..60].to_owned() } else { data + "\n" };
            ensure!(client.contains(&format!("ping data: {data}")), "ping {number} is missing at the client");
            ensure!(server.contains(&format!("server ping data: {data}")), "ping {number} is missing at the server");
        }
        Ok(())
    })
}

/// Runs one server and several clients, one after another: Debian's rping loses one of two that come at once.
fn persistent(lab: &Lab, who: Who, address: &str) -> Result<()> {
    let ends = Ends::new("rping", &format!("-v -C 5 -a {address}")).each("-s -P", "-c").who(who);
    let mut server = ends.start_server(lab)?;
    for _ in 0..4 {
        ends.start_client(lab)?.wait(Duration::from_secs(20)).success()?;
    }
    ensure!(server.running(), "the server ended: {}", server.text());
    Ok(())
}

/// Opens and closes this many connections at once; `cargo xtask bench` measures the speed.
fn many(lab: &Lab, who: Who, address: &str, count: u32) -> Result<()> {
    let took = cmtime(lab, &Ends::cmtime(count, address).who(who))?;
    table::note(&format!("    {count} connections, from creating to destroying: {:.0} ms", took.as_secs_f64() * 1e3));
    Ok(())
}

fn mckey(lab: &Lab, who: Who, group: &str) -> Result<()> {
    let v6 = group.contains(':');
    let of = |side: &weft_interop::Side| if v6 { side.v6 } else { side.v4 };
    let (receive, send) = (format!("-b {}", of(lab.server())), format!("-s -b {}", of(lab.client())));
    let args = format!("-m {group} -C 10");
    let ends = Ends::new("mckey", &args).each(&receive, &send).who(who).ready("state ADDR_RESOLVED");
    let receiver = ends.start_server(lab)?;
    weft_interop::multicast::wait_for_member(lab, lab.server(), group)?;
    ends.start_client(lab)?.wait(Duration::from_secs(20)).success()?;
    receiver.wait(Duration::from_secs(10)).success()?;
    Ok(())
}

#[test]
fn perftest_by_the_connection_manager() {
    // perftest refuses UC with the connection manager.
    const TOOLS: [(&str, &[&str]); 8] = [
        ("ib_send_bw", &["RC", "UD"]),
        ("ib_send_lat", &["RC", "UD"]),
        ("ib_write_bw", &["RC"]),
        ("ib_write_lat", &["RC"]),
        ("ib_read_bw", &["RC"]),
        ("ib_read_lat", &["RC"]),
        ("ib_atomic_bw", &["RC"]),
        ("ib_atomic_lat", &["RC"]),
    ];
    if !skip::have("perftest_by_the_connection_manager", &["ip", "ib_send_bw", "ib_atomic_lat"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("perftest -R");
    for (turn, (tool, transports)) in TOOLS.into_iter().enumerate() {
        for (and, transport) in transports.iter().enumerate() {
            let who = if (turn + and) % 2 == 0 { Who::Root } else { Who::Ordinary };
            let size = if *transport == "UD" { "-s 1024" } else { "" };
            table.case(&format!("{tool} -R -c {transport} {who:?}"), || {
                let ends = Ends::new(tool, &format!("-R -c {transport} -n 200 {size}"));
                let ends = ends.each("", lab.server().v4).who(who);
                until_late_enough(TRIES, &[REFUSED, FREED], |_| ends.judged(&lab, result_printed))
            });
        }
    }
    table.case("ib_send_bw -R -q 8", || {
        let ends = Ends::new("ib_send_bw", "-R -q 8 -n 100").each("", lab.server().v4);
        until_late_enough(TRIES, &[REFUSED, FREED], |_| ends.judged(&lab, result_printed))
    });
    table.finish();
}

fn result_printed(client: &str, _server: &str) -> Result<()> {
    let row = client.split("#bytes").nth(1).and_then(|rest| rest.lines().nth(1)).unwrap_or_default();
    ensure!(row.split_whitespace().count() >= 4, "no result printed");
    Ok(())
}

#[test]
fn qperf_by_the_connection_manager() {
    const TESTS: &str = "rc_bw rc_bi_bw rc_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_read_bw rc_rdma_read_lat \
                         rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add";
    if !skip::have("qperf_by_the_connection_manager", &["ip", "qperf"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("qperf -cm 1");
    for who in Who::BOTH {
        table.case(&format!("qperf {who:?}"), || {
            let mut server = lab.start(lab.server(), who, &[], &["qperf"])?;
            ensure!(server.wait_listening(QPERF_PORT, Duration::from_secs(15)), "qperf does not listen");
            for test in TESTS.split_whitespace() {
                let words = ["qperf", lab.server().v4, "-t", "1", "-cm", "1", test];
                // Its server names the port before it listens there.
                let run = |_| lab.run(lab.client(), who, &[], &words)?.success();
                let ended = until_late_enough(TRIES, &[REFUSED], run)?;
                ensure!(ended.text.contains(" = "), "{}", ended.report());
            }
            // qperf connects UC without the connection manager and by LID alone, and RoCE has no LIDs: Linux refuses
            // it.
            let ended = lab.run(lab.client(), who, &[], &["qperf", lab.server().v4, "-t", "1", "-cm", "1", "uc_bw"])?;
            ensure!(ended.text.contains("failed to modify QP to RTR: Invalid argument"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

/// Runs Weft's C programs, compiled against the installed headers and library.
fn calls(table: &mut Table, lab: &Lab) {
    if !skip::have("rdmacm_calls", &["cc", "/usr/include/rdma/rdma_cma.h"]) {
        return;
    }
    let side = lab.client();
    for name in ["ids", "connections", "threads"] {
        for who in Who::BOTH {
            table.case(&format!("calls: {name} {who:?}"), || call(lab, who, name, &lab.device(side)?.name));
        }
    }
    table.case("calls: orphans", || {
        let daemon = lab.daemon(side).context("no daemon runs")?;
        call(lab, Who::Root, "orphans", &daemon.to_string())
    });
}

fn call(lab: &Lab, who: Who, name: &str, argument: &str) -> Result<()> {
    const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rdmacm_calls");
    let program = lab.file(name);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program).arg(format!("{SOURCES}/{name}.c"));
    let status = cc.args(["-lrdmacm", "-libverbs", "-lpthread"]).status().context("cc runs")?;
    ensure!(status.success(), "{name}.c does not compile");
    let program = program.to_str().context("the lab's path is not UTF-8")?;
    let ended = lab.run(lab.client(), who, &[], &[program, lab.client().v4, argument])?.success()?;
    ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
    Ok(())
}

#[test]
fn a_thousand_connections_come_and_go() {
    if !skip::have("a_thousand_connections", UTILS) || table::quick() {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("RDMA CM, a thousand at once");
    table.case("cmtime -c 1000", || many(&lab, Who::Root, lab.server().v4, 1000));
    table.finish();
}
