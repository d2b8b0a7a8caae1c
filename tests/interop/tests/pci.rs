//! PCI functions of a fabric's adapters: programs that look for an adapter's place in the machine find it in sysfs, by mounts
//! and by a tree, as root and as an ordinary user.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::proc::on_a_terminal;
use weft_interop::{Fabric, Lab, Proc, Sandbox, Shape, Table, Who, skip};

const LIMIT: Duration = Duration::from_secs(60);

/// Hosts with two adapters each.
const FABRIC: &[&str] = &["--star", "2", "--rails", "2", "--adapter", "mlx5"];

/// The function of `mlx5_0` on a machine whose first NUMA node has the first adapter.
const FIRST: &str = "fab0:00:01.0";

/// Reads what NCCL, Mooncake, libfabric and UCX read, by paths with links and `..`.
const READS: &str = r#"
import glob, os
real = os.path.realpath
X = '/sys/class/infiniband/mlx5_0'
F = '/sys/devices/pcifab0:00/fab0:00:01.0'
assert real(X + '/device') == F, real(X + '/device')
assert real(X + '/../..') == F, real(X + '/../..')
assert real(X) == F + '/infiniband/mlx5_0', real(X)
assert real('/sys/class/pci_bus/fab0:00/../../fab0:00:01.0') == F
assert real('/sys/bus/pci/devices/fab0:00:01.0') == F
assert real(X + '/device/subsystem') == '/sys/bus/pci', real(X + '/device/subsystem')
assert os.readlink(X) == '../../devices/pcifab0:00/fab0:00:01.0/infiniband/mlx5_0', os.readlink(X)
assert os.readlink(X + '/device') == '../../../fab0:00:01.0', os.readlink(X + '/device')
read = lambda path: open(path).read().strip()
for name, text in [('vendor', '0x15b3'), ('class', '0x020700'), ('subsystem_vendor', '0x15b3'), ('revision', '0x00')]:
    assert read(X + '/device/' + name) == text, (name, read(X + '/device/' + name))
    assert read(X + '/../../' + name) == text
ids = [int(read(X + '/device/' + name), 16) for name in ('vendor', 'device')]
config = open(F + '/config', 'rb').read()
assert len(config) >= 64 and [config[0] | config[1] << 8, config[2] | config[3] << 8] == ids
assert read('/sys/bus/pci/devices/fab0:00:01.0/uevent').split('\n')[0] == 'DRIVER=mlx5_core'
assert int(read(F + '/numa_node')) >= -1 and read(F + '/local_cpus') and read(F + '/local_cpulist')
assert read(F + '/max_link_speed').endswith(' GT/s PCIe') and int(read(F + '/max_link_width')) == 16
for entry in ['infiniband_verbs/uverbs0', 'infiniband_mad/umad0']:
    assert real('/sys/class/' + entry + '/device') == F and real('/sys/class/' + entry) == F + '/' + entry
    assert read(F + '/' + entry + '/ibdev') == 'mlx5_0'
assert glob.glob('/sys/class/infiniband/*/device/vendor') and glob.glob('/sys/class/infiniband_verbs/*/ibdev')
assert sorted(os.listdir('/sys/class/infiniband')) == ['mlx5_0', 'mlx5_1']
os.chdir(X)
assert os.getcwd() == F + '/infiniband/mlx5_0', os.getcwd()
assert read('../../vendor') == '0x15b3' and read('ports/../node_type') == '1: CA'
os.chdir('/sys/class/infiniband/mlx5_0/device')
assert read('numa_node') == read(F + '/numa_node') and os.path.isdir('../../system/cpu')
print('all read')
"#;

/// As `ibdev2netdev` and administrators' scripts do.
const LOOPS: &str = "for dev in /sys/class/infiniband/*; do \
                       name=${dev##*/}; \
                       for port in $dev/ports/*; do \
                         state=$(cat $port/state); echo \"$name port ${port##*/} $state $(ls $dev/device/net)\"; \
                       done; \
                     done; \
                     ls -l /sys/class/infiniband /sys/class/infiniband_verbs; ls /sys/class/infiniband/mlx5_0/device/";

#[test]
fn mounts_show_the_functions() {
    let tools = ["ip", "lstopo-no-graphics", "lspci", "python3", "ucx_info", "ibv_devinfo", "ibstat"];
    if !skip::have("PCI functions", &tools) {
        return;
    }
    let mut table = Table::new("PCI functions");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let (fabric, _) = Fabric::managed_by(&lab, who, FABRIC).expect("a fabric");
        table.case(&format!("{who:?}: lspci"), || lspci(&fabric));
        table.case(&format!("{who:?}: lstopo"), || lstopo(&fabric));
        table.case(&format!("{who:?}: files, links and paths"), || reads(&fabric.words("node1", &python()?)?, &lab));
        table.case(&format!("{who:?}: with the machine's network"), || {
            reads(&fabric.words_without_ib0("node1", &python()?)?, &lab)
        });
        table
            .case(&format!("{who:?}: ucx_info -d"), || ucx(&fabric.run("node1", &["ucx_info", "-d"])?.success()?.text));
        table.case(&format!("{who:?}: loops over the classes"), || loops(&fabric));
        table.case(&format!("{who:?}: interfaces"), || interfaces(&fabric));
        table.case(&format!("{who:?}: the machine's devices stay"), || machine(&lab, &fabric));
        table.case(&format!("{who:?}: tools of InfiniBand"), || tools_of_infiniband(&fabric));
        table.case(&format!("{who:?}: another name"), || renamed(&fabric));
    }
    table.finish();
}

