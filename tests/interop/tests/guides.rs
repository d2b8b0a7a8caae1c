//! Commands that guides for administrators show on a machine with adapters, run on one without.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weft_interop::{Fabric, Lab, Shape, Table, Who, skip};

#[test]
fn ports_and_devices_are_shown_as_guides_show_them() {
    if !skip::have("ports_and_devices_are_shown_as_guides_show_them", &["ip", "rdma", "ibstat"]) {
        return;
    }
    let mut table = Table::new("guides");
    table.case("Soft-RoCE: rdma link add, rdma link show, ibstat", || soft_roce(Who::Root));
    table.case("the same by an ordinary user", || soft_roce(Who::Ordinary));
    table.case("InfiniBand: rdma link, rdma dev", infiniband);
    table.case("adapters of a host are renamed under running programs", renamed);
    table.finish();
}

#[test]
fn adapters_have_the_names_and_guids_of_the_guides() {
    let tools = ["ip", "ibstat", "ibv_devinfo", "ibping", "ibv_devices"];
    if !skip::have("adapters_have_the_names_and_guids_of_the_guides", &tools) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--pair", "--adapter", "mlx4", "--rails", "2"]).expect("a fabric");
    let run = |host: &str, words: &[&str]| Ok::<_, anyhow::Error>(fabric.run(host, words)?.success()?.text);
    let mut table = Table::new("guides: adapters");
    table.case("ibv_devinfo -d mlx4_0, ibv_devices", || {
        let info = run("node1", &["ibv_devinfo", "-d", "mlx4_0"])?;
        ensure!(info.starts_with("hca_id:\tmlx4_0\n"), "{info}");
        let devices = run("node1", &["ibv_devices"])?;
        ensure!(["mlx4_0", "mlx4_1"].iter().all(|name| devices.contains(name)), "{devices}");
        Ok(())
    });
    table.case("ibping -G with the Node GUID of ibstat", || {
        let stat = run("node2", &["ibstat", "mlx4_0"])?;
        ensure!(stat.starts_with("CA 'mlx4_0'\n"), "{stat}");
        let guid = stat.lines().find_map(|line| line.trim().strip_prefix("Node GUID: "));
        let guid = guid.with_context(|| format!("no Node GUID in\n{stat}"))?.to_owned();
        let line = fabric.words("node2", &["ibping", "-S", "-C", "mlx4_0", "-P", "1"])?;
        let server = lab.start_line(&line, &[])?;
        // A request that comes before the server's agent finds none.
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let ended = fabric.run("node1", &["ibping", "-c", "3", "-C", "mlx4_0", "-P", "1", "-G", &guid])?;
            if ended.text.contains("3 packets transmitted, 3 received, 0% packet loss") {
                break;
            }
            ensure!(Instant::now() < until, "{}", ended.report());
        }
        server.kill();
        Ok(())
    });
    table.finish();
}

/// The adapter of Red Hat's guide (5.2 and 7.1): port 1 InfiniBand, port 2 Ethernet.
const TWO_LINK_LAYERS: &str = r#"
cables = ["node1:1 - node2:1"]

[[host]]
name = "node1"
adapters = ["mlx4_0"]
guid = "0xf4521403007be130"
system-image-guid = "0xf4521403007be133"
port-guids = ["0xf4521403007be131", "0xf65214fffe7be132"]
ports = 2
links = ["4xFDR", "Ethernet"]

[[host]]
name = "node2"
adapters = ["mlx4_0"]
"#;

