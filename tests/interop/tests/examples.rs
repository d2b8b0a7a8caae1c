//! The programs of `examples/` compile, run, and print what they should.

use anyhow::{Context, Result, ensure};
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, product, skip};

/// Debian's Python, which has pyverbs (python3-pyverbs).
const PYTHON: &str = "/usr/bin/python3";

fn runs(lab: &Lab, command: &[&str], printed: &str) -> Result<()> {
    for who in Who::BOTH {
        let ended = lab.run(lab.client(), who, &[], command)?.success()?;
        ensure!(ended.text.contains(printed), "{}", ended.report());
    }
    Ok(())
}

#[test]
fn examples_run() {
    if !skip::have("examples", &["ip", "cc", "/usr/include/infiniband/verbs.h", PYTHON]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("examples");
    let source = |name: &str| -> Result<String> {
        let path = lab.file(name);
        std::fs::copy(product::root().join("examples").join(name), &path)?;
        Ok(path.to_str().context("the lab's path is not UTF-8")?.to_owned())
    };
    table.case("write.c", || {
        let program = lab.file("write");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source("write.c")?).arg("-libverbs");
        ensure!(cc.status().context("cannot run cc")?.success(), "write.c does not compile");
        runs(
            &lab,
            &[program.to_str().context("the lab's path is not UTF-8")?],
            "\"written by RDMA\", 16 bytes, immediate 42",
        )
    });
    table.case("datagram.py", || runs(&lab, &[PYTHON, &source("datagram.py")?], "b'a datagram by pyverbs'"));
    table.finish();
}
