//! Weft's tools of the RDMA connection manager against Debian's: every pair of them prints the same and ends the same
//! way as two of Debian's. Also Weft's own commands about the manager.

use anyhow::{Context, Result, bail, ensure};
use std::time::{Duration, Instant};
use weft_interop::ends::lasting_cmtime;
use weft_interop::{Ended, Lab, Proc, Shape, Side, Table, Who, product, skip};

const TOOLS: &[&str] = &["ip", "rping", "ucmatose", "udaddy", "mckey", "rstream", "cmtime"];

/// Time limit for a server to listen, or to join its group.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Time limit of a client.
const CLIENT_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for a server to end after its client.
const SERVER_WITHIN: Duration = Duration::from_secs(10);

/// A pair of command lines. `{s}` and `{s6}` stand for the server's addresses, `{c}` for the client's.
struct Case {
    tool: &'static str,
    server: &'static str,
    client: &'static str,
}

const fn case(tool: &'static str, server: &'static str, client: &'static str) -> Case {
    Case { tool, server, client }
}

const CASES: &[Case] = &[
    case("rping", "-s -v -C 20", "-c -v -V -C 20 -a {s}"),
    case("rping", "-s -a ::0 -p 9001 -S 65535", "-c -V -C 3 -S 65535 -p 9001 -a {s6}"),
    case("rping", "-s -q", "-c -q -v -C 2 -a {s} -I {c}"),
    case("ucmatose", "-c 50", "-c 50 -s {s}"),
    case("ucmatose", "-c 3 -C 20 -S 5000 -m -b {s6}", "-c 3 -C 20 -S 5000 -m -a 18 -t 0x20 -s {s6} -f ip"),
    case("ucmatose", "-C 0 -p 9002", "-S 0 -p 9002 -s {s} -b {c}"),
    case("udaddy", "-c 5", "-c 5 -s {s}"),
    case("udaddy", "-C 20 -S 900 -b {s6}", "-C 20 -S 900 -s {s6} -t 4"),
    case("mckey", "-m 239.77.1.1 -b {s}", "-m 239.77.1.1 -b {c} -s -o"),
    case("rstream", "-S 5000 -C 100 -I 5 -T v", "-S 5000 -C 100 -I 5 -T v -s {s}"),
    case("rstream", "-S 300 -I 3 -T b -T r -b {s6}", "-S 300 -I 3 -T b -T r -s {s6}"),
    case("rstream", "-S 300 -I 3 -T s -T a -k 5", "-S 300 -I 3 -T s -T a -k 5 -s {s}"),
    case("cmtime", "-c 50", "-c 50 -s {s}"),
    case("cmtime", "-c 20 -b {s6}", "-c 20 -b {c6} -s {s6}"),
];

