//! Kernel modules as guides look at them: Debian's lsmod, modinfo and modprobe in the view of `weft run`; and the
//! connection manager's configfs.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(30);

const TOOLS: &[&str] = &["ip", "lsmod", "modinfo", "modprobe", "find"];

/// Makes a device's directory and waits for its files.
const MAKE_DIRECTORY: &str = "d=/sys/kernel/config/rdma_cm/$1; mkdir $d; for i in 1 2 3 4 5 6 7 8 9; do \
                              [ -e $d/ports/1/default_roce_tos ] || sleep 0.1; done; cd $d/ports/1";

#[test]
fn modules_are_shown_as_guides_show_them() {
    if !skip::have("modules_are_shown_as_guides_show_them", TOOLS) {
        return;
    }
    let mut table = Table::new("modules");
    for who in [Who::Root, Who::Ordinary] {
        let lab = Lab::new(Shape::One).expect("a lab");
        let run = |line: &str| lab.run(lab.client(), who, &[], &["sh", "-c", line]);
        table.case(&format!("{who:?}: lsmod"), || {
            let text = run("lsmod | grep '\\(^ib\\|^rdma\\)'")?.success()?.text;
            for name in ["ib_core", "ib_uverbs", "ib_cm", "rdma_cm", "rdma_ucm", "rdma_rxe"] {
                ensure!(row(&text, name).is_some(), "no {name} in\n{text}");
            }
            ensure!(row(&text, "ib_umad").is_none() && row(&text, "ib_ipoib").is_none(), "{text}");
            used_by(&text, "ib_uverbs", &["rdma_ucm", "rdma_rxe"])
        });
        table.case(&format!("{who:?}: modprobe"), || {
            for name in ["rdma_rxe", "rdma-rxe", "rdma_ucm", "-a ib_core ib_cm"] {
                run(&format!("modprobe {name}"))?.success()?;
            }
            let text = run("modprobe no_such_module")?.report();
            ensure!(text.contains("Module no_such_module not found in directory /lib/modules/"), "{text}");
            let text = run("modprobe -r ib_core")?.report();
            ensure!(text.contains("Module ib_core is in use"), "{text}");
            let text = run("modprobe -r rdma_rxe")?.report();
            ensure!(text.contains("the daemon keeps"), "{text}");
            let line = "modprobe siw && lsmod | grep ^siw && modprobe -r siw && ! lsmod | grep ^siw";
            ensure!(run(line)?.success()?.text.contains("siw "), "no siw");
            Ok(())
        });
        table.case(&format!("{who:?}: a module without a device"), || {
            let line = "modprobe mlx5_ib && lsmod && cat /sys/module/mlx5_core/initstate && modprobe -r mlx5_ib && \
                        test ! -e /sys/module/mlx5_core && rmmod mlx5_ib";
            let ended = run(line)?;
            let text = ended.report();
            used_by(&text, "mlx5_core", &["mlx5_ib"])?;
            ensure!(text.contains("live") && text.contains("mlx5_ib is not currently loaded"), "{text}");
            Ok(())
        });
        table.case(&format!("{who:?}: modinfo"), || {
            let text = run("modinfo ib_core rdma_rxe ib_ipoib && cat /sys/module/ib_core/initstate")?.success()?.text;
            for wanted in
                ["/infiniband/core/ib_core.ko", "/infiniband/sw/rxe/rdma_rxe.ko", "IP over InfiniBand", "live"]
            {
                ensure!(text.contains(wanted), "no {wanted} in\n{text}");
            }
            Ok(())
        });
        table.case(&format!("{who:?}: a view in a view"), || {
            let weft = product::weft()?.display().to_string();
            let inner = "modinfo no_such_module; modprobe no_such_module; lsmod";
            let text = run(&format!("timeout 20 {weft} run -- sh -c '{inner}'"))?.success()?.text;
            ensure!(text.contains("modinfo: ERROR: Module no_such_module not found"), "{text}");
            ensure!(text.contains("modprobe: FATAL: Module no_such_module not found"), "{text}");
            used_by(&text, "ib_uverbs", &["rdma_ucm", "rdma_rxe"])
        });
        table.case(&format!("{who:?}: without inotify instances"), || {
            if !skip::have("inotify", &["unshare"]) {
                return Ok(());
            }
            let (weft, device) = (product::weft()?.display().to_string(), lab.device(lab.client())?.name.clone());
            let inner = format!(
                "modprobe mlx5_ib && lsmod; modprobe -r mlx5_ib; set -- {device}; {MAKE_DIRECTORY}; cat default_roce_tos; \
                 echo 96 > default_roce_tos; sleep 1; cat default_roce_tos; echo 300 > default_roce_tos; sleep 1; \
                 cat default_roce_tos; echo 0 > default_roce_tos; sleep 1"
            );
            let limit = "echo 0 > /proc/sys/user/max_inotify_instances";
            let line = format!("{limit} && exec {weft} run -- sh -c '{inner}'");
            let started = lab.start_bare(lab.client(), who, &["unshare", "--user", "--map-root-user", "sh", "-c", &line])?;
            let text = started.wait(LIMIT).success()?.text;
            used_by(&text, "mlx5_core", &["mlx5_ib"])?;
            ensure!(text.ends_with("0\n96\n96\n"), "{text}");
            Ok(())
        });
        table.case(&format!("{who:?}: configfs"), || {
            let set = "cat default_roce_mode default_roce_tos; echo 104 > default_roce_tos; sleep 1; cat default_roce_tos; \
                       echo 300 > default_roce_tos; sleep 1; cat default_roce_tos; mkdir ../../../unknown; sleep 1; ls ../../..";
            let device = lab.device(lab.client())?.name.clone();
            let line = format!("set -- {device}; {MAKE_DIRECTORY}; {set}");
            let text = run(&line)?.success()?.text;
            let words: Vec<&str> = text.split_whitespace().collect();
            ensure!(words == ["RoCE", "v2", "0", "104", "104", &device], "{text}");
            let text = lab.weft(lab.client(), who, &[], &["cm", &device, "default_roce_tos"])?.success()?.text;
            ensure!(text.trim() == "104", "{text}");
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn a_fabrics_hosts_have_the_modules_of_their_adapters() {
    if !skip::have("a_fabrics_hosts_have_the_modules_of_their_adapters", TOOLS) {
        return;
    }
    let mut table = Table::new("modules of a fabric");
    for who in [Who::Root, Who::Ordinary] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let (fabric, _) = Fabric::managed_by(&lab, who, &["--pair", "--adapter", "mlx4"]).expect("a fabric");
        let run = |line: &str| fabric.run("node1", &["sh", "-ec", line]);
        table.case(&format!("{who:?}: lsmod, modprobe, modinfo, find"), || {
            let line = "lsmod | egrep '^mlx|^ib|^rdma'; for mod in mlx4_core mlx4_ib ib_umad ib_ipoib rdma_ucm; do \
                        modprobe $mod; done; modinfo mlx4_core | grep -e ^filename -e ^version; \
                        find /lib/modules/$(uname -r)/kernel/drivers/infiniband -type f -name '*.ko'";
            let text = run(line)?.success()?.text;
            for name in ["mlx4_core", "mlx4_ib", "ib_umad", "rdma_ucm", "ib_ipoib"] {
                ensure!(row(&text, name).is_some(), "no {name} in\n{text}");
            }
            for file in ["/mlx4/mlx4_core.ko", "/core/ib_umad.ko", "/ulp/ipoib/ib_ipoib.ko"] {
                ensure!(text.contains(file), "no {file} in\n{text}");
            }
            ensure!(row(&text, "rdma_rxe").is_none() && row(&text, "weft_ib").is_none(), "{text}");
            used_by(&text, "mlx4_core", &["mlx4_ib"])
        });
        table.case(&format!("{who:?}: ib_ipoib brings ib0"), || {
            let text = run("modprobe -r ib_ipoib; ip -br link; lsmod; test ! -e /sys/module/ib_ipoib")?.success()?.text;
            ensure!(!text.contains("ib0") && row(&text, "ib_ipoib").is_none(), "{text}");
            let text = run("lsmod")?.success()?.text;
            ensure!(row(&text, "ib_ipoib").is_none(), "{text}");
            let line = "modprobe ib_ipoib; lsmod; cat /sys/class/net/ib0/mode /sys/class/net/ib0/device/mlx4_port1_mtu; \
                        ip -br addr show dev ib0; sleep 1; ping -c 1 -W 5 node2";
            let text = run(line)?.success()?.text;
            for wanted in ["datagram", "4096", "10.0.0.1/8", "1 received"] {
                ensure!(text.contains(wanted), "no {wanted} in\n{text}");
            }
            used_by(&text, "ib_cm", &["rdma_cm", "ib_ipoib"])
        });
        table.case(&format!("{who:?}: the subsystem of an adapter"), || {
            let text = run(&format!("set -- mlx4_0; {MAKE_DIRECTORY}; ls; cat default_roce_tos"))?.success()?.text;
            ensure!(text.split_whitespace().eq(["default_roce_mode", "default_roce_tos", "0"]), "{text}");
            Ok(())
        });
    }
    table.finish();
}

/// The row of lsmod's table about a module.
fn row<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|words| words.first() == Some(&name))
}

fn used_by(text: &str, name: &str, users: &[&str]) -> Result<()> {
    let row = row(text, name).with_context(|| format!("no {name} in\n{text}"))?;
    let listed: Vec<&str> = row.get(3).map(|list| list.split(',').collect()).unwrap_or_default();
    ensure!(users.iter().all(|user| listed.contains(user)), "{name} is used by {listed:?}");
    ensure!(row.get(2).and_then(|count| count.parse().ok()) == Some(listed.len()), "{row:?}");
    Ok(())
}
