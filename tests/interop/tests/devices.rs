//! `ibv_devices` and `ibv_devinfo` see the devices, in every shape and as every user.

use std::time::Duration;

use anyhow::{Result, ensure};
use weft_interop::{Lab, Sandbox, Shape, Table, Who, product, skip};

const SHAPES: [Shape; 4] = [Shape::Loopback, Shape::One, Shape::Two { mtu: 1500 }, Shape::Two { mtu: 9000 }];

#[test]
fn devices_and_devinfo() {
    if !skip::have("devices_and_devinfo", &["ip", "ibv_devices", "ibv_devinfo"]) {
        return;
    }
    let mut table = Table::new("devices");
    for shape in SHAPES {
        let lab = Lab::new(shape).expect("a lab");
        for who in Who::BOTH {
            table.case(&format!("{shape:?} {who:?} ibv_devices"), || list(&lab, who));
            table.case(&format!("{shape:?} {who:?} ibv_devinfo"), || brief(&lab, who));
            table.case(&format!("{shape:?} {who:?} ibv_devinfo -v"), || verbose(&lab, who, shape));
        }
    }
    table.finish();
}

#[test]
fn sysfs_shows_what_programs_read_directly() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("sysfs");
    for who in Who::BOTH {
        table.case(&format!("{who:?} /sys/class/infiniband"), || {
            let device = lab.device(lab.client())?;
            let gid = device.gid_v4;
            let port = format!("/sys/class/infiniband/{}/ports/1", device.name);
            let words = format!(
                "set -e; cd {port}; cat state link_layer gids/{gid} gid_attrs/types/{gid} gid_attrs/ndevs/{gid}; \
                 test -c /dev/infiniband/uverbs0; test -r /dev/infiniband/uverbs0; test -w /dev/infiniband/uverbs0"
            );
            let ended = lab.run(lab.client(), who, &[], &["sh", "-c", &words])?.success()?;
            for wanted in ["ACTIVE", "Ethernet", "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2", "eth0"] {
                ensure!(ended.text.contains(wanted), "no {wanted:?} in\n{}", ended.report());
            }
            Ok(())
        });
    }
    table.finish();
}

/// A program that runs already sees a device that is added, renamed and removed, and an address that comes, as with a
/// kernel's driver: from mounts, and from a tree.
#[test]
fn a_running_program_sees_devices_come_and_go() {
    if !skip::have("a_running_program_sees_devices_come_and_go", &["ip"]) {
        return;
    }
    let mut table = Table::new("sysfs of running programs");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::One).expect("a lab");
        table.case(&format!("{who:?}, mounts"), || follow(&lab, who));
    }
    for sandbox in Sandbox::ALL {
        let lab = Lab::new(Shape::One).expect("a lab");
        let lab = lab.sandboxed(sandbox, env!("CARGO_BIN_EXE_weft-sandbox")).expect("the sandbox's command");
        table.case(&format!("ordinary user, {sandbox:?}"), || follow(&lab, Who::Ordinary));
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    table.case("a command of the program shows at once", || {
        let weft = product::weft()?.display().to_string();
        let words = format!(
            "set -e; {weft} link add new0 type rxe netdev eth0; cat /sys/class/infiniband/new0/ports/1/state; \
             test -c /dev/infiniband/uverbs0; {weft} dev set new0 name mlx5_0; test ! -e /sys/class/infiniband/new0; \
             cat /sys/class/infiniband/mlx5_0/ports/1/hw_counters/sent_pkts; {weft} link del mlx5_0; \
             test ! -e /sys/class/infiniband/mlx5_0"
        );
        let ended = lab.run(lab.client(), Who::Root, &[], &["sh", "-c", &words])?.success()?;
        ensure!(ended.text == "4: ACTIVE\n0\n", "{}", ended.report());
        Ok(())
    });
    table.finish();
}

fn follow(lab: &Lab, who: Who) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(30);
    let script = "await() { until eval \"$1\"; do sleep 0.02; done; echo \"$1\"; }
        cd /sys/class/infiniband
        echo ready
        await 'test -e new0/ports/1/hw_counters/sent_pkts && test ! -e rxe_eth0'
        cat new0/ports/1/hw_counters/sent_pkts
        await 'grep -q ffff:0a4d:0063 new0/ports/1/gids/*'
        await 'test -e mlx5_0 && test ! -e new0'
        await 'test ! -e mlx5_0 && test -c /dev/infiniband/rdma_cm'
        echo followed";
    let side = lab.client();
    let mut program = lab.start(side, who, &[("WEFT_QUIET", "1")], &["sh", "-c", script])?;
    let mut steps = vec!["ready", "test -e new0/", "grep -q", "test -e mlx5_0", "followed"].into_iter();
    let mut step = |change: &dyn Fn() -> Result<()>| -> Result<()> {
        let wanted = format!("\n{}", steps.next().unwrap_or_default());
        ensure!(
            program.wait_until(LIMIT, |program| format!("\n{}", program.text()).contains(&wanted)),
            "no {wanted:?}: {}",
            program.text()
        );
        change()
    };
    let weft = |words: &[&str]| lab.weft(side, Who::Root, &[], words)?.success().map(drop);
    step(&|| weft(&["link", "add", "new0", "type", "rxe", "netdev", "eth0"]))?;
    step(&|| lab.ip(&format!("-n {} addr add 10.77.0.99/24 dev eth0", side.netns)))?;
    step(&|| weft(&["dev", "set", "new0", "name", "mlx5_0"]))?;
    step(&|| weft(&["link", "del", "mlx5_0"]))?;
    step(&|| Ok(()))?;
    program.wait(LIMIT).success().map(drop)
}