#[test]
fn ours_and_debians_say_the_same_of_each_other() {
    if !skip::have("ours_and_debians_say_the_same_of_each_other", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("our RDMA CM tools");
    // Ours is the older one, and the two do not understand each other.
    let comparable = |case: &&Case| case.tool != "cmtime" || lasting_cmtime();
    for case in CASES.iter().filter(comparable) {
        let mut reference = None;
        let label = |serves: bool, asks: bool| {
            let name = |ours| if ours { "ours" } else { "Debian's" };
            format!("{} {}: {} serves {}", case.tool, case.client, name(serves), name(asks))
        };
        table.case(&label(false, false), || {
            reference = Some(play(&lab, case, false, false)?);
            Ok(())
        });
        for (serves, asks) in [(true, true), (true, false), (false, true)] {
            table.case(&label(serves, asks), || {
                let reference = reference.as_ref().context("Debian's own two tools failed already")?;
                let played = play(&lab, case, serves, asks)?;
                for (ours, theirs) in played.iter().zip(reference) {
                    let (ours, theirs) = (normal(case, ours), normal(case, theirs));
                    ensure!(ours == theirs, "with ours:\n{ours}\nwith Debian's alone:\n{theirs}");
                }
                Ok(())
            });
        }
    }
    table.finish();
}

/// Runs both to their end; returns server and client.
fn play(lab: &Lab, case: &Case, ours_serves: bool, ours_asks: bool) -> Result<[Ended; 2]> {
    let mut server = start(lab, lab.server(), case.tool, case.server, ours_serves)?;
    wait_listening(lab, case, &mut server)?;
    let client = start(lab, lab.client(), case.tool, case.client, ours_asks)?.wait(CLIENT_WITHIN);
    // cmtime's server runs forever.
    let server = if case.tool == "cmtime" { server.kill() } else { server.wait(SERVER_WITHIN) };
    ensure!(client.ok() && (server.ok() || case.tool == "cmtime"), "{}\n{}", client.report(), server.report());
    Ok([server, client])
}

fn start(lab: &Lab, side: &Side, tool: &str, args: &str, ours: bool) -> Result<Proc> {
    let (server, client) = (lab.server(), lab.client());
    let args = args.replace("{s}", server.v4).replace("{s6}", server.v6);
    let args = args.replace("{c}", client.v4).replace("{c6}", client.v6);
    let weft = product::weft()?.display().to_string();
    let before: &[&str] = if ours { &[] } else { &["run", "--"] };
    let words = std::iter::once(weft.as_str()).chain(before.iter().copied()).chain([tool]);
    let words: Vec<_> = words.chain(args.split_whitespace()).collect();
    lab.start_bare(side, Who::Root, &words)
}

fn wait_listening(lab: &Lab, case: &Case, server: &mut Proc) -> Result<()> {
    let sign = if case.tool == "mckey" { " ps UDP " } else { " state LISTEN " };
    let end = Instant::now() + LISTENS_WITHIN;
    while Instant::now() < end && server.running() {
        if case.server.contains("-T s") {
            return server.wait_listening(7471, LISTENS_WITHIN).then_some(()).context("rstream does not listen");
        }
        let ids = lab.weft(lab.server(), Who::Root, &[], &["rdma", "resource", "show", "cm_id"])?.success()?;
        if ids.text.contains(sign) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the server does not listen: {}", server.text())
}

/// Normalizes an output for comparison. Lines may be in any order, because standard output is buffered in the originals
/// and standard error is not; measured numbers are left out.
fn normal(case: &Case, ended: &Ended) -> String {
    let mut lines: Vec<_> = ended
        .text
        .lines()
        // The original's client may end before or after it prints this.
        .filter(|line| !line.starts_with("client DISCONNECT EVENT"))
        .map(|line| match case.tool {
            "rstream" => line.split_whitespace().take(5).collect::<Vec<_>>().join(" "),
            "cmtime" => line.split(':').next().unwrap_or(line).to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    lines.sort_unstable();
    let code = if case.tool == "cmtime" { None } else { ended.status.and_then(|status| status.code()) };
    format!("{}\nstatus {code:?}", lines.join("\n"))
}

#[test]
fn what_is_wrong_is_told_as_the_originals_tell_it() {
    if !skip::have("what_is_wrong_is_told_as_the_originals_tell_it", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("our RDMA CM tools, mistakes");
    let nobody = lab.server().v4;
    // A server runs there, but on another port.
    let there = start(&lab, lab.server(), "rping", "-s -p 9003", true).expect("a server");
    let lines: &[&[&str]] = &[
        &["rping", "-h"],
        &["rping", "-c", "-S", "3"],
        &["rping", "-c", "-C", "-1"],
        &["rping", "-v"],
        &["rping", "-s", "-a", "no.such.name.invalid."],
        &["rping", "-s", "-a", "192.0.2.1"],
        &["ucmatose", "-x"],
        &["ucmatose", "-s", nobody],
        &["ucmatose", "-b", "192.0.2.1"],
        &["udaddy", "-x"],
        &["udaddy", "-s", nobody],
        &["mckey", "-x"],
        &["mckey", "-M", "ff12::1"],
        &["mckey", "-m", "239.77.1.2", "-b", "192.0.2.1"],
        &["rstream", "-x"],
        &["rstream", "-T", "what"],
        &["rstream", "-s", nobody],
        &["cmtime", "-x"],
    ];
    for words in lines.iter().filter(|words| words[0] != "cmtime" || lasting_cmtime()) {
        table.case(&words.join(" "), || {
            let theirs = lab.run(lab.client(), Who::Root, &[], words)?;
            let ours = lab.weft(lab.client(), Who::Root, &[], words)?;
            let (ours_text, theirs_text) = (sorted(&ours.text), sorted(&theirs.text));
            ensure!(ours_text == theirs_text, "ours:\n{ours_text}\ntheirs:\n{theirs_text}");
            ensure!(ours.status.map(|s| s.code()) == theirs.status.map(|s| s.code()), "{}", ours.report());
            Ok(())
        });
    }
    there.kill();
    table.finish();
}

/// Returns lines in an order that does not depend on buffering, without the one option that only Weft's tools have.
fn sorted(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().filter(|line| !line.contains("--system")).collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
fn the_manager_is_asked_and_told() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("weft cm, weft resource");
    let side = lab.client();
    let device = lab.device(side).expect("a device").name.clone();
    let weft = |who, words: &[&str]| lab.weft(side, who, &[], words);
    table.case("the defaults are the kernel's", || {
        let shown = weft(Who::Ordinary, &["cm", &device])?.success()?;
        ensure!(shown.text == "default_roce_mode RoCE v2\ndefault_roce_tos 0\n", "{}", shown.report());
        Ok(())
    });
    table.case("what is set is shown", || {
        weft(Who::Root, &["cm", &device, "default_roce_tos", "104"])?.success()?;
        let shown = weft(Who::Root, &["cm", &device, "default_roce_tos"])?.success()?;
        ensure!(shown.text == "104\n", "{}", shown.report());
        weft(Who::Root, &["cm", &device, "default_roce_mode", "v2", "default_roce_tos", "0"])?.success().map(drop)
    });
    table.case("a stranger's words are refused", || {
        for words in [&["cm", "nosuch"][..], &["cm", &device, "default_roce_mode", "v3"]] {
            let refused = weft(Who::Root, words)?;
            ensure!(!refused.ok(), "{}", refused.report());
        }
        Ok(())
    });
    table.case("a listener and a connection are shown", || {
        let server = start(&lab, side, "rping", &format!("-s -a {}", side.v4), true)?;
        let show = || Ok::<_, anyhow::Error>(weft(Who::Root, &["rdma", "resource", "show", "cm_id"])?.success()?.text);
        let until = |what: &str| -> Result<String> {
            let end = Instant::now() + LISTENS_WITHIN;
            while Instant::now() < end {
                let text = show()?;
                if text.contains(what) {
                    return Ok(text);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            bail!("no {what} in\n{}", show()?)
        };
        let listening = until(" state LISTEN ")?;
        let addresses = format!("src-addr {}:7174 dst-addr 0.0.0.0:0 ", side.v4);
        ensure!(listening.contains(&addresses) && listening.contains(" ps TCP pid "), "{listening}");
        let client = start(&lab, side, "rping", &format!("-c -C 0 -a {}", side.v4), true)?;
        let connected = until(" qp-type RC state CONNECT ")?;
        client.kill();
        server.wait(SERVER_WITHIN);
        ensure!(connected.lines().count() == 3, "{connected}");
        Ok(())
    });
    table.finish();
}
