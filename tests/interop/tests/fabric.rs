//! `weft up` and Debian's unmodified programs: its subnet manager brings up fabrics of every shape with every routing
//! engine that fits. `weft up` accepts its discovery's output again, and its simulator shows the same network for it.
//! Both see changes of cables and nodes.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::PathBuf;
use weft_interop::user::ONE_USER;
use weft_interop::{Fabric, IbSim, Lab, Shape, Table, Who, ibsim, skip};

/// Required programs.
const TOOLS: &[&str] = &["ip", "ibsim", "opensm", "ibnetdiscover", "smpquery", "timeout"];

fn have(what: &str) -> bool {
    skip::have(what, &[ibsim::TOOLS, TOOLS].concat())
}

/// Fabrics: arguments of `weft up`, nodes, links, the routing engines that fit them.
const SHAPES: &[(&[&str], usize, u64, &[&str])] = &[
    (&["--pair"], 2, 1, &["minhop"]),
    (&["--star", "5"], 6, 5, &["minhop"]),
    (&["--fat-tree", "6,2"], 27, 36, &["minhop", "updn", "ftree", "dfsssp"]),
    (&["--fat-tree", "4,3", "--speed", "XDR"], 36, 48, &["ftree"]),
    (&["--torus", "3x3", "--hosts-per-switch", "2", "--speed", "HDR"], 27, 36, &["minhop", "lash", "dfsssp"]),
    (&["--dragonfly", "3,2,1", "--width", "2x", "--speed", "HDR"], 36, 42, &["minhop", "lash", "dfsssp"]),
];

#[test]
fn opensm_brings_every_fabric_up() {
    if !have("opensm on our fabrics") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("opensm");
    for (words, nodes, links, engines) in SHAPES {
        for engine in *engines {
            table.case(&format!("{} with {engine}", words.join(" ")), || managed(&lab, words, *nodes, *links, engine));
        }
    }
    table.finish();
}

/// Checks a managed fabric: every link is active, every node is discovered, routes lead from the first host to the
/// last, and no errors are logged.
fn managed(lab: &Lab, words: &[&str], nodes: usize, links: u64, engine: &str) -> Result<()> {
    let fabric = Fabric::up(lab, words)?;
    let state = fabric.status()?;
    ensure!(state["links"]["init"] == links && state["managers"] == serde_json::json!([]), "before: {state}");
    let opensm = fabric.opensm("node1", engine)?;
    fabric.wait("all links active", |state| state["links"]["active"] == links)?;
    let state = fabric.status()?;
    ensure!(state["managers"][0]["node"] == "node1" && state["managers"][0]["lid"] != 0, "the manager: {state}");
    ensure!(state["programs"][0]["host"] == "node1", "the programs: {state}");
    let log = opensm.log();
    let wrong: Vec<&str> = log.lines().filter(|line| line.contains(" ERR ") || line.contains("fallback")).collect();
    ensure!(wrong.is_empty(), "opensm says:\n{}", wrong.join("\n"));
    ensure!(words[0] == "--pair" || log.contains(&format!("{engine} tables configured")), "no {engine} in:\n{log}");
    let found = fabric.run("node1", &["ibnetdiscover", "-l"])?.success()?.text;
    ensure!(found.lines().count() == nodes, "{} nodes in:\n{found}", found.lines().count());
    let last = last_lid(&fabric)?;
    let answer = fabric.run("node1", &["smpquery", "nodedesc", &last.to_string()])?.success()?.text;
    ensure!(answer.contains("weft0"), "smpquery says: {answer}");
    Ok(())
}

/// Returns the LID of the last host.
fn last_lid(fabric: &Fabric<'_>) -> Result<u64> {
    let picture: serde_json::Value = serde_json::from_str(&fabric.weft(&["topology", "--format", "json"])?)?;
    let nodes = picture["nodes"].as_array().context("nodes")?;
    let host = nodes.iter().rev().find(|node| node["kind"] == "CA").context("a host")?;
    host["lids"][0].as_u64().filter(|lid| *lid != 0).context("a LID")
}