/// `weft run` gives programs a /dev of their own, in which terminals must still open: those of shells, ssh, debuggers.
#[test]
fn programs_get_terminals() {
    if !skip::have("programs_get_terminals", &["ip", "script"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("terminals");
    for who in Who::BOTH {
        for nested in [false, true] {
            table.case(&format!("{who:?}, weft run inside: {nested}"), || {
                let weft = if nested { format!("{} run -- ", product::weft()?.display()) } else { String::new() };
                let command = format!("{weft}sh -c 'test -t 0 && test -c $(tty) && echo a terminal'");
                let ended = lab.run(lab.client(), who, &[], &["script", "-q", "-e", "-c", &command, "/dev/null"])?;
                ensure!(ended.ok() && ended.text.contains("a terminal"), "{}", ended.report());
                Ok(())
            });
        }
    }
    table.finish();
}

#[test]
fn gids_follow_the_addresses() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("gids");
    let gids = || -> Result<String> { Ok(lab.run(side, Who::Root, &[], &["ibv_devinfo", "-v"])?.success()?.text) };
    table.case("an address that comes is a GID", || {
        ensure!(gids()?.contains("::ffff:10.77.0.1"), "no GID of the first address:\n{}", gids()?);
        lab.ip(&format!("-n {} addr add 10.77.0.99/24 dev eth0", side.netns))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        ensure!(gids()?.contains("::ffff:10.77.0.99"), "no GID of the new address:\n{}", gids()?);
        Ok(())
    });
    table.case("an address that goes is none", || {
        lab.ip(&format!("-n {} addr del 10.77.0.99/24 dev eth0", side.netns))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        ensure!(!gids()?.contains("::ffff:10.77.0.99"), "the old GID stays:\n{}", gids()?);
        Ok(())
    });
    table.case("the port follows the link", || {
        lab.ip(&format!("-n {} link set eth0 down", side.netns))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        ensure!(gids()?.contains("PORT_DOWN"), "the port stays up:\n{}", gids()?);
        lab.ip(&format!("-n {} link set eth0 up", side.netns))?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        ensure!(!gids()?.contains("PORT_DOWN"), "the port stays down:\n{}", gids()?);
        Ok(())
    });
    table.finish();
}

fn list(lab: &Lab, who: Who) -> Result<()> {
    let ended = lab.run(lab.client(), who, &[], &["ibv_devices"])?.success()?;
    let rows = ended.text.lines().skip(2).filter(|l| l.split_whitespace().count() == 2).count();
    ensure!(rows >= 1, "no device listed:\n{}", ended.report());
    Ok(())
}

fn brief(lab: &Lab, who: Who) -> Result<()> {
    let ended = lab.run(lab.client(), who, &[], &["ibv_devinfo"])?.success()?;
    for wanted in ["hca_id:", "PORT_ACTIVE", "link_layer:\t\tEthernet"] {
        ensure!(ended.text.contains(wanted), "no {wanted:?} in\n{}", ended.report());
    }
    Ok(())
}

fn verbose(lab: &Lab, who: Who, shape: Shape) -> Result<()> {
    let ended = lab.run(lab.client(), who, &[], &["ibv_devinfo", "-v"])?.success()?;
    let device = weft_interop::device::find(&ended.text, lab.client().v4, lab.client().v6);
    let Some(device) = device else { anyhow::bail!("no device with {}:\n{}", lab.client().v4, ended.report()) };
    ensure!(device.gid_v4 == 0, "the IPv4 GID is at index {}, not 0", device.gid_v4);
    // Ethernet with MTU 1500 has a path MTU of 1024, jumbo frames 4096; the loopback with its MTU of 65536 has 4096,
    // too.
    let mtu = match shape {
        Shape::One | Shape::Two { mtu: 1500 } => 1024,
        _ => 4096,
    };
    ensure!(device.active_mtu == mtu, "active_mtu is {}, not {mtu}", device.active_mtu);
    for never in ["vendor_id:\t\t\t0x000000", "vendor_id:\t\t\t0xffffff"] {
        ensure!(!ended.text.contains(never), "{never} makes applications switch features\n{}", ended.report());
    }
    Ok(())
}
