//! Weft's discovery tools beside Debian's on the same Weft fabric, managed by Debian's opensm: they print the same,
//! with the same exit codes. One fabric has a speed that older versions of Debian's tools do not know; the differences
//! are listed here and in [`weft_interop::originals`], with their reasons.

use anyhow::{Result, ensure};
use weft_interop::{Fabric, Lab, Originals, Shape, Table, product, skip};

const TOOLS: &[&str] =
    &["ip", "opensm", "ibnetdiscover", "iblinkinfo", "saquery", "smpquery", "ibportstate", "ibqueryerrors", "dump_fts"];

/// The host that runs the tools, and the host of the subnet manager.
const HOST: &str = "node2";
const MANAGER: &str = "node1";

/// The fabric whose ports all have cables.
const FULL: &[&str] = &["--fat-tree", "4,2"];
/// The fabric whose links run at XDR.
const XDR: &[&str] = &["--torus", "2x2", "--hosts-per-switch", "1", "--speed", "XDR"];

/// Command lines that print the same everywhere.
const LINES: &[&str] = &[
    "ibnetdiscover -l",
    "ibnetdiscover -H",
    "ibnetdiscover -S",
    "ibhosts",
    "ibswitches",
    "ibnodes",
    "ibrouters",
    "ibidsverify -R",
    "saquery",
    "saquery -D",
    "saquery -c",
    "saquery -s",
    "saquery -g",
    "saquery -m",
    "saquery -x",
    "saquery -I",
    "saquery CPI",
    "saquery -p",
    "saquery -p --slid 1 --dlid 2",
    "saquery LFTR 2",
    "saquery MFTR",
    "saquery --smkey 1 PKTR 2/0/0",
    "saquery SL2VL 2",
    "saquery VLAR 2",
    "saquery GIR 1",
    "saquery SWIR",
    "dump_fts",
    "dump_fts -M",
    "dump_lfts",
    "dump_mfts",
    "ibqueryerrors",
    "ibqueryerrors --data",
    "ibqueryerrors --counters",
    "ibqueryerrors -r",
];

/// Command lines that name the speeds of links.
const SPEED_LINES: &[&str] = &[
    "ibnetdiscover",
    "ibnetdiscover -g",
    "ibnetdiscover -p",
    "iblinkinfo",
    "iblinkinfo -l",
    "iblinkinfo -p",
    "iblinkinfo --switches-only",
    "smpquery -D portinfo 0 1",
];

/// Command lines that compare the speed of a link with that of its ports: an original that does not know XDR warns.
const COMPARED_LINES: &[&str] = &["ibportstate -D 0 1"];

/// The original has no name for the width of a port without a cable, and says so on standard error in the middle of
/// another line.
const FULL_LINES: &[&str] = &["saquery PIR 2"];

/// Removes the parts of a line that differ from run to run: the date, a process id, packets that the query itself adds.
fn lasting(line: &str) -> Option<String> {
    if line.starts_with("# Topology file: generated on ") {
        return None;
    }
    let parts = line.split(" [").map(|part| match part.split_once(" == ") {
        Some((name, _)) if name.ends_with("Data") || name.ends_with("Pkts") || name == "PortXmitWait" => name,
        _ => part,
    });
    let line = parts.collect::<Vec<_>>().join(" [");
    let text = line.strip_prefix("ibwarn: [").and_then(|rest| rest.split_once("] ")).map(|(_, text)| text.to_owned());
    Some(text.unwrap_or(line))
}

/// An exit code, and the lines of both streams, which come in either order.
type Ending = (Option<i32>, Vec<String>);

/// Runs a command line to its end; `seen` turns its text into the one to compare.
fn said(fabric: &Fabric<'_>, words: &[&str], seen: impl Fn(&str) -> String) -> Result<Ending> {
    // Without ib0: its joins would change the subnet between two programs.
    let ended = fabric.run_without_ib0(HOST, words)?;
    let mut lines: Vec<String> = seen(&ended.text).lines().filter_map(lasting).collect();
    lines.sort();
    Ok((ended.status.and_then(|status| status.code()), lines))
}

#[test]
fn discovery_prints_the_same_of_our_own_fabric() {
    if !skip::have("discovery_prints_the_same_of_our_own_fabric", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let weft = product::weft().expect("the product").display().to_string();
    let originals = Originals::installed().expect("the originals' version");
    let mut table = Table::new("ib discovery, our own fabric");
    for words in [FULL, XDR] {
        let fabric = Fabric::up(&lab, words).expect("a fabric");
        let _manager = fabric.opensm(MANAGER, "minhop").expect("a subnet manager");
        fabric.wait("all links active", |state| state["links"]["init"] == 0).expect("links");
        let full = FULL_LINES.iter().filter(|_| words == FULL);
        let compared = COMPARED_LINES.iter().filter(|_| words == FULL || originals.know_xdr());
        for line in LINES.iter().chain(SPEED_LINES).chain(full).chain(compared) {
            table.case(&format!("{}: {line}", words[0]), || {
                let words: Vec<&str> = line.split(' ').collect();
                let theirs = said(&fabric, &words, str::to_owned)?;
                let ours = said(&fabric, &[&[weft.as_str()], &words[..]].concat(), |text| originals.known(text))?;
                ensure!(theirs == ours, "theirs: {theirs:#?}\nours: {ours:#?}");
                ensure!(ours.1.len() > 1 || ours.0 == Some(0), "it says nothing: {ours:?}");
                Ok(())
            });
        }
    }
    table.finish();
}