/// Returns a network's blocks without their order, LIDs, and the dates in its head.
fn network(text: &str) -> BTreeSet<String> {
    let without_lids = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        for at in 1..words.len() {
            if matches!(words[at - 1], "lid" | "lmc") {
                words[at] = "*";
            }
        }
        words.join(" ")
    };
    let blocks = text.split("\n\n").filter(|block| block.contains("guid="));
    blocks.map(|block| block.trim().lines().map(without_lids).collect::<Vec<_>>().join("\n")).collect()
}

/// Returns the output of ibnetdiscover on a host.
fn discovered(fabric: &Fabric<'_>, host: &str, options: &[&str]) -> Result<String> {
    Ok(fabric.run(host, &[&["ibnetdiscover"], options].concat())?.success()?.text)
}

#[test]
fn what_ibnetdiscover_prints_is_the_same_network_everywhere() {
    if !have("ibnetdiscover on our fabrics") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("ibnetdiscover");
    // Debian's simulator supports speeds up to HDR.
    let shapes: &[(&[&str], bool)] = &[
        (&["--pair", "--speed", "FDR"], true),
        (&["--fat-tree", "4,2", "--speed", "EDR"], true),
        (&["--torus", "3x3", "--speed", "HDR"], true),
        (&["--dragonfly", "2,1,1", "--speed", "NDR"], false),
        (&["--random", "6,3", "--speed", "QDR", "--width", "12x"], true),
    ];
    for (words, simulated) in shapes {
        table.case(&words.join(" "), || same_network(&lab, words, *simulated));
    }
    table.finish();
}

