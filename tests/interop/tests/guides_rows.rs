//! The guides row by row: each command as it is printed, on a machine with an Ethernet interface and on two hosts of a fabric,
//! for root and for an ordinary user. Families of their own run what needs more than one line: `guides`, `host_profiles`,
//! `modules`, `hosts`, `iwarp`.

#[path = "guides_rows/rows.rs"]
mod rows;

use anyhow::{Result, bail, ensure};
use rows::{Place, ROWS, Row};
use weft_interop::{Fabric, Lab, Shape, Table, Who, skip};

const TOOLS: &[&str] =
    &["ip", "rdma", "ibstat", "ibping", "ibv_devinfo", "ibv_rc_pingpong", "qperf", "ping", "modinfo", "netstat"];

#[test]
fn on_a_machine() {
    if !skip::have("on_a_machine", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("rows of the guides: a machine");
    for row in ROWS.iter().filter(|row| row.place == Place::Machine) {
        table.case(&format!("{}: {}", row.guide, row.types), || {
            let ended = lab.run(lab.client(), Who::Root, &[], &["sh", "-c", row.types])?;
            ensure!(ended.ok(), "{}", ended.report());
            check(row, &ended.text)
        });
    }
    table.finish();
}

#[test]
fn on_a_fabric() {
    if !skip::have("on_a_fabric", TOOLS) {
        return;
    }
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let words = ["--star", "2", "--adapter", "mlx4", "--rails", "2"];
        let (fabric, _) = Fabric::managed_by(&lab, who, &words).expect("a fabric");
        let mut table = Table::new("rows of the guides: a fabric");
        for row in ROWS.iter().filter(|row| row.place != Place::Machine) {
            table.case(&format!("{who:?}: {}: {}", row.guide, row.types), || {
                let host = if row.place == Place::Node1 { "node1" } else { "node2" };
                let ended = fabric.run(host, &["sh", "-c", row.types])?;
                ensure!(ended.ok() || row.types.contains("kill $!"), "{}", ended.report());
                check(row, &ended.text)
            });
        }
        table.finish();
    }
}

/// Checks that the words stand in the output, in their order.
fn check(row: &Row, text: &str) -> Result<()> {
    let mut rest = text;
    for words in row.shows {
        let Some(at) = rest.find(words) else { bail!("no {words:?} in its place in\n{text}") };
        rest = &rest[at + words.len()..];
    }
    Ok(())
}
