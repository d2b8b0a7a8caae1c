//! The Debian packages for the interop tests: unmodified programs, and tools that set up namespaces.

mod plan;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use weft_interop::guest;

/// Each package, and a file that it installs (a file check also works without dpkg).
const NEEDED: &[(&str, &str)] = &[
    ("ibverbs-utils", "/usr/bin/ibv_rc_pingpong"),
    ("perftest", "/usr/bin/ib_write_bw"),
    ("qperf", "/usr/bin/qperf"),
    ("python3-pyverbs", "/usr/lib/python3/dist-packages/pyverbs/__init__.py"),
    ("rdma-core", "/etc/rdma/modules/rdma.conf"),
    ("rdmacm-utils", "/usr/bin/rping"),
    ("infiniband-diags", "/usr/sbin/ibstat"),
    ("ibsim-utils", "/usr/bin/ibsim"),
    ("opensm", "/usr/sbin/opensm"),
    ("tshark", "/usr/bin/tshark"),
    ("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    ("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    ("libibumad-dev", "/usr/include/infiniband/umad.h"),
    ("iproute2", "/sbin/ip"),
    // Commands of the guides.
    ("kmod", "/usr/sbin/modprobe"),
    ("net-tools", "/usr/bin/netstat"),
    // IP over InfiniBand between virtual hosts.
    ("iputils-ping", "/bin/ping"),
    ("ifupdown", "/sbin/ifup"),
    ("iperf3", "/usr/bin/iperf3"),
    // Application middleware; `bench` compares with the first two.
    ("ucx-utils", "/usr/bin/ucx_perftest"),
    ("libfabric-bin", "/usr/bin/fi_pingpong"),
    ("dbench", "/usr/bin/dbench"),
    ("fio", "/usr/bin/fio"),
    ("openmpi-bin", "/usr/bin/mpirun.openmpi"),
    ("libopenmpi-dev", "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"),
    ("mpich", "/usr/bin/mpiexec.mpich"),
    ("libmpich-dev", "/usr/include/x86_64-linux-gnu/mpich"),
    ("librpma-dev", "/usr/include/librpma.h"),
    // iSER: the target, and the initiator that uses its disk.
    ("tgt", "/usr/sbin/tgtd"),
    ("libiscsi-bin", "/usr/bin/iscsi-inq"),
    ("open-iscsi", "/usr/sbin/iscsid"),
    ("qemu-utils", "/usr/bin/qemu-img"),
    ("qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"),
    // The browser that `weft ui` is shown in, and its driver.
    ("chromium", "/usr/bin/chromium"),
    ("chromium-driver", "/usr/bin/chromedriver"),
    // The emulator and the parts of a guest with the kernel's RDMA.
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("ibverbs-providers", "/etc/libibverbs.d/rxe.driver"),
    ("busybox", "/bin/busybox"),
    // NFS in the guest: mount.nfs, and the exports of Linux's server.
    ("nfs-common", "/usr/sbin/mount.nfs"),
    ("nfs-kernel-server", "/usr/sbin/exportfs"),
    // NVMe over RDMA in the guest.
    ("nvme-cli", "/usr/sbin/nvme"),
    // NBD clients, for the disks of an NVMe host.
    ("libnbd-bin", "/usr/bin/nbdcopy"),
    // SRP in the guest: tools of SCSI disks.
    ("sg3-utils", "/usr/bin/sg_inq"),
    // Tools that find SRP targets on a fabric.
    ("srptools", "/usr/sbin/srp_daemon"),
    // Mounts of ordinary users, and programs that use them.
    ("fuse3", "/usr/bin/fusermount3"),
    ("git", "/usr/bin/git"),
    ("xz-utils", "/usr/bin/xz"),
    ("procps", "/usr/bin/ps"),
    // Terminals of 80 and 200 columns; judges of metrics.
    ("tmux", "/usr/bin/tmux"),
    ("prometheus", "/usr/bin/promtool"),
    // Shells of `weft env`, and containers of `weft cdi`.
    ("fish", "/usr/bin/fish"),
    ("tcsh", "/bin/tcsh"),
    ("podman", "/usr/bin/podman"),
    ("runc", "/usr/sbin/runc"),
    // Programs that look for adapters on the PCI bus.
    ("hwloc-nox", "/usr/bin/lstopo-no-graphics"),
    ("pciutils", "/usr/bin/lspci"),
    // Programs that use TCP, for rsockets.
    ("curl", "/usr/bin/curl"),
    ("openssl", "/usr/bin/openssl"),
];

/// Peers of `bench`. No other chore needs them, and a missing peer only costs its lines of the table.
const PEERS: &[(&str, &str)] = &[
    ("ucx-utils", "/usr/bin/ucx_perftest"),
    ("libfabric-bin", "/usr/bin/fi_pingpong"),
    ("util-linux", "/usr/bin/taskset"),
];

/// Debian ships the pyverbs tests as documentation, which minimal images leave out when they install packages.
const PYVERBS_TESTS: &str = "/usr/share/doc/rdma-core/tests/run_tests.py";

/// Installs missing packages as root; otherwise prints how to, and lets the tests count their skips.
pub fn install() -> Result<()> {
    programs()?;
    kernel();
    Ok(())
}

/// Fetches the kernel for guests, which does not require root.
pub fn kernel() {
    let fetched = guest::kernel::fetch().or_else(|error| {
        // A fresh image has no package lists yet.
        let root = rustix::process::geteuid().is_root();
        let updated = root && apt_get().arg("update").status().is_ok_and(|status| status.success());
        if updated { guest::kernel::fetch() } else { Err(error) }
    });
    if let Err(error) = fetched {
        eprintln!("The tests against the kernel's RDMA will be skipped: {error:#}");
    }
}

/// Installs the peers of `bench`, if possible.
pub fn peers() {
    let missing = missing(PEERS);
    if missing.is_empty() {
        return;
    }
    let installed = rustix::process::geteuid().is_root() && apt(&missing);
    if !installed {
        eprintln!("Some peers will be missing; as root: apt-get install {}", missing.join(" "));
    }
}

fn missing(packages: &[(&'static str, &str)]) -> Vec<&'static str> {
    packages.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(name, _)| *name).collect()
}

/// Installs the programs.
pub fn programs() -> Result<()> {
    let missing = missing(NEEDED);
    let tests_missing = !Path::new(PYVERBS_TESTS).exists();
    if missing.is_empty() && !tests_missing {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        let missing = if tests_missing && missing.is_empty() { vec!["python3-pyverbs"] } else { missing };
        eprintln!("Some tests will be skipped; as root: {INSTALL} {}", missing.join(" "));
        return Ok(());
    }
    if !missing.is_empty() {
        install_listed(&missing)?;
    }
    if Path::new(PYVERBS_TESTS).exists() { Ok(()) } else { unpack_pyverbs_tests() }
}

const INSTALL: &str = "apt-get install -y --no-install-recommends";

/// Installs the packages that apt can install, and names the rest.
fn install_listed(missing: &[&str]) -> Result<()> {
    eprintln!("== {INSTALL} {}", missing.join(" "));
    let all: Vec<_> = missing.iter().map(|&name| name.to_owned()).collect();
    if plan::Apt::simulate(&System, &all).is_ok() && apt(missing) {
        return Ok(());
    }
    // A fresh image has no package lists yet.
    if !apt_get().arg("update").status().context("cannot run apt-get")?.success() {
        bail!("cannot install {}: `apt-get update` failed", missing.join(", "));
    }
    let listed: Vec<_> = NEEDED.iter().map(|(name, _)| *name).collect();
    let plan = plan::plan(&System, &listed, missing);
    if !plan.downgrades.is_empty() {
        eprintln!("== back to the version of a configured source: {}", plan.downgrades.join(" "));
    }
    for (package, reason) in &plan.left_out {
        eprintln!("cannot install {package}: {reason}; the tests that need it will be skipped");
    }
    let words: Vec<_> = plan.words.iter().map(String::as_str).collect();
    let words = if plan.downgrades.is_empty() { words } else { [&["--allow-downgrades"], &words[..]].concat() };
    if !words.is_empty() && !apt(&words) {
        bail!("cannot install {}: run `{INSTALL} {}` and see", plan.words.join(", "), words.join(" "));
    }
    Ok(())
}

/// This machine's apt.
struct System;

impl plan::Apt for System {
    fn simulate(&self, words: &[String]) -> Result<(), String> {
        let mut command = apt_get();
        command.args(["install", "--simulate", "--no-install-recommends", "--no-remove", "--allow-downgrades"]);
        let said = command.args(words).env("LC_ALL", "C").stdout(Stdio::piped()).output();
        match said {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => Err(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()),
            Err(error) => Err(format!("cannot run apt-get: {error}")),
        }
    }

    fn policy(&self, packages: &[String]) -> String {
        let said = Command::new("apt-cache").arg("policy").args(packages).env("LC_ALL", "C").output();
        said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default()
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn apt(packages: &[&str]) -> bool {
    let args = ["install", "-y", "-q", "--no-install-recommends", "--no-remove"];
    apt_get().args(args).args(packages).status().is_ok_and(|status| status.success())
}

/// Extracts the tests from the package itself, past dpkg's exclusions.
fn unpack_pyverbs_tests() -> Result<()> {
    let dir = crate::cargo::root().join("target/pyverbs-package");
    std::fs::create_dir_all(&dir)?;
    let words = "apt-get update -q >/dev/null; apt-get download -q python3-pyverbs && \
                 dpkg-deb --fsys-tarfile python3-pyverbs_*.deb | tar -x -C / ./usr/share/doc/rdma-core/tests";
    let status = Command::new("sh").args(["-c", words]).current_dir(&dir).status()?;
    if !status.success() || !Path::new(PYVERBS_TESTS).exists() {
        bail!("Debian's pyverbs tests are not at {PYVERBS_TESTS} and cannot be taken from the package");
    }
    Ok(())
}
