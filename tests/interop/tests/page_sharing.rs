//! Registered pages that a peer process of the same host copies into by itself: the program notices nothing, whatever
//! memory it is and whatever it does with it.

use anyhow::{Context, ensure};
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, skip};

const HEADER: &str = "/usr/include/infiniband/verbs.h";
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page_sharing/owner.c");

/// `WEFT_SHARE`, and what becomes of plain memory.
const MODES: [(&str, &str); 3] = [("auto", "shared"), ("on", "shared"), ("off", "private")];

#[test]
fn shared_pages_are_the_programs_own() {
    if !skip::have("page_sharing", &["ip", "cc", HEADER]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = lab.file("owner");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).arg(SOURCE);
    let status = cc.args(["-libverbs", "-lpthread"]).status().expect("cc runs");
    assert!(status.success(), "{SOURCE} does not compile");
    let mut table = Table::new("page sharing");
    for who in [Who::Root, Who::Ordinary] {
        // The daemon is root's, which an ordinary user in the user namespace of `weft run` cannot see for himself.
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
        // Packets need nobody's pages.
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
