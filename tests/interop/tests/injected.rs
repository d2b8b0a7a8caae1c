//! Injected failures (`WEFT_FAULT="status=...;errno=...;event=..."`): unmodified programs see them as they would see those of a
//! device. A C program that recovers as communication libraries do survives all of them; Debian's, which do not recover, end
//! as their authors say.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::{Fabric, Lab, Outcome, Pair, Shape, Table, Who, product, skip};

#[path = "injected/connections.rs"]
mod connections;

const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h", "ib_write_bw", "ibv_rc_pingpong", "rping"];
/// Time for a step of a test.
const WITHIN: Duration = Duration::from_secs(20);
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/injected/retry.c");

/// Failures, and lines that the program which recovers prints: each line once for each time it stands here.
const SURVIVED: &[(&str, &[&str])] = &[
    ("", &[]),
    ("status=RETRY_EXC_ERR,from=20,count=1", &["failure: completion: status 12, vendor_err 0xfa17, send"]),
    ("status=IBV_WC_GENERAL_ERR,from=20,count=1", &["failure: completion: status 21, vendor_err 0xfa17, send"]),
    // Each of 75 connections carries two messages.
    ("status=REM_ACCESS_ERR,from=3,count=1,only=send,per=qp", &["failure: completion: status 10"; 74]),
    ("status=LOC_PROT_ERR,from=20,count=1,only=recv", &["failure: completion: status 4, vendor_err 0xfa17, receive"]),
    ("status=WR_FLUSH_ERR,from=20,count=1,only=recv", &["failure: completion: status 5, vendor_err 0xfa17, receive"]),
    ("errno=ENOMEM,call=ibv_reg_mr,count=2", &["failure: ibv_reg_mr: Cannot allocate memory"; 2]),
    ("errno=ENOMEM,call=ibv_create_qp,from=2,count=1", &["failure: ibv_create_qp: Cannot allocate memory"]),
    ("errno=EAGAIN,call=ibv_create_cq,count=1", &["failure: ibv_create_cq: Resource temporarily unavailable"]),
    ("errno=ETIMEDOUT,call=ibv_modify_qp,from=3,count=1", &["failure: ibv_modify_qp: Connection timed out"]),
    ("errno=EIO,call=ibv_post_send,from=30,count=1", &["failure: ibv_post_send: Input/output error"]),
    ("errno=EBUSY,call=ibv_post_recv,from=30,count=1", &["failure: ibv_post_recv: Device or resource busy"]),
    ("errno=EMFILE,call=ibv_open_device,count=1", &["failure: ibv_open_device: Too many open files"]),
    ("event=QP_FATAL,from=41", &["event: local work queue catastrophic error"]),
    ("event=CQ_ERR,from=40", &["event: CQ error"]),
    ("event=PATH_MIG,after=50ms", &["event: path migrated"]),
    ("event=PORT_ERR,after=50ms,for=100ms", &["event: port error", "event: port active"]),
    ("event=PORT_ERR,after=50ms,for=50ms,every=100ms,count=3", &["event: port error"; 3]),
    ("event=DEVICE_FATAL,after=100ms,for=200ms", &["event: local catastrophic error"]),
];

