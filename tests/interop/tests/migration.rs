//! QEMU's live migration over RDMA: a guest's memory moves into another QEMU, and both are compared byte by byte.
//!
//! The guests are idle: without KVM, QEMU 7.2 loses a running guest's changes over TCP as well.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Lab, Proc, Shape, Table, Who, product, skip};

const MIGRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migration/migrate.py");
const PYTHON: &str = "/usr/bin/python3";
/// Bytes of the guest's memory that are not zero.
const PATTERN_BYTES: usize = 16 << 20;
/// Time limit of one migration, including the guests' start.
const LIMIT: Duration = Duration::from_secs(150);

#[test]
fn qemu() {
    if !skip::have("QEMU's migration", &["ip", "qemu-system-x86_64", PYTHON]) {
        return;
    }
    let mut table = Table::new("QEMU's migration");
    let ways = [(Shape::Two { mtu: 1500 }, Who::Root), (Shape::One, Who::Root), (Shape::One, Who::Ordinary)];
    for (shape, who) in ways {
        let lab = Lab::new(shape).expect("a lab");
        for pin in [&[][..], &["pin"]] {
            table.case(&format!("{shape:?} {who:?} {pin:?}"), || {
                let start = |end: &str, words: &[&str]| {
                    let side = if end == "target" { lab.server() } else { lab.client() };
                    lab.start(side, who, &[], words)
                };
                migrated(&lab, who, lab.server().v4, pin, &start)
            });
        }
    }
    table.finish();
}

#[test]
fn qemu_on_a_fabric() {
    if !skip::have("QEMU's migration on a fabric", &["ip", "qemu-system-x86_64", PYTHON]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("QEMU's migration on a fabric");
    let weft = product::weft().expect("the product").display().to_string();
    for words in [&["--star", "3"][..], &["--packets", "--star", "3"]] {
        lab.weft(lab.client(), Who::Root, &[], &[&["up"], words].concat())
            .and_then(|up| up.success())
            .expect("a fabric");
        table.case(&format!("{words:?}"), || {
            let start = |end: &str, words: &[&str]| {
                let host = if end == "target" { "node2" } else { "node1" };
                let words = [&[weft.as_str(), "run", "--host", host, "--"], words].concat();
                lab.start_line(&lab.bare(lab.client(), Who::Root, &words), &[])
            };
            migrated(&lab, Who::Root, "10.0.0.2", &[], &start)
        });
        lab.weft(lab.client(), Who::Root, &[], &["down"]).and_then(|down| down.success()).expect("it goes down");
    }
    table.finish();
}

/// Starts both guests, migrates one into the other, and compares their memory.
fn migrated(lab: &Lab, who: Who, to: &str, pin: &[&str], start: &dyn Fn(&str, &[&str]) -> Result<Proc>) -> Result<()> {
    let place = lab.file("migration").display().to_string();
    let _ = std::fs::remove_dir_all(&place);
    let made = lab.start_bare(lab.client(), who, &["mkdir", &place])?.wait(LIMIT);
    ensure!(made.ok(), "{}", made.report());
    // Words that differ from page to page, so that a misplaced page shows.
    let words = (0..PATTERN_BYTES as u64 / 8).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let pattern = lab.file("pattern");
    std::fs::write(&pattern, words.collect::<Vec<u8>>())?;
    let loader = format!("loader,file={},addr=0x1000000,force-raw=on", pattern.display());
    let qemu = |end: &str, words: &[&str]| {
        let qmp = format!("unix:{place}/{end}.qmp,server=on,wait=off");
        let common = "qemu-system-x86_64 -accel tcg -m 64 -nodefaults -display none -S -qmp";
        let line: Vec<_> = common.split(' ').chain([qmp.as_str()]).chain(words.iter().copied()).collect();
        start(end, &line)
    };
    let target = qemu("target", &["-incoming", "defer"])?;
    let source = qemu("source", &["-device", &loader])?;
    let uri = format!("rdma:{to}:4444");
    let line = [&[PYTHON, MIGRATE, &place, &uri], pin].concat();
    // Root controls them, whichever user runs them: not every user may read these sources.
    let ended = lab.start_bare(lab.client(), Who::Root, &line)?.wait(LIMIT);
    let (source, target) = (source.kill(), target.kill());
    ensure!(
        ended.ok() && ended.text.contains("alike"),
        "{}\n      source: {}\n      target: {}",
        ended.report(),
        source.report(),
        target.report()
    );
    Ok(())
}