#[test]
fn a_port_of_an_adapter_may_be_ethernet() {
    let tools = ["ip", "ibstat", "ibv_devinfo", "rdma", "ibstatus"];
    if !skip::have("a_port_of_an_adapter_may_be_ethernet", &tools) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let file = lab.file("two-link-layers.toml");
    std::fs::write(&file, TWO_LINK_LAYERS).expect("a file");
    let fabric = Fabric::managed(&lab, &[&file.display().to_string()]).expect("a fabric");
    let run = |words: &[&str]| Ok::<_, anyhow::Error>(fabric.run("node1", words)?.success()?.text);
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut table = Table::new("guides: link layers");
    table.case("ibstat -d mlx4_0", || {
        let text = squeezed(&run(&["ibstat", "mlx4_0"])?);
        let first = "Rate: 56 Base lid: 1 LMC: 0 SM lid: 1";
        let second = "Port 2: State: Down Physical state: Disabled Rate: 10 Base lid: 0 LMC: 0 SM lid: 0 \
                      Capability mask: 0x04010000 Port GUID: 0xf65214fffe7be132 Link layer: Ethernet";
        ensure!(text.contains("Port 1: State: Active") && text.contains(first) && text.contains(second), "{text}");
        Ok(())
    });
    table.case("ibv_devinfo, ibstatus, rdma link", || {
        let text = squeezed(&run(&["ibv_devinfo", "-d", "mlx4_0"])?);
        let second = "port: 2 state: PORT_DOWN (1) max_mtu: 4096 (5) active_mtu: 4096 (5) sm_lid: 0 port_lid: 0 \
                      port_lmc: 0x00 link_layer: Ethernet";
        ensure!(text.contains("link_layer: InfiniBand") && text.contains(second), "{text}");
        let text = squeezed(&run(&["ibstatus"])?);
        ensure!(text.contains("phys state: 3: Disabled rate: 10 Gb/sec (4X SDR) link_layer: Ethernet"), "{text}");
        let text = run(&["rdma", "link"])?;
        ensure!(text.contains("mlx4_0/2") && text.contains("state DOWN physical_state DISABLED"), "{text}");
        Ok(())
    });
    table.case("the port has no IPoIB interface and no name", || {
        let text = run(&["sh", "-c", "ls /sys/class/net; cat /etc/hosts"])?;
        ensure!(text.contains("ib0") && !text.contains("ib1"), "{text}");
        Ok(())
    });
    table.finish();
}

fn renamed() -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let fabric = Fabric::up(&lab, &["--star", "2"])?;
    let script = "set -e; rdma dev set weft0 name mlx4_0; ls /sys/class/infiniband; \
                  cat /sys/class/infiniband/mlx4_0/ports/1/state; ibstat -l";
    let shown = fabric.run("node1", &["sh", "-c", script])?.success()?.text;
    ensure!(shown == "mlx4_0\n2: INIT\nmlx4_0\n", "{shown}");
    let other = fabric.run("node2", &["ibstat", "-l"])?.success()?.text;
    ensure!(other == "weft0\n", "{other}");
    let topology = fabric.weft(&["topology", "--format", "toml"])?;
    ensure!(topology.contains("adapters = [\"mlx4_0\"]"), "{topology}");
    Ok(())
}

fn soft_roce(who: Who) -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let rdma = |words: &[&str]| Ok::<_, anyhow::Error>(lab.run(lab.client(), who, &[], words)?.success()?.text);
    rdma(&["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "lo"])?;
    let shown = rdma(&["rdma", "link", "show", "rxe0/1"])?;
    ensure!(shown == "link rxe0/1 state ACTIVE physical_state LINK_UP netdev lo \n", "{shown}");
    // Weft's tools, run directly, print the same as Debian's under `weft run`.
    for words in [&["ibstat", "rxe0"][..], &["ibstat", "-l"], &["ibstatus"]] {
        let theirs = rdma(words)?;
        let ours = lab.weft(lab.client(), who, &[], words)?.success()?.text;
        ensure!(ours == theirs && ours.contains("rxe0"), "{words:?}: ours\n{ours}\ntheirs\n{theirs}");
    }
    Ok(())
}

fn infiniband() -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let fabric = Fabric::up(&lab, &["--star", "2"])?;
    let link = fabric.run("node1", &["rdma", "link"])?.success()?.text;
    let fields = "subnet_prefix fe80:0000:0000:0000 lid 0 sm_lid 0 lmc 0 state INIT physical_state LINK_UP";
    ensure!(link == format!("link weft0/1 {fields} \n"), "{link}");
    let dev = fabric.run("node1", &["rdma", "dev"])?.success()?.text;
    ensure!(dev.contains(": weft0: node_type ca fw ") && dev.contains(" sys_image_guid "), "{dev}");
    Ok(())
}