/// Gives the adapters' only ports the GUIDs that the simulator gives them, whatever its file says: the node's plus one.
fn with_numbered_ports(toml: &str) -> String {
    let numbered = |line: &str| {
        let guid = line.strip_prefix("port-guids = [\"0x")?.strip_suffix("\"]")?;
        let guid = u64::from_str_radix(guid, 16).ok()? + 1;
        Some(format!("port-guids = [\"{guid:#018x}\"]\n"))
    };
    toml.lines().map(|line| numbered(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

fn same_network(lab: &Lab, words: &[&str], simulated: bool) -> Result<()> {
    let fabric = Fabric::up(lab, words)?;
    let dump = discovered(&fabric, "node1", &[])?;
    let expected = network(&dump);
    ensure!(
        expected == network(&fabric.weft(&["topology", "--format", "net"])?),
        "weft topology differs from:\n{dump}"
    );
    let file = |name: &str, text: &str| -> Result<PathBuf> {
        let path = lab.file(name);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let grouped = file("grouped.net", &discovered(&fabric, "node1", &["-g", "-f"])?)?;
    let toml_text = fabric.weft(&["topology", "--format", "toml"])?;
    let toml = file("fabric.toml", &toml_text)?;
    drop(fabric);
    let plain = file("plain.net", &dump)?;
    for path in [&plain, &grouped, &toml] {
        let again = Fabric::up(lab, &[&path.display().to_string()])?;
        let text = discovered(&again, "node1", &[])?;
        ensure!(network(&text) == expected, "{} came up as another network:\n{text}", path.display());
    }
    if !simulated {
        return Ok(());
    }
    let fabric = Fabric::up(lab, &[&file("numbered.toml", &with_numbered_ports(&toml_text))?.display().to_string()])?;
    let dump = discovered(&fabric, "node1", &[])?;
    let expected = network(&dump);
    drop(fabric);
    let plain = file("numbered.net", &dump)?;
    let sim = IbSim::start(lab, &plain)?;
    let simulated = sim.run("node1 weft0", &["ibnetdiscover"])?;
    ensure!(network(&simulated.out) == expected, "in the simulator:\n{}\nand here:\n{dump}", simulated.out);
    Ok(())
}

/// Changes of the fabric, as ibnetdiscover and opensm see them.
#[test]
fn cables_and_nodes_that_fail_are_seen() {
    if !have("faults on our fabrics") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let mut opensm = fabric.opensm("node1", "minhop").expect("opensm");
    let mut table = Table::new("faults");
    let faults: &[(&[&str], &[&str], [u64; 2])] = &[
        (&["cable", "cut", "leaf1:3", "spine1:1"], &["num:128"], [15, 1]),
        (&["cable", "join", "leaf1:3"], &["num:128"], [16, 0]),
        (&["cable", "flap", "leaf2:3", "--down", "50ms"], &["num:128"], [16, 0]),
        (&["node", "off", "node8"], &["num:128", "Removed port"], [15, 0]),
        (&["node", "on", "node8"], &["num:128", "Discovered new port"], [16, 0]),
        (&["node", "off", "spine2"], &["num:128", "Removed port"], [12, 0]),
        (&["node", "on", "spine2"], &["num:128", "Discovered new port"], [16, 0]),
        (&["node", "reboot", "node7", "--down", "10ms"], &["num:128"], [16, 0]),
    ];
    for (words, said, [active, cut]) in faults {
        table.case(&words.join(" "), || {
            let before: Vec<usize> = said.iter().map(|words| opensm.count(words)).collect();
            let sweeps = opensm.count("SUBNET UP");
            fabric.weft(words)?;
            opensm.wait_sweep(sweeps)?;
            for (words, before) in said.iter().zip(before) {
                opensm.wait_for(words, before + 1, std::time::Duration::from_secs(5))?;
            }
            let links =
                |state: &serde_json::Value| state["links"]["active"] == *active && state["links"]["cut"] == *cut;
            fabric.wait("links as they should be", links)?;
            let found = discovered(&fabric, "node1", &[])?;
            let here = fabric.weft(&["topology", "--format", "net"])?;
            let reached: BTreeSet<String> = network(&here).into_iter().filter(|block| block.contains("\n[")).collect();
            ensure!(network(&found) == reached, "ibnetdiscover:\n{found}\nweft topology:\n{here}");
            Ok(())
        });
    }
    table.case("degrade", || {
        fabric.weft(&["cable", "degrade", "leaf1:4", "--width", "1x", "--speed", "EDR"])?;
        fabric.wait("the link back", |state| state["links"]["down"] == 0)?;
        let found = discovered(&fabric, "node1", &[])?;
        ensure!(found.matches("1xEDR").count() == 2, "{found}");
        Ok(())
    });
    table.finish();
}

/// The fabric without a subnet manager, and its nodes and ports in `weft status --json`.
#[test]
fn status_lists_nodes_and_ports() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("status of a fabric");
    let waits = [&["--no-sm", "--no-wait"][..], &["--no-sm"], &["--no-wait"]];
    for words in waits {
        table.case(&format!("up {}", words.join(" ")), || {
            let up = lab.weft(lab.client(), Who::Root, &[], &[&["up", "--replace", "--star", "2"], words].concat())?;
            let told = up.text.contains("No subnet manager runs yet");
            ensure!(up.ok() && told == words.contains(&"--no-sm"), "{}", up.report());
            Ok(())
        });
    }
    let fabric = Fabric::up(&lab, &["--replace", "--star", "2"]).expect("a fabric");
    let steps: &[(&[&str], [&str; 2], bool)] = &[
        (&["topology"], ["init", "init"], true),
        (&["cable", "cut", "node1:1"], ["cut", "init"], true),
        (&["node", "off", "node2"], ["cut", "down"], false),
    ];
    for (words, states, powered) in steps {
        table.case(&format!("after weft {}", words.join(" ")), || {
            fabric.weft(words)?;
            let status = fabric.status()?;
            let ports = |end: &str| status["cables"].as_array().and_then(|all| all.iter().find(|one| one["a"] == end));
            for (node, state) in [1, 2].into_iter().zip(states) {
                let cable = ports(&format!("node{node}:1")).with_context(|| format!("a cable in {status}"))?;
                let far = format!("switch1:{node}");
                ensure!(cable["b"] == far && cable["state"] == *state, "{state} is wanted of node{node}: {status}");
                let speed = (*state == "init").then_some("NDR");
                ensure!(cable["speed"].as_str() == speed, "speed {speed:?} is wanted of node{node}: {status}");
            }
            let nodes = status["nodes"].as_array().context("nodes")?;
            let find = |name: &str| nodes.iter().find(|node| node["name"] == name).with_context(|| format!("{status}"));
            let (switch, host) = (find("switch1")?, find("node2")?);
            ensure!(nodes.len() == 3 && switch["kind"] == "switch" && switch["ports"] == 2, "{status}");
            ensure!(host["kind"] == "CA" && host["ports"] == 1 && host["host"] == "node2", "{status}");
            ensure!(host["powered"] == *powered && switch["powered"] == true, "{status}");
            ensure!(host["guid"].as_str().is_some_and(|guid| guid.len() == 18), "{status}");
            Ok(())
        });
    }
    table.finish();
}

/// Permissions, and the messages for mistakes.
#[test]
fn mistakes_are_explained() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("mistakes");
    let side = lab.client();
    let mistaken = lab.file("mistaken.toml");
    std::fs::write(&mistaken, "[[switch]]\nname = \"s\"\nprots = 4\n").expect("a file");
    let mistaken = mistaken.display().to_string();
    let cases: &[(Who, &[&str], &str)] = &[
        (Who::Root, &["down"], "no fabric is up"),
        (Who::Root, &["topology"], "no fabric is up"),
        (Who::Root, &["up"], "say what to bring up"),
        (Who::Root, &["up", "/nowhere"], "cannot read /nowhere"),
        (Who::Root, &["up", &mistaken], "line 3: unknown field `prots`"),
        (Who::Root, &["up", "--fat-tree", "35,2"], "take an even radix"),
        (Who::Root, &["up", "--pair", "--star", "3"], "cannot be used with"),
        (Who::Root, &["up", "--no-sm", "--star", "3"], ""),
        (
            Who::Root,
            &["up", "--replace", "--star", "2", "--sm-host", "node7"],
            "unknown host `node7`; hosts are node1..node2",
        ),
        (Who::Root, &["up", "--replace", "--pair", "--sm-config", "/nowhere.conf"], "cannot read /nowhere.conf"),
        (Who::Root, &["up", "--pair"], "a fabric is up already (star 3)"),
        (Who::Ordinary, &["down"], "may not change the fabric"),
        (Who::Ordinary, &["up", "--pair"], "may not bring up a fabric"),
        (Who::Ordinary, &["topology"], ""),
        (Who::Ordinary, &["status"], ""),
        (Who::Root, &["cable", "cut", "node9:1"], "no node \"node9\""),
        (Who::Root, &["cable", "cut", "node1:2"], "its ports are 1 to 1"),
        (Who::Root, &["cable", "cut", "node1"], "NODE:PORT"),
        (Who::Root, &["cable", "cut", "node1:1", "node2:1"], "does not lead to node2:1 but to switch1:1"),
        (Who::Root, &["cable", "join", "node1:1"], "no cable was cut"),
        (Who::Root, &["cable", "join", "node1:1", "node2:1"], "has a cable already"),
        (Who::Root, &["cable", "degrade", "node1:1", "--speed", "WARP"], "unknown speed `WARP`"),
        (Who::Root, &["cable", "errors", "node1:1", "--ppm", "2000000"], "choose 0 to 1000000"),
        (Who::Root, &["node", "off", "nobody"], "no node"),
        (Who::Root, &["run", "--host", "nobody", "--", "true"], "unknown host `nobody`"),
        (Who::Root, &["up", "--replace", "--no-sm", "--pair"], ""),
        (Who::Root, &["down"], ""),
        (Who::Root, &["run", "--host", "node1", "--", "true"], "no host"),
    ];
    for (who, words, expected) in cases {
        if expected.contains("may not") && !lab.has_two_users() {
            skip::skip(&words.join(" "), ONE_USER);
            continue;
        }
        table.case(&words.join(" "), || {
            let ended = lab.weft(side, *who, &[], words)?;
            ensure!(ended.ok() == expected.is_empty() && ended.text.contains(expected), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}
