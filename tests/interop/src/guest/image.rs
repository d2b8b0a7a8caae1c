//! The guest's first and only file system: the agent, busybox, the host's RDMA programs with their libraries, and the
//! modules.

use super::cpio::Cpio;
use super::driver::Driver;
use super::kernel::Kernel;
use super::modules;
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that a guest needs.
pub const NEEDED: &[&str] =
    &["busybox", "ip", "rdma", "ibv_devinfo", "ibv_rc_pingpong", "rping", "ib_write_bw", "qperf"];

/// Programs that the guest gets if the host has them.
const PROGRAMS: &[&str] = &[
    "bash",
    "ss",
    "tc",
    "tcpdump",
    "strace",
    "ibv_devices",
    "ibv_asyncwatch",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ibv_xsrq_pingpong",
    "ucmatose",
    "udaddy",
    "udpong",
    "mckey",
    "cmtime",
    "rstream",
    "riostream",
    "rcopy",
    "rdma_client",
    "rdma_server",
    "rdma_xclient",
    "rdma_xserver",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
];

/// Name tables of the host.
const TABLES: &[&str] = &["/etc/protocols", "/etc/services"];

/// Small files created for the guest.
const FILES: &[(&str, &str)] = &[
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
];

/// Returns the names of missing programs on this host.
pub fn missing() -> Vec<&'static str> {
    let mut missing: Vec<_> = NEEDED.iter().copied().filter(|name| skip::on_path(name).is_none()).collect();
    if provider(Driver::Rxe).is_none() {
        missing.push("ibverbs-providers");
    }
    missing
}

/// Path of the script that the agent runs before it starts a shell.
pub const SETUP: &str = "/etc/setup";

/// An extra program or library for a guest: its path on the host, and in the guest.
pub type Extra = (PathBuf, String);

/// Additions for one family of tests; the image of the others stays small.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additions<'a> {
    /// Files of this host.
    pub files: &'a [Extra],
    /// Modules of the kernel's package.
    pub modules: &'a [&'a str],
}

/// Builds the archive; `agent` becomes the guest's first process, and `setup` the script that runs before an
/// interactive shell.
pub fn build(kernel: &Kernel, driver: Driver, agent: &Path, setup: &str, additions: Additions<'_>) -> Result<Vec<u8>> {
    let missing = missing();
    ensure!(missing.is_empty(), "not installed: {}", missing.join(", "));
    let mut cpio = Cpio::default();
    for name in ["proc", "sys", "dev", "tmp", "run", "root", "mnt", "var/run"] {
        cpio.directory(name);
    }
    let mut binaries = vec![(agent.to_path_buf(), "/init".to_owned())];
    binaries.extend_from_slice(additions.files);
    for name in NEEDED.iter().chain(PROGRAMS) {
        if let Some(path) = skip::on_path(name) {
            binaries.push((path.canonicalize()?, format!("/usr/bin/{name}")));
        }
    }
    let provider = provider(driver).context("rdma-core's provider is missing: install ibverbs-providers")?;
    binaries.push((provider.clone(), provider.display().to_string()));
    // A thread that ends itself (pthread_exit) loads it.
    let gcc = library_dirs().map(|dir| dir.join("libgcc_s.so.1")).find(|path| path.exists());
    binaries.extend(gcc.map(|path| (path.clone(), path.display().to_string())));
    for library in libraries(&binaries)? {
        cpio.file(&library.display().to_string(), &std::fs::read(&library)?);
    }
    for (from, to) in &binaries {
        cpio.file(to, &std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?);
    }
    busybox(&mut cpio)?;
    load(&mut cpio, kernel, driver, additions.modules)?;
    let kind = driver.kind();
    cpio.file(&format!("/etc/libibverbs.d/{kind}.driver"), format!("driver {kind}\n").as_bytes());
    for (name, text) in FILES {
        cpio.file(name, text.as_bytes());
    }
    cpio.file(SETUP, setup.as_bytes());
    for name in TABLES {
        if let Ok(bytes) = std::fs::read(name) {
            cpio.file(name, &bytes);
        }
    }
    Ok(cpio.finish())
}

fn library_dirs() -> impl Iterator<Item = PathBuf> {
    ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].into_iter().map(PathBuf::from)
}

/// Returns rdma-core's provider, which libibverbs loads by name.
fn provider(driver: Driver) -> Option<PathBuf> {
    let name = format!("libibverbs/lib{}-rdmav34.so", driver.kind());
    library_dirs().map(|dir| dir.join(&name)).find(|path| path.exists())
}

/// Returns every library that the binaries are linked with, the dynamic loader included.
fn libraries(binaries: &[(PathBuf, String)]) -> Result<BTreeSet<PathBuf>> {
    let out = Command::new("ldd")
        .args(binaries.iter().map(|(from, _)| from))
        // Only the system's libraries, whatever this process runs with.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("LD_PRELOAD")
        .output()
        .context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        anyhow::bail!("a library is missing on this machine: {}", line.trim());
    }
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, `/lib64/ld-linux-x86-64.so.2 (0x...)`.
    let path = |line: &str| {
        let (before, _) = line.rsplit_once(" (0x")?;
        Some(PathBuf::from(before.rsplit(' ').next()?.trim())).filter(|path| path.is_absolute())
    };
    Ok(text.lines().filter_map(path).collect())
}

/// Links busybox's small programs, except where the image has the real one.
fn busybox(cpio: &mut Cpio) -> Result<()> {
    let out = Command::new("busybox").arg("--list").output().context("cannot run busybox")?;
    for name in String::from_utf8_lossy(&out.stdout).split_whitespace() {
        cpio.link(&format!("/usr/bin/{name}"), "/usr/bin/busybox");
    }
    for name in ["sh", "bash"] {
        cpio.link(&format!("/bin/{name}"), &format!("/usr/bin/{name}"));
    }
    Ok(())
}

/// Adds the modules, and their load order for the agent.
fn load(cpio: &mut Cpio, kernel: &Kernel, driver: Driver, added: &[&str]) -> Result<()> {
    let mut order = String::new();
    let wanted = [&driver.modules(), added].concat();
    for (name, bytes) in modules::closure(&kernel.modules, &wanted, driver.module_file(kernel)?)? {
        cpio.file(&format!("/modules/{name}.ko"), &bytes);
        order += &format!("/modules/{name}.ko\n");
    }
    let [_, module] = driver.modules();
    ensure!(order.contains(&format!("/{module}.ko")), "{}: no {module}", kernel.modules.display());
    cpio.file("/modules/order", order.as_bytes());
    Ok(())
}
