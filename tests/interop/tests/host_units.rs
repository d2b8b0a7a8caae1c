//! The services of the guides on a fabric's host: `systemctl` with the units of the subnet manager and of the kernel
//! modules, as root and as an ordinary user. No systemd runs there.

use anyhow::{Result, ensure};
use std::path::Path;
use weft_interop::{Fabric, Lab, Shape, Table, Who, skip};

const TOOLS: &[&str] = &["sh", "ip", "ibstat"];

/// rdma-core's file for hosts with InfiniBand adapters: `ib_ipoib` and `ib_umad`.
const INFINIBAND: &str = "/etc/rdma/modules/infiniband.conf";

#[test]
fn units_of_the_guides_start_and_stop() {
    if !skip::have("units_of_the_guides_start_and_stop", TOOLS) {
        return;
    }
    let mut table = Table::new("units of a host");
    for (who, label) in [(Who::Root, "root"), (Who::Ordinary, "an ordinary user")] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let (fabric, _) = Fabric::managed_by(&lab, who, &["--star", "3"]).expect("a fabric");
        let label = |what: &str| format!("{what} by {label}");
        if Path::new(INFINIBAND).exists() {
            table.case(&label("rdma-load-modules@infiniband"), || modules(&fabric));
        }
        table.case(&label("a file that does not exist"), || no_file(&fabric));
        table.case(&label("rdma-hw.target and list-units"), || hardware(&fabric));
        table.case(&label("the running manager"), || running(&fabric));
        table.case(&label("a second manager"), || second(&fabric));
        table.case(&label("stop, start, restart, reload"), || restart(&fabric));
        table.case(&label("units that a host lacks"), || unknown(&fabric));
    }
    table.finish();
}

/// Runs a script as a host, its errors beside its output.
fn shell(fabric: &Fabric<'_>, host: &str, script: &str) -> Result<String> {
    Ok(fabric.run(host, &["sh", "-c", &format!("exec 2>&1; {script}; true")])?.success()?.text)
}

fn modules(fabric: &Fabric<'_>) -> Result<()> {
    let unit = "rdma-load-modules@infiniband.service";
    let script = format!(
        "systemctl is-active {unit}; modprobe -r ib_ipoib; systemctl restart {unit} || exit 1; lsmod | grep ^ib_ipoib; \
         ip -br link show ib0; systemctl status {unit}; systemctl is-enabled {unit}; systemctl stop {unit}; \
         systemctl is-active {unit}; echo $?"
    );
    let text = shell(fabric, "node2", &script)?;
    for wanted in [
        "● rdma-load-modules@infiniband.service - Load RDMA modules from /etc/rdma/modules/infiniband.conf\n",
        "     Active: active (exited) since ",
        "(code=exited, status=0/SUCCESS)\n",
        "Inserted module 'ib_ipoib'\n",
        "\nstatic\n",
    ] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    ensure!(text.starts_with("inactive\n") && text.ends_with("inactive\n3\n") && text.contains("\nib0 "), "{text}");
    // Another host knows nothing of it.
    let other = shell(fabric, "node3", &format!("systemctl is-active {unit}; echo $?"))?;
    ensure!(other == "inactive\n3\n", "{other}");
    Ok(())
}

fn no_file(fabric: &Fabric<'_>) -> Result<()> {
    let unit = "rdma-load-modules@weft-none";
    let script =
        format!("systemctl start {unit}; echo $?; systemctl is-failed {unit}; systemctl status {unit}; echo $?");
    let text = shell(fabric, "node2", &script)?;
    let reason = "Failed to open '/etc/rdma/modules/weft-none.conf': No such file or directory\n";
    ensure!(text.starts_with(&format!("Job for {unit}.service failed:\n  {reason}")), "{text}");
    for wanted in ["\n1\nfailed\n× ", "     Active: failed (Result: exit-code) since ", &format!("\n{reason}3\n")] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    Ok(())
}

fn hardware(fabric: &Fabric<'_>) -> Result<()> {
    let text =
        shell(fabric, "node3", "systemctl is-active rdma-hw.target && systemctl list-units && systemctl status")?;
    for wanted in
        ["active\n", "rdma-hw.target", "loaded active", "weft-sm.service", "● rdma-hw.target - RDMA Hardware\n"]
    {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    Ok(())
}

/// `weft up` has started the manager of node1.
fn running(fabric: &Fabric<'_>) -> Result<()> {
    let text =
        shell(fabric, "node1", "systemctl is-active opensm && systemctl is-enabled opensm && systemctl status opensm")?;
    for wanted in ["active\nenabled\n● weft-sm.service - ", "     Active: active (running) since ", "   Main PID: "] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    let text = shell(fabric, "node2", "systemctl is-active -q opensm; echo $?; systemctl is-enabled opensm")?;
    ensure!(text == "3\ndisabled\n", "{text}");
    Ok(())
}

/// The guide's `systemctl enable --now opensm` on a second host: a standby manager.
fn second(fabric: &Fabric<'_>) -> Result<()> {
    let text = shell(fabric, "node2", "systemctl enable --now opensm && systemctl is-active opensm")?;
    ensure!(text == "active\n", "{text}");
    let text = shell(fabric, "node1", "systemctl is-active opensm")?;
    ensure!(text == "active\n", "{text}");
    let managers = || fabric.weft(&["sm", "status"]).unwrap_err().to_string();
    ensure!(managers().contains("several subnet managers run here"), "{}", managers());
    Ok(())
}

fn restart(fabric: &Fabric<'_>) -> Result<()> {
    let script = "systemctl reload opensm && systemctl restart opensm && systemctl is-active opensm && \
                  systemctl disable --now opensm; systemctl is-active opensm; systemctl is-enabled opensm; \
                  systemctl try-restart opensm; systemctl is-active opensm; systemctl reload opensm";
    let text = shell(fabric, "node2", &format!("{script}; echo $?"))?;
    let expected = "active\ninactive\ndisabled\ninactive\nweft-sm.service is not active, cannot reload.\n1\n";
    ensure!(text == expected, "{text}");
    let text = shell(
        fabric,
        "node1",
        "systemctl stop opensm; systemctl is-active opensm; systemctl start opensm.service && ibstat",
    )?;
    ensure!(text.starts_with("inactive\n") && text.contains("State: Active"), "{text}");
    Ok(())
}

fn unknown(fabric: &Fabric<'_>) -> Result<()> {
    let text = shell(
        fabric,
        "node1",
        "systemctl start nginx; echo $?; systemctl status nginx; echo $?; systemctl start; echo $?",
    )?;
    let told = "Unit nginx.service not found. `systemctl --help` lists those of a fabric's host.\n";
    ensure!(text == format!("{told}5\n{told}4\nToo few arguments.\n1\n"), "{text}");
    Ok(())
}
