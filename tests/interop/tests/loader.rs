//! The libraries that a program gets under `weft run`, even if it has copies of its own.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use weft_interop::{Ended, Lab, Shape, Table, Who, product, skip};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loader");
const NEEDED: &[&str] = &["ip", "cc", "rdma", "/usr/include/infiniband/verbs.h"];

#[test]
fn programs_get_our_libraries() {
    if !skip::have("which libraries programs get", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("loader");
    for (kind, flag) in [("RUNPATH", "-Wl,--enable-new-dtags"), ("RPATH", "-Wl,--disable-new-dtags")] {
        let program = with_a_copy(&lab, kind, flag).expect("copies.c compiles");
        for who in Who::BOTH {
            table.case(&format!("{who:?}: a copy by {kind}"), || {
                let said = run(&lab, who, &["-v"], &program)?.text;
                ensure!(said.contains("\n1 devices by ") || said.starts_with("1 devices by "), "{said}");
                ensure!(said.contains("loads libibverbs.so.1 from "), "-v does not tell of the copy: {said}");
                Ok(())
            });
        }
    }
    table.case("a statically linked program", || {
        let program = compile(&lab.file("static"), "static", &["-static"])?;
        let said = run(&lab, Who::Ordinary, &[], &program)?.text;
        ensure!(said.contains("it is statically linked") && said.contains("done"), "{said}");
        Ok(())
    });
    table.case("no mount namespace: said once, with the other way and what lifts it", || {
        let program = lab.file("RUNPATH/program");
        let first = run_without_namespaces(&lab, &program)?;
        ensure!(first.contains("by LD_AUDIT and LD_PRELOAD instead") && first.contains("in a chroot"), "{first}");
        ensure!(first.contains("1 devices by "), "{first}");
        let second = run_without_namespaces(&lab, &program)?;
        ensure!(!second.contains("no private mount namespace") && second.contains("1 devices by "), "{second}");
        Ok(())
    });
    table.case("a copy by RPATH without a mount namespace", || {
        let said = run_without_namespaces(&lab, &lab.file("RPATH/program"))?;
        ensure!(said.starts_with("1 devices by "), "{said}");
        Ok(())
    });
    table.case("the command on another mount than /", || {
        lab.device(lab.client())?;
        let said = from_another_mount(&lab)?.success()?.text;
        ensure!(said.contains("link "), "`rdma` is not ours there: {said}");
        Ok(())
    });
    table.finish();
}

fn run(lab: &Lab, who: Who, options: &[&str], program: &Path) -> Result<Ended> {
    let program = program.to_str().context("a path in UTF-8")?;
    lab.weft(lab.client(), who, &[], &[&["run"], options, &["--", program]].concat())?.success()
}

/// Runs in a chroot, where the kernel makes no user namespaces.
fn run_without_namespaces(lab: &Lab, program: &Path) -> Result<String> {
    let dir = program.ancestors().nth(2).context("the lab has a directory")?;
    let weft = product::weft()?;
    let command = format!("env TMPDIR={} {} run -- {}", dir.display(), weft.display(), program.display());
    let words = lab.in_a_chroot(&command)?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ended = lab.start_bare(lab.client(), Who::Root, &words)?.wait(std::time::Duration::from_secs(60));
    Ok(ended.success()?.text)
}

/// Builds a program beside a copy of the system's library, found by its own search path.
fn with_a_copy(lab: &Lab, kind: &str, flag: &str) -> Result<PathBuf> {
    let dir = lab.file(kind);
    std::fs::create_dir_all(dir.join("lib"))?;
    let system =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(|dir| Path::new(dir).join("libibverbs.so.1"));
    let system = system.iter().find(|file| file.exists()).context("no libibverbs.so.1 of the system")?;
    std::fs::copy(system, dir.join("lib/libibverbs.so.1"))?;
    compile(&dir.join("program"), "copies", &[flag, "-Wl,-rpath,$ORIGIN/lib", "-libverbs"])
}

fn compile(program: &Path, source: &str, flags: &[&str]) -> Result<PathBuf> {
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(program).arg(format!("{SOURCES}/{source}.c")).args(flags);
    ensure!(cc.status().context("cc runs")?.success(), "{source}.c does not compile");
    Ok(program.to_owned())
}

/// Copies the product to a file system in a mount namespace of its own, and runs it there. The file system disappears
/// when `weft run` leaves that namespace.
fn from_another_mount(lab: &Lab) -> Result<Ended> {
    let (weft, mount) = (product::weft()?, lab.file("mount"));
    std::fs::create_dir_all(&mount)?;
    let script = format!(
        "mount -t tmpfs weft {mount} && mkdir {mount}/w && cd {from} && cp -a weft rdma *.so {mount}/w && \
         exec {mount}/w/weft run -- rdma link show",
        mount = mount.display(),
        from = weft.parent().context("the command has a directory")?.display()
    );
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script];
    Ok(lab.start_bare(lab.client(), Who::Root, &words)?.wait(std::time::Duration::from_secs(60)))
}