#[test]
fn a_program_that_recovers_survives() {
    if !skip::have("a_program_that_recovers_survives", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures, a program that recovers");
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = compile(&lab);
    for (number, (fault, lines)) in SURVIVED.iter().enumerate() {
        // Data within the process takes its memory, or packets.
        let path = if number % 2 == 0 { "auto" } else { "wire" };
        table.case(&format!("{fault} {path}"), || {
            let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            let device = lab.device(lab.client())?;
            let words = [program, &device.name, &device.gid_v4.to_string(), "150", "3"];
            let env = [("WEFT_FAULT", *fault), ("WEFT_LOOPBACK", path)];
            let ended = lab.run(lab.client(), Who::BOTH[number % 2], &env, &words)?;
            ensure!(ended.ok() && ended.text.contains("delivered 150 messages"), "{}", ended.report());
            for line in *lines {
                let (wanted, seen) = (count(lines.iter().copied(), line), count(ended.text.lines(), line));
                ensure!(seen == wanted, "{wanted} times \"{line}\" expected, {seen} seen\n{}", ended.report());
            }
            ensure!(!lines.is_empty() || ended.text.contains("after 0 failures"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

fn count<'a>(lines: impl Iterator<Item = &'a str>, wanted: &str) -> usize {
    lines.filter(|line| line.starts_with(wanted)).count()
}

/// Debian's programs, the failure of their client, and text that one of the two must print.
const ENDED: &[(&str, &str, &str, &str)] = &[
    ("ibv_rc_pingpong", "-n 500", "status=RETRY_EXC_ERR,from=100,count=1", "transport retry counter exceeded (12)"),
    ("ibv_rc_pingpong", "-n 500 -e", "status=RNR_RETRY_EXC_ERR,from=100,count=1", "RNR retry counter exceeded (13)"),
    ("ibv_rc_pingpong", "-n 500", "errno=ENOMEM,call=ibv_post_send,from=50", "Couldn't post send"),
    ("ibv_rc_pingpong", "-n 500", "errno=ENOMEM,call=ibv_create_cq", "Couldn't create CQ"),
    ("ibv_ud_pingpong", "-n 500", "status=LOC_LEN_ERR,from=100,count=1,only=recv", "local length error (1)"),
    ("ibv_srq_pingpong", "-n 500 -q 4", "status=GENERAL_ERR,from=50,count=1,only=recv", "general error (21)"),
    ("ibv_srq_pingpong", "-n 500 -q 4", "event=SRQ_ERR,from=100", "Work Request Flushed Error (5)"),
    ("ib_write_bw", "-n 2000", "status=REM_ACCESS_ERR,from=100,only=write", "Failed status 10"),
    ("ib_write_bw", "-n 2000", "errno=ENOMEM,call=ibv_reg_mr", "Couldn't allocate MR"),
];

#[test]
fn programs_that_do_not_recover_end_as_their_authors_say() {
    if !skip::have("programs_that_do_not_recover_end_as_their_authors_say", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures, Debian's programs");
    for shape in [Shape::One, Shape::Two { mtu: 1500 }] {
        let lab = Lab::new(shape).expect("a lab");
        for (tool, args, fault, text) in ENDED {
            table.case(&format!("{shape:?} {tool} {args} {fault}"), || {
                let Outcome { client, .. } = run(&lab, tool, args, fault)?;
                ensure!(!client.ok() && client.text.contains(text), "{}", client.report());
                Ok(())
            });
        }
        table.case(&format!("{shape:?} failures that never strike, and their trace"), || {
            let outcome = run(&lab, "ibv_rc_pingpong", "-n 500", "status=FATAL_ERR,from=9000;event=PATH_MIG,from=100")?;
            ensure!(outcome.client.ok() && outcome.server.ok(), "{}", outcome.client.report());
            let by = "event=PATH_MIG fails=false by=\"event=PATH_MIG,from=100\"";
            let traced =
                outcome.client.text.lines().filter(|line| line.contains(" fault ") && line.contains(by)).count();
            ensure!(traced == 1, "{}", outcome.client.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn rping_ends_by_a_failing_completion() {
    if !skip::have("rping_ends_by_a_failing_completion", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures, rping");
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    for (fault, text) in [
        ("status=RETRY_EXC_ERR,from=10,count=1", "status 12"),
        ("errno=ENOMEM,call=ibv_create_qp", "rdma_create_qp: Cannot allocate memory"),
        ("errno=ENOMEM,call=ibv_reg_mr", "rping_setup_buffers failed"),
    ] {
        table.case(fault, || {
            let server = lab.start(lab.server(), Who::Root, &[], &["rping", "-s", "-C", "50"])?;
            let env = [("WEFT_FAULT", fault)];
            let words = ["rping", "-c", "-v", "-C", "50", "-a", lab.server().v4];
            let client = lab.run(lab.client(), Who::Root, &env, &words);
            server.kill();
            let client = client?;
            ensure!(!client.ok() && client.text.contains(text), "{}", client.report());
            Ok(())
        });
    }
    table.finish();
}

/// `weft fault` adds faults to a running program and removes them; another user's programs are out of reach.
#[test]
fn faults_come_and_go_while_programs_run() {
    if !skip::have("faults_come_and_go_while_programs_run", NEEDED) {
        return;
    }
    let mut table = Table::new("faults of running programs");
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = compile(&lab);
    for (who, other) in [(Who::Ordinary, Some(Who::Root)), (Who::Root, None)] {
        table.case(&format!("{who:?}"), || {
            let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            let device = lab.device(lab.client())?;
            let words = [program, &device.name, &device.gid_v4.to_string(), "400", "10"];
            let mut running = lab.start(lab.client(), who, &[("WEFT_TRACE", "stderr,fault,state")], &words)?;
            ensure!(running.wait_until(WITHIN, |proc| proc.text().contains("to=Rts")), "{}", running.text());
            let fault = |who: Who, words: &[&str]| lab.weft(lab.client(), who, &[], &[&["fault"], words].concat());
            let added = fault(who, &["add", "status=GENERAL_ERR,count=2", "--command", "retry"])?.success()?;
            ensure!(added.text.contains(": 1 process, and those that open a device later"), "{}", added.report());
            let number = added.text.split([' ', ':']).nth(1).context("no number")?.to_owned();
            let failed = |proc: &weft_interop::Proc| proc.text().matches("completion: status 21").count() == 2;
            ensure!(running.wait_until(WITHIN, failed), "{}", running.text());
            let listed = fault(who, &["list"])?.success()?;
            let row = listed.text.lines().find(|row| row.trim_start().starts_with(&number)).unwrap_or_default();
            let columns: Vec<&str> = row.split_whitespace().collect();
            ensure!(columns[..] == [&number, "2", "1", "retry", "status=GENERAL_ERR,count=2"], "{}", listed.report());
            if other.is_some() && lab.has_two_users() {
                let root = fault(Who::Root, &["add", "event=PORT_ERR,for=100ms", "--command", "retry"])?.success()?;
                ensure!(running.wait_until(WITHIN, |proc| proc.text().contains("port error")), "{}", root.report());
                let refused = fault(who, &["del", root.text.split([' ', ':']).nth(1).context("no number")?])?;
                ensure!(!refused.ok() && refused.text.contains("another user's"), "{}", refused.report());
                fault(Who::Root, &["del", "--all"])?.success()?;
            } else {
                fault(who, &["del", &number])?.success()?;
            }
            let none = fault(who, &["list"])?.success()?;
            ensure!(none.text.contains("no faults"), "{}", none.report());
            let ended = running.wait(WITHIN);
            ensure!(ended.ok() && ended.text.contains("delivered 400 messages"), "{}", ended.report());
            Ok(())
        });
    }
    table.case("specifications and numbers that are wrong", || {
        for (words, text) in [
            (&["add", "loss=1"][..], "needs its unit"),
            (&["add", "status=OOPS"], "no such status"),
            (&["add", "loss=1%", "--device", "rxe0"], "faults in packets"),
            (&["add", "loss=1%", "--pid", "1"], "does not use Weft"),
            (&["del", "7"], "no fault 7"),
        ] {
            let ended = lab.weft(lab.client(), Who::Root, &[], &[&["fault"], words].concat())?;
            ensure!(!ended.ok() && ended.text.contains(text), "{}", ended.report());
        }
        Ok(())
    });
    table.finish();
}

/// On a fabric whose data takes memory, injected failures work, and settings that ask for packets cut no host off.
#[test]
fn a_fabric_has_failures_and_no_packets() {
    if !skip::have("a_fabric_has_failures_and_no_packets", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures on a fabric");
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--star", "2"]).expect("a fabric");
    for (variable, value, failure) in [
        ("WEFT_FAULT", "loss=100%", None),
        ("WEFT_LOOPBACK", "wire", None),
        ("WEFT_STRICT", "3", None),
        ("WEFT_FAULT", "loss=1%;status=RETRY_EXC_ERR,from=100,count=1", Some("exceeded (12)")),
        ("WEFT_FAULT", "event=LID_CHANGE,from=9;errno=ENOMEM,call=ibv_post_send,from=50", Some("Couldn't post send")),
    ] {
        table.case(&format!("{variable}={value}"), || {
            let mut server = lab.start_line(&fabric.words("node1", &["ibv_rc_pingpong", "-n", "500"])?, &[])?;
            ensure!(server.wait_listening(DEFAULT_PORT, WITHIN), "{}", server.text());
            let client = fabric.words("node2", &["ibv_rc_pingpong", "-n", "500", "node1"])?;
            let client = lab.start_line(&client, &[(variable, value)])?.wait(WITHIN);
            server.kill();
            match failure {
                None => ensure!(client.ok(), "{}", client.report()),
                Some(text) => ensure!(!client.ok() && client.text.contains(text), "{}", client.report()),
            }
            Ok(())
        });
    }
    table.case("cm=ROUTE_ERROR", || {
        let server = lab.start_line(&fabric.words("node1", &["rping", "-s", "-C", "5"])?, &[])?;
        let client = fabric.words("node2", &["rping", "-c", "-C", "5", "-a", "node1"])?;
        let client = lab.start_line(&client, &[("WEFT_FAULT", "cm=ROUTE_ERROR")])?.wait(WITHIN);
        server.kill();
        ensure!(!client.ok() && client.text.contains("RDMA_CM_EVENT_ROUTE_ERROR, error -110"), "{}", client.report());
        Ok(())
    });
    table.finish();
}

const SCENARIO: &str = r#"
seed = 7
[[step]]
name = "first"
at = "300ms"
fault = "status=RETRY_EXC_ERR,count=1"
[[step]]
struck = "first"
at = "100ms"
name = "port"
fault = "event=PORT_ERR,for=10s"
[[step]]
after = "port"
at = "300ms"
remove = "port"
"#;

/// `weft fault run` lets things happen to a program in their order, and ends with it.
#[test]
fn a_scenario_happens_to_its_program() {
    if !skip::have("a_scenario_happens_to_its_program", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios of faults");
    let lab = Lab::new(Shape::One).expect("a lab");
    let (program, file) = (compile(&lab), lab.file("scenario.toml"));
    table.case("steps by time and by strike", || {
        let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        std::fs::write(&file, SCENARIO)?;
        let device = lab.device(lab.client())?;
        let (file, gid) = (file.to_str().context("the lab's path is not UTF-8")?, device.gid_v4.to_string());
        let words = ["fault", "run", file, "--", program, &device.name, &gid, "200", "10"];
        let ended = lab.weft(lab.client(), Who::Root, &[], &words)?;
        let in_order = [
            " s  fault 101: status=RETRY_EXC_ERR,count=1 (",
            "completion: status 12",
            " s  fault 102: event=PORT_ERR,for=10s (1 process)",
            " s  end of fault 102: event=PORT_ERR,for=10s",
            "delivered 200 messages after 2 failures",
            " s  end of fault 101: ",
        ];
        let mut rest = ended.text.as_str();
        for text in in_order {
            let at = rest.find(text).with_context(|| format!("\"{text}\" is missing here\n{}", ended.report()))?;
            rest = &rest[at + text.len()..];
        }
        ensure!(ended.ok() && ended.text.contains("event: port active"), "{}", ended.report());
        Ok(())
    });
    for (signal, text) in [(Signal::TERM, "the program gets it"), (Signal::KILL, "nothing else is told")] {
        table.case(&format!("signal {} and its faults are gone: {text}", signal.as_raw()), || {
            let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            std::fs::write(&file, "[[step]]\nfault = \"status=GENERAL_ERR,from=1000000\"")?;
            let device = lab.device(lab.client())?;
            let (file, gid) = (file.to_str().context("the lab's path is not UTF-8")?, device.gid_v4.to_string());
            let weft = product::weft()?.display().to_string();
            let words = [&weft, "fault", "run", file, "--", program, &device.name, &gid, "1000", "10"];
            let mut running = lab.start_bare(lab.client(), Who::Root, &words)?;
            let listed = || lab.weft(lab.client(), Who::Root, &[], &["fault", "list"]);
            let has = |wanted: &str| listed().is_ok_and(|list| list.text.contains(wanted));
            ensure!(running.wait_until(WITHIN, |_| has("GENERAL_ERR")), "{}", running.text());
            running.signal(signal);
            ensure!(running.wait_until(WITHIN, |_| has("no faults")), "{}", listed()?.report());
            // A program whose scenario was killed goes on.
            let ends_at_once = signal == Signal::TERM;
            ensure!(!ends_at_once || !running.kill().ok(), "it ended as if nothing had been");
            Ok(())
        });
    }
    table.case("a mistake is found before the first step", || {
        std::fs::write(&file, "[[step]]\nfault = \"loss=1\"")?;
        let words = ["fault", "run", file.to_str().context("the lab's path is not UTF-8")?];
        let ended = lab.weft(lab.client(), Who::Root, &[], &words)?;
        ensure!(!ended.ok() && ended.text.contains("scenario.toml: step 1: loss=1"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

fn run(lab: &Lab, tool: &str, args: &str, fault: &str) -> Result<Outcome> {
    let mut pair = Pair::new(tool, args).devices(lab)?.within(60);
    if tool.starts_with("ibv_") {
        let (server, client) = (lab.device(lab.server())?.gid_v4, lab.device(lab.client())?.gid_v4);
        pair = pair.each(&format!("-g {server}"), &format!("-g {client}"));
    }
    pair.client_env.push(("WEFT_FAULT".into(), fault.into()));
    pair.client_env.push(("WEFT_TRACE".into(), "stderr,fault".into()));
    pair.run(lab)
}

fn compile(lab: &Lab) -> Result<String> {
    compile_source(lab, SOURCE, "-libverbs")
}

/// Compiles a C program, whose name is that of its source.
fn compile_source(lab: &Lab, source: &str, library: &str) -> Result<String> {
    let name = std::path::Path::new(source).file_stem().context("a source has a name")?;
    let program = lab.file(name.to_str().context("the name is not UTF-8")?);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).arg(source);
    let status = cc.args([library, "-libverbs"]).status().context("cc runs")?;
    ensure!(status.success(), "{source} does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
