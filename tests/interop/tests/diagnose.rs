//! `weft diagnose` on generated fabrics under Weft's subnet manager: exit code 0 and no finding on every healthy one;
//! on each with a fault, exit code 1 and the finding that names it. `WEFT_ALL=1` adds more and larger fabrics.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weft_interop::{Fabric, Lab, Shape, Table, product, skip, table};

/// Host that runs `weft diagnose`.
const HOST: &str = "node1";

const HEALTHY: &[&str] = &[
    "--pair",
    "--star 5",
    "--fat-tree 4,3",
    "--torus 4x4",
    "--torus 5",
    "--mesh 4x3 --hosts-per-switch 2",
    "--dragonfly 2,2,1",
    "--random 10,4,1",
];

const MORE: &[&str] = &[
    "--star 1",
    "--fat-tree 8,2",
    "--fat-tree 8,3",
    "--fat-tree 8,3 --hosts 50",
    "--fat-tree 12,3",
    "--fat-tree 4,4",
    "--fat-tree 36,2 --hosts 324",
    "--torus 6x6",
    "--torus 4x4x4",
    "--torus 3x3x3x3",
    "--torus 8x8",
    "--mesh 7",
    "--mesh 6x5",
    "--mesh 4x4x4",
    "--mesh 2x2x2x2x2",
    "--dragonfly 4,2,2",
    "--dragonfly 6,3,3",
    "--random 20,3,5 --hosts-per-switch 3",
    "--random 40,6,2 --hosts-per-switch 4",
    "--random 30,2,9",
];

/// Other configurations: several LIDs for each port, and several lanes.
const CONFIGURED: &[(&str, &str)] =
    &[("--fat-tree 4,2", "lmc 2\n"), ("--torus 3x3 --hosts-per-switch 2", "lmc 1\nqos TRUE\nmax_op_vls 4\n")];

/// A fabric, the fault as arguments of `weft`, and the expected finding in the report.
type Fault = (&'static str, &'static [&'static [&'static str]], &'static str, &'static [&'static str]);

const FAULTS: &[Fault] = &[
    ("a cable that was cut", &[&["cable", "cut", "leaf1:3"]], "changes", &["gone:", "leaf1", "spine1"]),
    (
        "a cable that is slower than its ports",
        &[&["cable", "degrade", "leaf1:3", "--speed", "SDR"]],
        "links",
        &["leaf1 port 3", "could be"],
    ),
    (
        "a cable that damages packets",
        &[&["cable", "errors", "node8:1", "--ppm", "300000"]],
        "cables by counters",
        &["port 1: ", "PortRcvErrors"],
    ),
    ("a host without power", &[&["node", "off", "node8"]], "changes", &["gone:", "node8"]),
];

fn diagnose(fabric: &Fabric<'_>, words: &[&str]) -> Result<(Option<i32>, Value)> {
    let weft = product::weft()?.display().to_string();
    let said = fabric.run(HOST, &[&[&weft, "diagnose", "--json", "--seconds", "0"], words].concat())?;
    let report = said.text.find('{').map_or("", |at| &said.text[at..]);
    let report = serde_json::from_str(report).with_context(|| format!("{said:?}"))?;
    Ok((said.status.and_then(|status| status.code()), report))
}

/// Returns the checks with findings above notes.
fn findings(report: &Value) -> Vec<(String, String)> {
    let checks = report["checks"].as_array().into_iter().flatten();
    let each = checks.flat_map(|check| {
        let title = check["check"].as_str().unwrap_or_default().to_owned();
        let all = check["findings"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|finding| finding["severity"] != "note")
            .map(move |finding| (title.clone(), finding["text"].as_str().unwrap_or_default().to_owned()))
    });
    each.collect()
}

fn healthy(lab: &Lab, words: &[&str]) -> Result<()> {
    let fabric = Fabric::managed(lab, words)?;
    let (code, report) = diagnose(&fabric, &[])?;
    let found = findings(&report);
    ensure!(code == Some(0) && found.is_empty(), "exit code {code:?}: {found:#?}");
    Ok(())
}

fn faulty(lab: &Lab, &(_, fault, title, words): &Fault) -> Result<()> {
    let fabric = Fabric::managed(lab, &["--fat-tree", "4,2", "--seed", "7"])?;
    let kept = lab.file("before.cache").display().to_string();
    let (code, report) = diagnose(&fabric, &["--save", &kept])?;
    ensure!(code == Some(0), "before the fault: {:#?}", findings(&report));
    fault.iter().try_for_each(|words| fabric.weft(words).map(drop))?;
    // The subnet manager routes around missing parts; the report may come before that.
    let mut last = Vec::new();
    for _ in 0..TRIES {
        let (code, report) = diagnose(&fabric, &["--baseline", &kept])?;
        last = findings(&report);
        let told: Vec<&str> = last.iter().filter(|(check, _)| check == title).map(|(_, text)| text.as_str()).collect();
        if words.iter().all(|word| told.iter().any(|text| text.contains(word))) {
            ensure!(code == Some(1), "exit code {code:?}: {last:#?}");
            return Ok(());
        }
    }
    anyhow::bail!("nothing under \"{title}\" names {words:?}: {last:#?}")
}

/// Reports until a fault must show: a cable damages packets at random.
const TRIES: usize = 10;

#[test]
fn healthy_fabrics_have_no_findings_and_faults_are_named() {
    if !skip::have("healthy_fabrics_have_no_findings_and_faults_are_named", &["ip"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("diagnose");
    let more = if table::all() { MORE } else { &[] };
    for shape in HEALTHY.iter().chain(more) {
        table.case(&format!("healthy: {shape}"), || healthy(&lab, &shape.split(' ').collect::<Vec<_>>()));
    }
    for (shape, config) in CONFIGURED {
        table.case(&format!("healthy: {shape}, {}", config.replace('\n', " ").trim()), || {
            let file = lab.file("opensm.conf");
            // An ordinary user cannot write the log at its usual place.
            std::fs::write(&file, format!("{config}log_file {}\n", lab.file("opensm.log").display()))?;
            let file = file.display().to_string();
            let words: Vec<&str> = shape.split(' ').chain(["--sm-config", &file]).collect();
            healthy(&lab, &words)
        });
    }
    for fault in FAULTS {
        table.case(fault.0, || faulty(&lab, fault));
    }
    table.finish();
}
