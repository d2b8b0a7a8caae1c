//! Commands that guides for administrators show on a machine with adapters, run on one without.

use anyhow::{Result, ensure};
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
    table.finish();
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
