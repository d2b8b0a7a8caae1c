//! Processes of one host that reach each other without packets: that they do, and that the results of their work stay
//! the same: with different users, kernels that refuse, peers that stop or die in the middle of a copy, keys that
//! become invalid during it, atomics from all sides. The C programs are in `same_host/`.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;
use weft_interop::{Lab, Pair, Path, Proc, Shape, Table, Who, skip};

const NEEDED: &[&str] = &["ip", "cc", "ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_atomic_bw", "ibv_rc_pingpong"];
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/same_host");

/// Programs that together move data in every possible way.
const PROGRAMS: &[(&str, &str)] = &[
    ("ib_write_bw", "-n 200 -s 65536"),
    ("ib_write_lat", "-n 500 -s 8"),
    ("ib_read_bw", "-n 200 -s 65536"),
    ("ib_send_bw", "-n 200 -s 65536"),
    ("ib_send_bw", "-n 500 -s 8 -e"),
    ("ib_atomic_bw", "-n 300"),
    ("ib_send_bw", "-c UC -n 200 -s 65536"),
    ("ib_send_bw", "-c XRC -n 200 -s 16384"),
    ("ibv_rc_pingpong", "-c -n 500"),
    ("ibv_srq_pingpong", "-c -q 4 -n 100"),
];

/// Duration of traffic before a fault.
const FLOW: Duration = Duration::from_millis(300);

/// Time limit for the other end to notice.
const GIVE_UP: Duration = Duration::from_secs(10);

fn pair(lab: &Lab, tool: &str, args: &str) -> Result<Pair> {
    let pair = Pair::new(tool, args).devices(lab)?.within(30);
    if tool.starts_with("ibv_") {
        let (server, client) = (lab.device(lab.server())?.gid_v4, lab.device(lab.client())?.gid_v4);
        return Ok(pair.each(&format!("-g {server}"), &format!("-g {client}")));
    }
    Ok(pair)
}

#[test]
fn packets_pass_where_they_are_asked_for_and_nowhere_else() {
    if !skip::have("packets_pass_where_they_are_asked_for_and_nowhere_else", NEEDED) {
        return;
    }
    let mut table = Table::sampling("packets within a host", 3, 0);
    for path in Path::ALL {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        for (number, (tool, args)) in PROGRAMS.iter().enumerate() {
            let who = Who::BOTH[number % 2];
            table.sampled(&format!("{} {tool} {args} {who:?}", path.name()), || {
                forget_xrc_files();
                let pair = pair(&lab, tool, args)?.who(who);
                let before = lab.datagrams(lab.client())?;
                pair.succeed(&lab)?;
                let passed = lab.datagrams(lab.client())? - before;
                ensure!((passed > 0) == (path == Path::Wire), "{passed} packets");
                Ok(())
            });
        }
    }
    table.finish();
}

/// Removes files that perftest leaves behind: no user may open another's file in a sticky directory.
fn forget_xrc_files() {
    for end in ["server", "client"] {
        let _ = std::fs::remove_file(format!("/tmp/xrc_domain_{end}"));
    }
}

