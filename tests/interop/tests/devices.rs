//! `ibv_devices` and `ibv_devinfo` see the devices, in every shape and as every user.

use anyhow::{Result, ensure};
use weft_interop::{Lab, Shape, Table, Who, product, skip};

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