#[test]
fn a_tree_has_the_functions() {
    if !skip::have("PCI functions without namespaces", &["ip", "python3", "ucx_info", "lspci"]) {
        return;
    }
    let mut table = Table::new("PCI functions without namespaces");
    for sandbox in Sandbox::ALL {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let lab = lab.sandboxed(sandbox, env!("CARGO_BIN_EXE_weft-sandbox")).expect("the sandbox's command");
        let weft = |words: &[&str]| lab.weft(lab.client(), Who::Ordinary, &[("WEFT_QUIET", "1")], words)?.success();
        let run =
            |words: &[&str]| Ok::<_, anyhow::Error>(weft(&[&["run", "--host", "node1", "--"], words].concat())?.text);
        table.case(&format!("{sandbox:?}: files, links and paths"), || {
            weft(&[&["up"], FABRIC].concat())?;
            let text = run(&python()?)?;
            ensure!(text.contains("all read"), "{text}");
            Ok(())
        });
        table.case(&format!("{sandbox:?}: ucx_info -d"), || ucx(&run(&["ucx_info", "-d"])?));
        table.case(&format!("{sandbox:?}: a shell's realpath, cd and ls"), || {
            let script = "cd /sys/class/infiniband/mlx5_0/device && /bin/pwd && realpath /sys/class/infiniband/mlx5_0/../.. && \
                          ls -l /sys/class/infiniband && cd -P ../../.. && /bin/pwd && ls -d class/net";
            let text = run(&["sh", "-c", script])?;
            let function = format!("/sys/devices/pcifab0:00/{FIRST}\n");
            ensure!(text.matches(&function).count() == 2, "{text}");
            ensure!(text.contains("mlx5_0 -> ../../devices/pcifab0:00/") && text.ends_with("/sys\nclass/net\n"), "{text}");
            Ok(())
        });
        table.case(&format!("{sandbox:?}: another name"), || {
            let script = "weft=$0; $weft rdma dev set mlx5_1 name foo && cat /sys/class/infiniband/foo/device/vendor && \
                          ls /sys/class/infiniband && $weft rdma dev set foo name mlx5_1";
            let weft = weft_interop::product::weft()?.display().to_string();
            let text = run(&["sh", "-c", script, &weft])?;
            ensure!(text.ends_with("0xfab0\nfoo\nmlx5_0\n"), "{text}");
            Ok(())
        });
        let _ = weft(&["down"]);
    }
    table.finish();
}

#[test]
fn ucx_runs_between_hosts() {
    if !skip::have("UCX and PCI functions", &["ip", "ucx_perftest"]) {
        return;
    }
    let mut table = Table::new("UCX between hosts with PCI functions");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let (fabric, _) = Fabric::managed_by(&lab, who, FABRIC).expect("a fabric");
        table.case(&format!("{who:?}: ucx_perftest"), || perftest(&lab, &fabric));
    }
    table.finish();
}

fn python() -> Result<[&'static str; 3]> {
    Ok(["python3", "-c", READS])
}

fn shell(fabric: &Fabric<'_>, script: &str) -> Result<String> {
    Ok(fabric.run("node1", &["sh", "-c", script])?.success()?.text)
}

fn reads(line: &[String], lab: &Lab) -> Result<()> {
    let ended = lab.start_line(line, &[])?.wait(LIMIT).success()?;
    ensure!(ended.text.contains("all read"), "{}", ended.report());
    Ok(())
}

fn lspci(fabric: &Fabric<'_>) -> Result<()> {
    let all = shell(fabric, "lspci -D")?;
    ensure!(all.lines().any(|line| line.starts_with(FIRST) && line.contains("Infiniband controller")), "{all}");
    let numbers = shell(fabric, "lspci -nn -s fab0::")?;
    ensure!(numbers.lines().count() == 2 && numbers.contains("[0207]") && numbers.contains("[15b3:"), "{numbers}");
    let verbose = shell(fabric, "lspci -vvv -s fab0:: 2>/dev/null || lspci -vv -s fab0::")?;
    ensure!(!verbose.contains("unknown") && verbose.contains("Subsystem:"), "{verbose}");
    Ok(())
}

fn lstopo(fabric: &Fabric<'_>) -> Result<()> {
    let text = shell(fabric, "lstopo-no-graphics --whole-io --of console")?;
    let (_, below) = text.split_once("PCI fab0:00:01.0 (InfiniBand)").with_context(|| text.clone())?;
    let below: Vec<&str> = below.lines().skip(1).take_while(|line| !line.contains("PCI ")).collect();
    ensure!(below.iter().any(|line| line.contains("OpenFabrics \"mlx5_0\"")), "{text}");
    Ok(())
}

