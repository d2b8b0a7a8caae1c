//! The README's session does what the README says.

use std::time::Duration;
use weft_interop::{Lab, Shape, Who, product, skip};

/// The commands of the first `console` block: lines that begin with `$ `, continued ones included.
fn session(readme: &str) -> String {
    let block = readme.split("```console").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_session_runs() {
    if !skip::have("the_session_runs", &["ip", "ibv_rc_pingpong", "ib_write_bw", "rping"]) {
        return;
    }
    let readme = std::fs::read_to_string(product::root().join("README.md")).expect("README.md");
    let script = session(&readme);
    assert!(script.contains("weft run"), "the README shows no session:\n{script}");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let weft = product::weft().expect("the product");
        let dir = weft.parent().expect("a directory").display();
        // A command in the background needs its moment before the next one asks for it.
        let script = script.replace(" &\n", " & sleep 1\n");
        let script = format!("set -e\nPATH={dir}:$PATH\n{script}\nwait");
        let ended = lab.start_bare(lab.client(), who, &["sh", "-c", &script]).expect("starts");
        let ended = ended.wait(Duration::from_secs(60));
        assert!(ended.ok(), "{who:?}: {}", ended.report());
    }
}
