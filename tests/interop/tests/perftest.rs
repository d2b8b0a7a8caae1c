//! perftest, unmodified: every tool over every transport that it allows, with a covering set of options.

use anyhow::{Result, ensure};
use weft_interop::{Lab, Outcome, Pair, Path, Shape, Table, Who, skip, table};

/// A tool and its capabilities.
struct Tool {
    name: &'static str,
    transports: &'static [&'static str],
    /// `-e` works (WRITE latency is measured by polling memory: no events there).
    events: bool,
    /// `-a` works.
    all_sizes: bool,
}

const TOOLS: &[Tool] = &[
    Tool { name: "ib_send_bw", transports: &["RC", "UC", "UD", "XRC"], events: true, all_sizes: true },
    Tool { name: "ib_send_lat", transports: &["RC", "UC", "UD", "XRC"], events: true, all_sizes: true },
    Tool { name: "ib_write_bw", transports: &["RC", "UC", "XRC"], events: false, all_sizes: true },
    Tool { name: "ib_write_lat", transports: &["RC", "UC", "XRC"], events: false, all_sizes: true },
    Tool { name: "ib_read_bw", transports: &["RC", "XRC"], events: true, all_sizes: true },
    Tool { name: "ib_read_lat", transports: &["RC", "XRC"], events: true, all_sizes: true },
    Tool { name: "ib_atomic_bw", transports: &["RC", "XRC"], events: true, all_sizes: false },
    Tool { name: "ib_atomic_lat", transports: &["RC", "XRC"], events: true, all_sizes: false },
];

const NEEDED: &[&str] = &["ip", "ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw"];

#[test]
fn one_namespace() {
    run("perftest, one namespace", Shape::One, Path::SameHost, 0);
}

#[test]
fn one_namespace_without_shared_pages() {
    run("perftest, one namespace, pages not shared", Shape::One, Path::Copies, 1);
}

#[test]
fn one_namespace_by_packets() {
    run("perftest, one namespace, by packets", Shape::One, Path::Wire, 2);
}

#[test]
fn two_namespaces_mtu_1500() {
    run("perftest, MTU 1500", Shape::Two { mtu: 1500 }, Path::SameHost, 1);
}

#[test]
fn two_namespaces_mtu_9000() {
    run("perftest, MTU 9000", Shape::Two { mtu: 9000 }, Path::SameHost, 2);
}

#[test]
fn plain_as_typed() {
    if !skip::have("plain_as_typed", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("perftest, no options");
    let tools = if table::quick() { &TOOLS[..3] } else { TOOLS };
    for tool in tools {
        // As a person would type it: no device, no sizes, default counts.
        table.case(tool.name, || Pair::new(tool.name, "").within(120).judged(&lab, result_printed));
    }
    table.finish();
}

/// Returns the options to test besides the transport.
fn options(tool: &Tool, transport: &str) -> Vec<String> {
    let bandwidth = tool.name.ends_with("bw");
    let mut all = vec![String::new(), "--use_old_post_send".into()];
    let mut add = |text: &str| all.push(text.to_owned());
    if tool.all_sizes {
        // Every size from 2 bytes to 8 MiB, a few of each. perftest needs five to ten seconds for them on any
        // transport, so one-way bandwidths are measured on RC alone; `-a -b` is below.
        match bandwidth {
            true if transport == "RC" => add("-a -n 10"),
            true => {}
            false => add("-a -n 5"),
        }
        add("-s 1");
    }
    if tool.events {
        add("-e");
    }
    if bandwidth {
        add("-b");
        add("-q 16 -n 50");
        add("-l 8 -Q 8 -n 320");
        if tool.all_sizes {
            add("-a -b -n 5");
            add("-b -q 16 -n 32 --use_old_post_send");
        }
    }
    if tool.name.contains("atomic") {
        add("-A CMP_AND_SWAP");
    }
    if tool.name.contains("write") && transport == "RC" || tool.name.contains("send") && transport == "UD" {
        add("-I 64 -s 64");
    }
    if tool.name == "ib_send_bw" && transport == "RC" {
        add("--use-srq -q 4 -n 100");
    }
    all
}

fn run(name: &'static str, shape: Shape, path: Path, turn: usize) {
    if !skip::have(name, NEEDED) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab").on(path);
    let mut table = Table::new(name);
    let mut number = 0;
    for tool in TOOLS {
        for transport in tool.transports {
            for (which, option) in options(tool, transport).into_iter().enumerate() {
                number += 1;
                // The plain run in every shape and on every transport; each option, or some of them, in one of the shapes,
                // in turn.
                let plain = table::quick() || path != Path::SameHost;
                let one_in = if table::all() { 3 } else { 17 };
                if which > 0 && (plain || !(number + turn).is_multiple_of(one_in)) {
                    continue;
                }
                // Megabytes at once, of which UC repeats nothing; perftest then waits for ever.
                let much = option.contains("-q 16") || option.contains("-a");
                let floods = *transport == "UC" && much && matches!(shape, Shape::Two { .. });
                if floods && !lab.has_two_users() {
                    skip::skip(
                        &format!("{} -c UC {option}", tool.name),
                        "receive buffers of an ordinary user are small (net.core.rmem_max)",
                    );
                    continue;
                }
                let who = if (number / 3) % 2 == 0 { Who::Root } else { Who::Ordinary };
                let ipv6 = number % 5 == 4;
                case(&mut table, &lab, tool.name, transport, &option, who, ipv6);
            }
        }
    }
    table.finish();
}

fn case(table: &mut Table, lab: &Lab, tool: &str, transport: &str, option: &str, who: Who, ipv6: bool) {
    let count = if option.contains("-n") { "" } else { " -n 200" };
    // A UD message fits into a packet; with -a perftest picks the port's MTU itself.
    let size = match (tool.contains("atomic"), option.contains("-s") || option.contains("-a"), transport) {
        (true, ..) | (_, true, _) => "",
        (_, _, "UD") => " -s 1024",
        _ => " -s 16384",
    };
    let family = if ipv6 { " --ipv6" } else { "" };
    let args = format!("-c {transport} {option}{count}{size}{family}");
    table.case(&format!("{tool} {args} {who:?}"), || {
        if transport == "XRC" {
            // perftest leaves these files behind, and no user may open another's file in a sticky directory.
            for end in ["server", "client"] {
                let _ = std::fs::remove_file(format!("/tmp/xrc_domain_{end}"));
            }
        }
        Pair::new(tool, &args).devices(lab)?.who(who).within(120).judged(lab, result_printed)
    });
}

/// Checks for a result: a line of numbers below the heading (size, iterations, results, which few bytes round to zero).
fn result_printed(outcome: &Outcome) -> Result<()> {
    let text = &outcome.client.text;
    let after = text.split("#bytes").nth(1).unwrap_or_default();
    let rows: Vec<Vec<f64>> = after
        .lines()
        .map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect())
        .filter(|row: &Vec<f64>| row.len() >= 4)
        .collect();
    ensure!(!rows.is_empty(), "no result printed");
    for row in rows {
        ensure!(row[1] > 0.0, "a result of nothing: {row:?}");
    }
    Ok(())
}
