//! C programs with one planted misuse each, and their correct twins, which must be clean.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, skip};

use super::reports::{Checked, FOUND, check};

const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h"];
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check_calls");

/// A C file, and the rules of its cases. A rule may have several, with a name after a slash. The words after a rule are
/// other rules that the misuse breaks, too.
const MISUSES: &[(&str, &[&str])] = &[
    (
        "memory",
        &[
            "buffer-changed",
            "buffer-unmapped region-unmapped",
            "region-unmapped",
            "region-in-use",
            "key-unknown",
            "key-stale",
            "key-wrong-pd",
            "key-out-of-range",
            "key-no-access",
            "remote-access-without-local",
            "atomic-misaligned",
            "atomic-length",
            "receive-no-grh-room",
            "window-without-access",
            "window-out-of-range",
            "window-wrong-pd",
        ],
    ),
    (
        "queues",
        &[
            "send-queue-full",
            "receive-queue-full",
            "srq-full",
            "cq-overrun",
            "cq-overrun-possible cq-overrun",
            "never-signaled send-queue-full",
            "receive-too-short",
            "receive-missing",
            "too-many-sge",
            "inline-too-long",
            "opcode-not-for-type",
            "post-in-wrong-state",
            "post-in-wrong-state/receive",
            "ud-message-exceeds-mtu",
            "ah-wrong-pd",
            "ah-in-use",
            "read-limit-zero",
            "fence-missing",
            "srq-with-receive",
        ],
    ),
    (
        "objects",
        &[
            "object-leaked",
            "destroy-busy",
            "destroyed-twice",
            "use-after-destroy destroyed-twice",
            "wrong-transition",
            "attribute-missing",
            "attribute-extra",
            "gid-index-empty",
            "path-mtu-exceeds-port",
            "timeout-zero",
            "retry-zero",
            "qp-cap-beyond-device",
            "cq-not-drained",
            "cq-not-armed",
            "event-unacknowledged",
            "event-not-read",
        ],
    ),
];

/// Rules without a program here, with the reason.
const UNTESTED: &[(&str, &str)] = &[("fork-unprotected", "Linux copies registered pages at fork since 5.12")];

#[test]
fn planted_misuse_is_found_and_its_twin_is_clean() {
    if !skip::have("planted_misuse_is_found_and_its_twin_is_clean", NEEDED) {
        return;
    }
    // Its port has an MTU of 1024 bytes: a path MTU above that exists.
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("check, misuse");
    for (file, cases) in MISUSES {
        let program = compile(&lab, file);
        for (number, case) in cases.iter().enumerate() {
            let who = Who::BOTH[number % 2];
            table.case(&format!("{case}, {who:?}"), || {
                let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
                let (name, also) = case.split_once(' ').unwrap_or((case, ""));
                finds(&lab, who, program, name, also).context("misuse")?;
                is_clean(&lab, who, program, name).context("its twin")
            });
        }
    }
    table.case("every rule has a program", || every_rule_has_a_program(&lab));
    table.finish();
}

/// Runs a case of a program with all rules in force.
fn run(lab: &Lab, who: Who, program: &str, name: &str, twin: &str) -> Result<Checked> {
    let device = lab.device(lab.client())?;
    check(lab, who, &["--leaks", "yes"], &[program, &device.name, &device.gid_v4.to_string(), name, twin])
}

fn rule_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(rule, _)| rule)
}

/// The misuse is found, with a report that a reader can use, and no other error is.
fn finds(lab: &Lab, who: Who, program: &str, name: &str, also: &str) -> Result<()> {
    let rule = rule_of(name);
    let checked = run(lab, who, program, name, "wrong")?;
    let report = checked.reports.iter().find(|report| report["rule"] == rule);
    let report = report.with_context(|| format!("{rule} is not reported: {}", checked.report()))?;
    let others: Vec<_> = checked.errors().into_iter().filter(|found| *found != rule && *found != also).collect();
    ensure!(others.is_empty(), "{others:?} is reported, too: {}", checked.report());
    let is_error = !checked.errors().is_empty();
    ensure!((checked.code() == Some(FOUND)) == is_error, "the exit status: {}", checked.report());
    for field in ["message", "object", "call", "clause", "advice", "program"] {
        ensure!(report[field].as_str().is_some_and(|text| !text.is_empty()), "{field} is empty: {}", checked.report());
    }
    let stack = report["stack"].as_array().context("the stack is no list")?;
    // Leaks are found when all of the program has returned.
    ensure!(!stack.is_empty() || rule == "object-leaked", "the stack is empty: {}", checked.report());
    Ok(())
}

/// The twin ends well, without any report of the rule, and without any error.
fn is_clean(lab: &Lab, who: Who, program: &str, name: &str) -> Result<()> {
    let checked = run(lab, who, program, name, "right")?;
    ensure!(checked.code() == Some(0), "the exit status: {}", checked.report());
    ensure!(checked.errors().is_empty(), "an error: {}", checked.report());
    ensure!(!checked.rules().contains(&rule_of(name)), "the rule: {}", checked.report());
    Ok(())
}

/// The list of `weft check --rules` holds the rules of this table and no others.
fn every_rule_has_a_program(lab: &Lab) -> Result<()> {
    let list = lab.weft(lab.client(), Who::Root, &[], &["check", "--rules"])?.success()?.text;
    let listed = list.lines().filter(|line| !line.starts_with(' '));
    let mut listed: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    let cases = MISUSES.iter().flat_map(|(_, cases)| cases.iter());
    let mut here: Vec<_> = cases.map(|case| rule_of(case.split_once(' ').map_or(case, |(name, _)| name))).collect();
    here.extend(UNTESTED.iter().map(|(rule, _)| *rule));
    listed.sort_unstable();
    here.sort_unstable();
    here.dedup();
    ensure!(listed == here, "listed: {listed:?}\n      here: {here:?}");
    Ok(())
}

/// Compiles a file. Returns the program's path.
pub fn compile(lab: &Lab, file: &str) -> Result<String> {
    let program: PathBuf = lab.file(file);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-g", "-o"]).arg(&program).arg(format!("{SOURCES}/{file}.c"));
    let status = cc.args(["-libverbs", "-lpthread"]).status().context("cc runs")?;
    ensure!(status.success(), "{file}.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
