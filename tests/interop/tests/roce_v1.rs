//! RoCE v1: for users who may open packet sockets the GID table has entries of both versions, and traffic with a
//! version 1 entry uses frames with ethertype 0x8915, between namespaces and within one. For other users it has no such
//! entries.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::{Lab, Pair, Shape, Table, Who, skip};

/// Index of the first GID for version 1.
const ROW: &str = "32";

/// Time limit for a server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

const TOOLS: &[&str] = &["ip", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "rping", "tshark"];

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
    table.case("a capture shows frames of version 1", || {
        let pair = Pair::new("ibv_rc_pingpong", &format!("-g {ROW} -n 20")).devices(&lab)?;
        captured(&lab, "pingpong", |file| pair.env("WEFT_PCAP", file).succeed(&lab).map(drop))
    });
    table.case("connections start with version 1 where that is the device's default", || connected(&lab));
    table.finish();
}

/// Checks the GID table's entries for each user.
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

/// Runs `weft cm`, and then a program that connects as usual.
fn connected(lab: &Lab) -> Result<()> {
    let mode = |mode| -> Result<()> {
        for side in lab.sides() {
            let device = &lab.device(side)?.name;
            lab.weft(side, Who::Root, &[], &["cm", device, "default_roce_mode", mode])?.success()?;
        }
        Ok(())
    };
    mode("v1")?;
    let done = captured(lab, "rping", |file| {
        let env = [("WEFT_PCAP", file)];
        let address = lab.server().v4;
        let server = lab.start(lab.server(), Who::Root, &env, &["rping", "-s", "-a", address, "-v", "-C", "5"])?;
        let listens = |_: &weft_interop::Proc| {
            let ids = lab.weft(lab.server(), Who::Root, &[], &["resource", "show", "cm_id"]);
            ids.is_ok_and(|ids| ids.text.contains("state LISTEN"))
        };
        let mut server = server;
        ensure!(server.wait_until(LISTENS_WITHIN, listens), "the server does not listen");
        let client = lab.run(lab.client(), Who::Root, &env, &["rping", "-c", "-a", address, "-v", "-C", "5"])?;
        let server = server.wait(Duration::from_secs(10)).success()?;
        client.success()?;
        ensure!(server.text.contains("server ping data: rdma-ping-4"), "{}", server.text);
        Ok(())
    });
    mode("v2")?;
    done
}

/// Checks the traffic of `run` as tshark decodes it: no UDP, and frames of RoCE v1 in two captures.
fn captured(lab: &Lab, name: &str, run: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let file = lab.file(&format!("{name}.pcapng"));
    let file = file.to_str().context("a path")?;
    run(&format!("{file}.%p"))?;
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
        ensure!(text.contains(" RoCE "), "{text}");
        ensure!(!text.contains("RRoCE") && !text.contains("Malformed"), "{text}");
    }
    ensure!(captures == 2, "{captures} captures");
    Ok(())
}
