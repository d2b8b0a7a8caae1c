//! README's sessions work as README says, pasted into a shell unchanged and without pauses.
//!
//! `WEFT_LONG=1` pastes each of them ten times in a row.

use anyhow::{Result, ensure};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use weft_interop::{Lab, Shape, Table, Who, product, skip};

/// Time limit of one paste.
const LIMIT: Duration = Duration::from_secs(240);

/// Returns the `sh` blocks below a heading.
fn session(readme: &str, heading: &str) -> String {
    let section = readme.split("\n## ").find(|section| section.starts_with(heading)).unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect()
}

fn turns() -> usize {
    if std::env::var_os("WEFT_LONG").is_some() { 10 } else { 1 }
}

/// Feeds the session to a shell's standard input, line by line like a terminal; the shell names each failing line.
fn paste(lab: &Lab, who: Who, weft: &Path, dir: &Path, session: &str) -> Result<()> {
    let pasted = dir.join("pasted");
    std::fs::write(&pasted, format!("trap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n{session}"))?;
    std::fs::set_permissions(&pasted, Permissions::from_mode(0o644))?;
    let (bin, dir) = (weft.parent().unwrap_or(weft).display(), dir.display());
    let shell = format!("cd {dir} && PATH={bin}:$PATH exec bash --norc --noprofile < pasted");
    let ended = lab.start_bare(lab.client(), who, &["bash", "-c", &shell])?.wait(LIMIT);
    ensure!(ended.ok() && !ended.text.contains("FAILED:"), "{}\n{}", ended.report(), ended.text);
    Ok(())
}

fn sessions() -> [(&'static str, String); 2] {
    let readme = std::fs::read_to_string(product::root().join("README.md")).expect("README.md");
    ["A session", "An InfiniBand fabric"].map(|heading| {
        let session = session(&readme, heading);
        assert!(session.contains("weft run --detach"), "README shows no session below {heading}:\n{session}");
        (heading, session)
    })
}

const TOOLS: &[&str] = &["ip", "bash", "ibv_rc_pingpong", "ib_write_bw", "rping", "ibnetdiscover"];

#[test]
fn sessions_run_as_they_are_pasted() {
    if !skip::have("README's sessions", TOOLS) {
        return;
    }
    let weft = product::weft().expect("the product");
    let mut table = Table::new("README's sessions");
    for (heading, session) in sessions() {
        for who in Who::BOTH {
            let lab = Lab::new(Shape::Loopback).expect("a lab");
            let dir = lab.file("work");
            std::fs::create_dir_all(&dir).expect("a directory");
            std::fs::set_permissions(&dir, Permissions::from_mode(0o1777)).expect("its mode");
            for turn in 1..=turns() {
                table.case(&format!("{heading}, {who:?}, turn {turn}"), || paste(&lab, who, &weft, &dir, &session));
            }
        }
    }
    table.finish();
}

/// A clone in a directory like /root, which only its owner can enter.
#[test]
fn sessions_run_below_a_closed_directory() {
    if !skip::have("README's sessions in a closed directory", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let closed = lab.file("closed");
    let copy = closed.join("release");
    std::fs::create_dir_all(&copy).expect("a directory");
    let from = product::weft().expect("the product");
    let from = from.parent().expect("a directory");
    let files = ["weft", "libibverbs.so", "librdmacm.so", "libibumad.so", "rdma"].map(|name| from.join(name));
    let copied = std::process::Command::new("cp").arg("-a").args(files).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "the product is copied");
    std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("its mode");
    let mut table = Table::new("README's sessions in a closed directory");
    for (heading, session) in sessions() {
        for turn in 1..=turns() {
            table.case(&format!("{heading}, turn {turn}"), || {
                paste(&lab, Who::Root, &copy.join("weft"), &closed, &session)
            });
        }
    }
    table.finish();
}
