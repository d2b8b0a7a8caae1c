//! RoCE v1: for those who may open packet sockets the GID table holds rows of both versions, and what goes by a row of
//! version 1 are frames behind ethertype 0x8915, between namespaces and within one. For everybody else there are none.

use anyhow::{Context, Result, ensure};
use weft_interop::{Lab, Pair, Shape, Table, Who, skip};

/// Row of the first GID for version 1.
const ROW: &str = "32";

const TOOLS: &[&str] = &["ip", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "tshark"];

#[test]
fn one_namespace() {
    programs("RoCE v1, one namespace", Shape::One);
}

#[test]
fn two_namespaces() {
    programs("RoCE v1, two namespaces", Shape::Two { mtu: 1500 });
}

fn programs(name: &'static str, shape: Shape) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab");
    let mut table = Table::new(name);
    table.case("rows of both versions for root alone", || rows(&lab));
    for (tool, options) in [
        ("ibv_rc_pingpong", "-c -n 200"),
        ("ibv_rc_pingpong", "-e -n 200 -s 65536"),
        ("ibv_uc_pingpong", "-n 200"),
        ("ibv_ud_pingpong", "-n 200 -s 1000"),
        ("ibv_srq_pingpong", "-c -n 200"),
    ] {
        table.case(&format!("{tool} {options}"), || {
            Pair::new(tool, &format!("-g {ROW} {options}")).devices(&lab)?.succeed(&lab).map(drop)
        });
    }
    for (tool, options) in [
        ("ib_write_bw", "-s 65536 -n 200"),
        ("ib_read_lat", "-s 8 -n 200"),
        ("ib_atomic_bw", "-n 200"),
        ("ib_send_bw", "-c UD -s 1024 -n 200"),
    ] {
        table.case(&format!("{tool} {options}"), || {
            Pair::new(tool, &format!("-x {ROW} {options}")).devices(&lab)?.succeed(&lab).map(drop)
        });
    }
    table.case("loss", || {
        let pair = Pair::new("ibv_rc_pingpong", &format!("-g {ROW} -c -n 300")).devices(&lab)?;
        pair.env("WEFT_FAULT", "loss=2%,reorder=1%,seed=5").succeed(&lab).map(drop)
    });
    table.case("a capture shows frames of version 1", || capture(&lab));
    table.finish();
}

/// What the table says to whom.
fn rows(lab: &Lab) -> Result<()> {
    for who in Who::BOTH {
        let ended = lab.run(lab.server(), who, &[], &["ibv_devinfo", "-v"])?.success()?;
        let (v1, v2) = (ended.text.contains("RoCE v1"), ended.text.contains("RoCE v2"));
        ensure!(v2, "{who:?} has no RoCE v2:\n{}", ended.text);
        ensure!(v1 == (who == Who::Root), "{who:?}:\n{}", ended.text);
        let device = &lab.device(lab.server())?.name;
        let path = format!("/sys/class/infiniband/{device}/ports/1/gid_attrs/types/{ROW}");
        let told = lab.run(lab.server(), who, &[], &["cat", &path])?;
        ensure!(told.text.contains("IB/RoCE v1") == v1, "{path} for {who:?}: {}", told.text);
    }
    Ok(())
}

fn capture(lab: &Lab) -> Result<()> {
    let file = lab.file("v1.pcapng");
    let file = file.to_str().context("a path")?;
    let pair = Pair::new("ibv_rc_pingpong", &format!("-g {ROW} -n 20")).devices(lab)?;
    pair.env("WEFT_PCAP", &format!("{file}.%p")).succeed(lab)?;
    let folder = std::path::Path::new(file).parent().context("a folder")?;
    let mut captures = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let path = path.to_str().context("a path")?;
        if !path.starts_with(file) {
            continue;
        }
        captures += 1;
        let shown = std::process::Command::new("tshark").args(["-r", path]).output()?;
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        ensure!(text.contains("RRoCE") || text.contains("RoCE") || text.contains("InfiniBand"), "{text}");
        ensure!(!text.contains("UDP") && !text.contains("Malformed"), "{text}");
    }
    ensure!(captures == 2, "{captures} captures");
    Ok(())
}
