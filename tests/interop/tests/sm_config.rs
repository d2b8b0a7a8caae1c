//! Subnet manager configuration is interchangeable between Weft and Debian's OpenSM: each reads the other's file, with
//! the same values; and `weft sm check` predicts the effect of partitions.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::time::Duration;
use weft_interop::{Lab, Shape, Table, Who, skip};

/// Time limit for writing a file.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn configurations_go_both_ways() {
    if !skip::have("configurations_go_both_ways", &["ip", "opensm"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("sm configuration");
    table.case("opensm's own file is read without a word", || {
        let file = opensm_file(&lab, "theirs.conf", &[])?;
        let said = weft(&lab, &["sm", "check", "--config", &file])?;
        ensure!(
            !said.contains("error") && !said.contains("warning") && !said.contains("note"),
            "weft sm check: {said}"
        );
        Ok(())
    });
    table.case("opensm reads ours, and has the same values", || {
        let theirs = std::fs::read_to_string(opensm_file(&lab, "theirs.conf", &[])?)?;
        let ours = path(&lab, "ours.conf")?;
        weft(&lab, &["sm", "--create-config", &ours])?;
        let both = std::fs::read_to_string(opensm_file(&lab, "both.conf", &["-F", &ours])?)?;
        let (theirs, both) = (settings(&theirs), settings(&both));
        let differ: Vec<_> = theirs.symmetric_difference(&both).collect();
        ensure!(differ.is_empty() && theirs.len() > 150, "they differ in {differ:?}");
        Ok(())
    });
    table.case("what partitions would change is said beforehand", || {
        let (fabric, partitions) = (path(&lab, "fabric.net")?, path(&lab, "partitions.conf")?);
        let net = weft(&lab, &["topology", "--star", "3", "--format", "net"])?;
        std::fs::write(&fabric, net)?;
        std::fs::write(&partitions, "storage=0x10, ipoib : ALL_CAS=full ;\n")?;
        let said = weft(&lab, &["sm", "check", "--partitions", &partitions, "--topology", &fabric])?;
        for words in [
            "no rule for the default partition: every host would be a limited member",
            "partition Default (0x7fff): 3 ports would be limited members from now on",
            "partition storage (0x0010): 3 ports would become full members",
            "multicast group ff12:401b:8010::ffff:ffff (P_Key 0x8010, MTU 4, rate 3, SL 0) comes",
        ] {
            ensure!(said.contains(words), "no {words:?} in {said}");
        }
        Ok(())
    });
    table.finish();
}

fn path(lab: &Lab, name: &str) -> Result<String> {
    Ok(lab.file(name).to_str().context("a path in UTF-8")?.to_owned())
}

fn weft(lab: &Lab, words: &[&str]) -> Result<String> {
    Ok(lab.weft(lab.client(), Who::Root, &[], words)?.success()?.text)
}

/// Returns the options file that opensm writes, including options from another file; complaints of opensm about that
/// file are failures.
fn opensm_file(lab: &Lab, name: &str, words: &[&str]) -> Result<String> {
    let (file, log) = (path(lab, name)?, path(lab, "opensm.log")?);
    let line = [&["opensm"], words, &["--create-config", &file, "--log_file", &log]].concat();
    let said = lab.start_bare(lab.client(), Who::Root, &line)?.wait(LIMIT).success()?.text;
    for complaint in ["Unrecognized", "-E-", "Invalid", "Warning"] {
        ensure!(!said.contains(complaint), "opensm says: {said}");
    }
    Ok(file)
}

/// Returns the lines that set options, except the log's name, which the command line sets.
fn settings(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter(|line| !line.starts_with("log_file ")).collect()
}