/// UCX names a system device by its PCI address.
fn ucx(text: &str) -> Result<()> {
    let (_, device) = text.split_once("Device: mlx5_0:1").with_context(|| text.to_owned())?;
    let system = device.lines().find(|line| line.contains("System device:")).context("no system device")?;
    ensure!(system.contains("mlx5_0") || system.contains("0000:00:01.0") || system.contains(FIRST), "{system}");
    ensure!(!system.contains("unknown") && text.contains("Transport: rc_verbs"), "{text}");
    Ok(())
}

fn loops(fabric: &Fabric<'_>) -> Result<()> {
    let text = shell(fabric, LOOPS)?;
    for wanted in ["mlx5_0 port 1 4: ACTIVE ib0", "mlx5_1 port 1 4: ACTIVE ib1", "uverbs1 -> ../../devices/pcifab0:0"] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    Ok(())
}

fn interfaces(fabric: &Fabric<'_>) -> Result<()> {
    let text = shell(
        fabric,
        "realpath /sys/class/net/ib0/device /sys/class/net/ib0/device/net/ib0; cat /sys/class/net/ib0/mode",
    )?;
    let function = format!("/sys/devices/pcifab0:00/{FIRST}");
    ensure!(text == format!("{function}\n{function}/net/ib0\ndatagram\n"), "{text}");
    // The kernel's directory of interfaces is the live one.
    let text = shell(
        fabric,
        "ip link add dummy7 type veth peer name dummy8; \
                              cat /sys/devices/virtual/net/dummy7/mtu; ip link del dummy7; ls /sys/devices/virtual/net",
    )?;
    ensure!(text.starts_with("1500\n") && !text.contains("dummy7"), "{text}");
    Ok(())
}

/// All functions of the machine are there, with their links.
fn machine(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let script = "for dir in /sys/bus/pci/devices /sys/class/pci_bus /sys/devices /sys/bus /sys/class; do \
                  [ -d $dir ] && for name in $dir/*; do [ -e $name ] && realpath $name; done; done; true";
    let bare = lab.start_bare(lab.client(), Who::Ordinary, &["sh", "-c", script])?.wait(LIMIT).success()?.text;
    let seen = shell(fabric, script)?;
    let seen: Vec<&str> = seen.lines().collect();
    let missing: Vec<&str> = bare.lines().filter(|path| !seen.contains(path)).collect();
    ensure!(missing.is_empty(), "{missing:?}");
    shell(fabric, "cat /sys/devices/system/cpu/online /sys/devices/virtual/net/lo/mtu").map(drop)
}

fn tools_of_infiniband(fabric: &Fabric<'_>) -> Result<()> {
    for (words, wanted) in [
        ("ibv_devinfo -d mlx5_1", "PORT_ACTIVE"),
        ("ibstat mlx5_0", "State: Active"),
        ("ibstat -l", "mlx5_0\nmlx5_1\n"),
        ("rdma link", "mlx5_0/1"),
    ] {
        let text = shell(fabric, words)?;
        ensure!(text.contains(wanted), "{words}: no {wanted:?} in\n{text}");
    }
    Ok(())
}

/// The function stays, with another vendor, and the interface's files stay below it.
fn renamed(fabric: &Fabric<'_>) -> Result<()> {
    let script = "set -e; weft rdma dev set mlx5_0 name foo 2>/dev/null || rdma dev set mlx5_0 name foo; \
                  cat /sys/class/infiniband/foo/device/vendor; ls /sys/class/infiniband; \
                  cat /sys/class/infiniband/foo/ports/1/state; ls /sys/bus/pci/devices/fab0:00:01.0/infiniband; \
                  for i in $(seq 50); do [ -e /sys/class/net/ib0/device/net/ib0/mode ] && break; sleep 0.1; done; \
                  cat /sys/class/infiniband/foo/device/net/ib0/mode /sys/class/net/ib0/mode; \
                  test ! -e /sys/class/infiniband/mlx5_0; rdma dev set foo name mlx5_0; \
                  ls /sys/class/infiniband; cat /sys/class/infiniband/mlx5_0/device/vendor";
    let text = shell(fabric, script)?;
    let wanted = "0xfab0\nfoo\nmlx5_1\n4: ACTIVE\nfoo\ndatagram\ndatagram\nmlx5_0\nmlx5_1\n0x15b3\n";
    ensure!(text == wanted, "{text}");
    Ok(())
}

fn perftest(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let env = [("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", "mlx5_0:1")];
    let start = |host: &str, more: &[&str]| -> Result<Proc> {
        let words = on_a_terminal(&[&["ucx_perftest", "-p", "13737"], more].concat());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        lab.start_line(&fabric.words(host, &words)?, &env)
    };
    let server = start("node2", &[])?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(!server.text().contains("ERROR"), "{}", server.text());
    let client = start("node1", &["-t", "tag_lat", "-n", "1000", "-s", "8", "node2"])?.wait(LIMIT).success()?;
    ensure!(client.text.contains("Final:"), "{}", client.text);
    server.wait(LIMIT).success().map(drop)
}
