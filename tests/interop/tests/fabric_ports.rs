//! Adapters with two ports, each in a subnet of its own, as dual-rail fabrics are built: every program on either port,
//! by LID and by GID, and connections by the address of either.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, skip};

const TOOLS: &[&str] = &["ip", "opensm", "ibstat", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "rping"];

/// Two rails. The ports have the addresses 10.0.0.1 to 10.0.0.4.
const TOPOLOGY: &str = r#"
cables = ["node1:1 - rail1", "node2:1 - rail1", "node1:2 - rail2", "node2:2 - rail2"]
switch = [{ name = "rail1", ports = 4 }, { name = "rail2", ports = 4 }]
host = [{ name = "node", count = 2, ports = 2 }]
"#;

/// Programs to run on a port, with their option for the port.
const EXCHANGES: &[&str] = &[
    "ibv_rc_pingpong -c -i",
    "ibv_rc_pingpong -c -g 0 -i",
    "ibv_ud_pingpong -c -i",
    "ibv_uc_pingpong -c -i",
    "ibv_srq_pingpong -c -i",
    "ib_write_bw -n 200 -d weft0 -i",
    "ib_send_lat -n 200 -c UD -d weft0 -i",
];

#[test]
fn programs_on_either_port() {
    if !skip::have("programs_on_either_port", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let file = lab.file("rails.toml");
    std::fs::write(&file, TOPOLOGY).expect("a topology");
    let fabric = Fabric::up(&lab, &[&file.display().to_string()]).expect("a fabric");
    let managers = [1, 2].map(|port| manage(&lab, &fabric, port).expect("a subnet manager"));
    let mut table = Table::new("adapters with two ports");
    for port in [1, 2] {
        for line in EXCHANGES {
            table.case(&format!("{line} {port}"), || exchange(&lab, &fabric, &format!("{line} {port}")));
        }
    }
    for address in ["10.0.0.1", "10.0.0.2"] {
        table.case(&format!("rping to {address}"), || connect(&lab, &fabric, address));
    }
    table.case("each port tells of itself", || {
        let text = fabric.run("node2", &["ibv_devinfo", "-d", "weft0"])?.success()?.text;
        let lids: Vec<&str> = text.lines().filter(|line| line.contains("sm_lid:")).collect();
        ensure!(text.contains("phys_port_cnt:\t\t\t2") && lids.len() == 2, "{text}");
        ensure!(text.matches("PORT_ACTIVE").count() == 2, "{text}");
        Ok(())
    });
    managers.into_iter().for_each(|manager| drop(manager.kill()));
    table.finish();
}

/// Starts a subnet manager on a port of the first host: Debian's on the first, Weft's on the second.
fn manage(lab: &Lab, fabric: &Fabric<'_>, port: usize) -> Result<Proc> {
    let guids = fabric.run("node1", &["ibstat", "-p"])?.success()?.text;
    let guid = guids.lines().nth(port - 1).context("a port's GUID")?.to_owned();
    let weft = weft_interop::product::weft()?;
    let program: &[&str] = if port == 1 { &["opensm"] } else { &[weft.to_str().context("a path")?, "sm"] };
    let log = lab.file(&format!("manager{port}.log")).display().to_string();
    let cache = lab.file(&format!("manager{port}.cache"));
    let _ = std::fs::create_dir(&cache);
    let words = [program, &["-g", &guid, "-f", &log]].concat();
    let manager =
        lab.start_line(&fabric.words("node1", &words)?, &[("OSM_CACHE_DIR", &cache.display().to_string())])?;
    fabric.wait("the port's subnet up", |state| state["links"]["active"] == 2 * port)?;
    Ok(manager)
}

fn exchange(lab: &Lab, fabric: &Fabric<'_>, line: &str) -> Result<()> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let mut server = lab.start_line(&fabric.words("node1", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    words.push("node1");
    lab.start_line(&fabric.words("node2", &words)?, &[])?.wait(Duration::from_secs(30)).success()?;
    server.wait(Duration::from_secs(10)).success().map(drop)
}

/// Connects without naming a port to the client: it takes the port that leads to the address.
fn connect(lab: &Lab, fabric: &Fabric<'_>, address: &str) -> Result<()> {
    let server = lab.start_line(&fabric.words("node1", &["rping", "-s", "-a", address, "-C", "3"])?, &[])?;
    let words = fabric.words("node2", &["rping", "-c", "-a", address, "-C", "3", "-v"])?;
    for _ in 0..50 {
        let client = lab.start_line(&words, &[])?.wait(Duration::from_secs(30));
        if client.ok() {
            ensure!(client.text.contains("rdma-ping-2"), "{}", client.report());
            return server.wait(Duration::from_secs(10)).success().map(drop);
        }
        // A server that does not listen yet rejects the request.
        ensure!(client.text.contains("REJECTED") || client.text.contains("connect error"), "{}", client.report());
        std::thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("the server never listened:\n{}", server.kill().report())
}