#[test]
fn users_may_differ() {
    if !skip::have("users_may_differ", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("peers of different users");
    for (server, client) in [(Who::Root, Who::Ordinary), (Who::Ordinary, Who::Root)] {
        for (tool, args) in PROGRAMS.iter().filter(|(_, args)| !args.contains("XRC")) {
            table.case(&format!("{tool} {args} {server:?} serves {client:?}"), || {
                let mut pair = pair(&lab, tool, args)?;
                (pair.server_who, pair.client_who) = (server, client);
                pair.succeed(&lab).map(drop)
            });
        }
    }
    table.finish();
}

#[test]
fn the_kernel_may_refuse() {
    if !skip::have("the_kernel_may_refuse", NEEDED) {
        return;
    }
    let mut table = Table::sampling("copies refused", 3, 0);
    for path in [Path::SameHost, Path::Copies] {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        let refuse = compile(&lab, "refuse").expect("refuse.c compiles");
        for (server, client) in [(true, true), (true, false), (false, true)] {
            for (number, (tool, args)) in PROGRAMS.iter().enumerate() {
                let who = Who::BOTH[number % 2];
                let refused = if server && client {
                    "both"
                } else if server {
                    "the server"
                } else {
                    "the client"
                };
                table.sampled(&format!("{} {tool} {args} {who:?}, {refused}", path.name()), || {
                    forget_xrc_files();
                    let mut pair = pair(&lab, tool, args)?.who(who);
                    if server {
                        pair.server.insert(0, refuse.clone());
                    }
                    if client {
                        pair.client.insert(0, refuse.clone());
                    }
                    pair.succeed(&lab).map(drop)
                });
            }
        }
    }
    table.finish();
}

/// Compiles a program to a file of the lab.
fn compile(lab: &Lab, name: &str) -> Result<String> {
    let program = lab.file(name);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).arg(format!("{SOURCES}/{name}.c"));
    ensure!(cc.args(["-libverbs", "-lpthread"]).status().context("cc runs")?.success(), "{name}.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

#[test]
fn c_programs_see_no_difference() {
    if !skip::have("c_programs_see_no_difference", &["ip", "cc", "/usr/include/infiniband/verbs.h"]) {
        return;
    }
    let mut table = Table::new("same host, C programs");
    for path in Path::ALL {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        for name in ["stopped", "taken_back", "atomics", "spinning", "living"] {
            let program = compile(&lab, name);
            for who in Who::BOTH {
                // A stopped process answers no packets. And an ordinary user's program, inside the user namespace of
                // `weft run`, cannot distinguish root's daemon from a stranger's, and shares nothing through it.
                if name == "stopped" && (path == Path::Wire || who == Who::Ordinary) {
                    continue;
                }
                table.case(&format!("{name}, {} {who:?}", path.name()), || {
                    let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
                    let device = lab.device(lab.client())?;
                    let words = [program.as_str(), &device.name, &device.gid_v4.to_string()];
                    let ended = lab.run(lab.client(), who, &[], &words)?.success()?;
                    ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
                    Ok(())
                });
            }
        }
    }
    table.finish();
}

#[test]
fn one_end_dies_in_the_middle_of_long_copies() {
    if !skip::have("one_end_dies_in_the_middle_of_long_copies", NEEDED) {
        return;
    }
    let mut table = Table::new("kill -9 in a copy");
    for path in [Path::SameHost, Path::Copies] {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
            for victim in ["client", "server"] {
                table.case(&format!("{} {victim} of {tool}", path.name()), || {
                    // A receiver does not learn of its sender's death, as with an adapter: it ends by its own time
                    // limit of six seconds.
                    let pair = pair(&lab, tool, "-s 8388608 -D 6 -f 1")?;
                    let mut server = pair.start_server(&lab)?;
                    let mut client = pair.start_client(&lab)?;
                    std::thread::sleep(FLOW);
                    ensure!(client.running() && server.running(), "{}\n{}", client.text(), server.text());
                    let survivor: Proc = if victim == "client" {
                        client.kill();
                        server
                    } else {
                        server.kill();
                        client
                    };
                    let ended = survivor.wait(GIVE_UP);
                    ensure!(ended.status.is_some(), "the survivor hangs: {}", ended.report());
                    ensure!(ended.status.is_some_and(|s| s.code().is_some()), "it crashed: {}", ended.report());
                    // The next pair works.
                    self::pair(&lab, "ibv_rc_pingpong", "-c -n 100")?.succeed(&lab).map(drop)
                });
            }
        }
        table.case(&format!("{} both stop and go on", path.name()), || {
            let pair = pair(&lab, "ib_send_bw", "-s 1048576 -n 3000")?;
            let server = pair.start_server(&lab)?;
            let client = pair.start_client(&lab)?;
            for proc in [&server, &client] {
                std::thread::sleep(FLOW / 3);
                proc.signal(Signal::STOP);
                std::thread::sleep(FLOW);
                proc.signal(Signal::CONT);
            }
            client.wait(Duration::from_secs(30)).success()?;
            server.wait(GIVE_UP).success().map(drop)
        });
    }
    table.finish();
}
