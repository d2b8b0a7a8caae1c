//! Registered pages that a peer process of the same host copies into directly: the program notices nothing, whatever
//! its memory is and however it uses it.

use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, skip};

const HEADER: &str = "/usr/include/infiniband/verbs.h";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page_sharing");

/// `WEFT_SHARE`, and the fate of plain memory.
const MODES: [(&str, &str); 3] = [("auto", "shared"), ("on", "shared"), ("off", "private")];

/// Maximum bytes copied to share or restore one region: half of the budget (`engine/share/budget.rs`).
const REGION_BYTES_MAX: u64 = 16 << 20;

/// Maximum bytes copied by `large.c`: three large regions there and back, a small one, and its peer's buffer.
const BYTES_MAX: u64 = 3 * 2 * REGION_BYTES_MAX + (16 << 20);

/// Compiles one of the programs.
fn program(lab: &Lab, name: &str) -> PathBuf {
    let (program, source) = (lab.file(name), format!("{SOURCES}/{name}.c"));
    let mut cc = Command::new("cc");
    // Each program uses only some of the common functions.
    cc.args(["-Wall", "-Werror", "-Wno-unused-function", "-O1", "-o"]).arg(&program).arg(&source);
    let status = cc.args(["-libverbs", "-lpthread"]).status().expect("cc runs");
    assert!(status.success(), "{source} does not compile");
    program
}

/// Returns the bytes that each line of the trace reports as copied, to share pages or to restore them.
fn copied(trace: &str) -> Vec<u64> {
    let words = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("copied=")?.parse().ok());
    trace.lines().filter_map(words).collect()
}

#[test]
fn the_work_on_a_large_region_is_bounded() {
    if !skip::have("page_sharing of large regions", &["ip", "cc", HEADER]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = program(&lab, "large");
    let mut table = Table::new("page sharing, large regions");
    table.case("bytes copied", || {
        let device = lab.device(lab.client())?;
        let program = program.to_str().context("the lab's path is not UTF-8")?;
        let env = [("WEFT_TRACE", "stderr,share")];
        let ended = lab.run(lab.client(), Who::Root, &env, &[program, &device.name, &device.gid_v4.to_string()])?;
        let ended = ended.success()?;
        ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
        let copied = copied(&ended.text);
        ensure!(copied.iter().all(|&bytes| bytes <= REGION_BYTES_MAX), "{copied:?}: {}", ended.report());
        let all: u64 = copied.iter().sum();
        ensure!((1..=BYTES_MAX).contains(&all), "{copied:?}: {}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn shared_pages_are_the_programs_own() {
    if !skip::have("page_sharing", &["ip", "cc", HEADER]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = program(&lab, "owner");
    let mut table = Table::new("page sharing");
    for who in [Who::Root, Who::Ordinary] {
        // The daemon is root's, and an ordinary user cannot see it from the user namespace of `weft run`.
        let device = lab.device(lab.client()).expect("a device");
        for (mode, fate) in MODES {
            table.case(&format!("{who:?}, WEFT_SHARE={mode}"), || {
                let program = program.to_str().context("the lab's path is not UTF-8")?;
                let words = [program, &device.name, &device.gid_v4.to_string(), fate];
                let ended = lab.run(lab.client(), who, &[("WEFT_SHARE", mode)], &words)?.success()?;
                ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
                Ok(())
            });
        }
        // Packets need no shared pages.
        table.case(&format!("{who:?}, WEFT_LOOPBACK=wire"), || {
            let program = program.to_str().context("the lab's path is not UTF-8")?;
            let words = [program, &device.name, &device.gid_v4.to_string(), "private"];
            let ended = lab.run(lab.client(), who, &[("WEFT_LOOPBACK", "wire")], &words)?.success()?;
            ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
            Ok(())
        });
    }
    table.case("a word that is none", || {
        let device = lab.device(lab.client())?;
        let env = [("WEFT_SHARE", "perhaps"), ("WEFT_LOG", "stderr")];
        let ended = lab.run(lab.client(), Who::Root, &env, &["ibv_devinfo", "-d", &device.name])?;
        ensure!(!ended.ok() && ended.text.contains("WEFT_SHARE"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}
