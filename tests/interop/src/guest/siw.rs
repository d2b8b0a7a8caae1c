//! siw.ko, Linux's Soft-iWARP, which Debian's kernel packages leave out: built from Debian's linux-source package with
//! the headers of the guest's kernel.
//!
//! [`build`] fetches 155 MB by apt and takes half a minute. It needs neither root nor an installed kernel package, and
//! leaves two modules beside the unpacked kernel. A kernel that replaces this one takes them away with it.

use super::control::Control;
use super::kernel::{self, Kernel};
use crate::skip;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A build of siw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As Linux has it. It misses the first FPDU of a connection that arrives before `siw_accept` has set its callback.
    Stock,
    /// With the fix below.
    Fixed,
}

impl Build {
    const BOTH: [Build; 2] = [Build::Stock, Build::Fixed];

    fn name(self) -> &'static str {
        match self {
            Build::Stock => "stock",
            Build::Fixed => "fixed",
        }
    }
}

/// The directory of siw's sources in a kernel's.
const SOURCES: &str = "drivers/infiniband/sw/siw";
/// The file that [`FIX`] changes.
const PATCHED: &str = "siw_cm.c";
/// The last statement of `siw_accept` that knows of the connection's socket. It occurs once.
const ANCHOR: &str = "\t\tsiw_qp_socket_assoc(cep, qp);\n\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_ESTABLISHED, 0);\n\
                      \t\tif (rv)\n\t\t\tgoto error;\n\t}\n";
/// Reads an FPDU that arrived between the MPA reply and the callback that would have read it.
const FIX: &str = "\tlock_sock(cep->sock->sk);\n\tif (!skb_queue_empty(&cep->sock->sk->sk_receive_queue))\n\
                   \t\tcep->sock->sk->sk_data_ready(cep->sock->sk);\n\trelease_sock(cep->sock->sk);\n";

/// The command that builds the modules.
pub const COMMAND: &str = "cargo xtask vm siw";

/// Returns the reason why no guest with siw can run here, if any.
pub fn obstacle() -> Option<String> {
    super::obstacle().or_else(|| kernel::find().and_then(|k| find(&k, Build::Fixed)).err().map(|e| format!("{e:#}")))
}

/// Returns the module for a kernel.
pub fn find(kernel: &Kernel, build: Build) -> Result<PathBuf> {
    let path = place(kernel).join(build.name()).join("siw.ko");
    ensure!(path.is_file(), "no siw.ko for {}; `{COMMAND}` fetches its sources (155 MB) and builds it", kernel.package);
    Ok(path)
}

fn place(kernel: &Kernel) -> PathBuf {
    kernel.image.with_file_name("siw")
}

/// Builds both modules for a kernel, unless they are here.
pub fn build(kernel: &Kernel) -> Result<()> {
    if Build::BOTH.iter().all(|&build| find(kernel, build).is_ok()) {
        return Ok(());
    }
    let missing: Vec<_> = ["make", "strip", "tar", "xz"].into_iter().filter(|n| skip::on_path(n).is_none()).collect();
    ensure!(
        missing.is_empty(),
        "not installed: {}; as root: apt-get install make binutils xz-utils",
        missing.join(", ")
    );
    let scratch = kernel::top().join(format!("siw-{}", std::process::id()));
    let result = build_in(kernel, &scratch).with_context(|| format!("cannot build siw.ko for {}", kernel.package));
    let _ = fs::remove_dir_all(&scratch);
    result
}

fn build_in(kernel: &Kernel, scratch: &Path) -> Result<()> {
    let release = kernel.release()?;
    let name = format!("linux-headers-{release}");
    let headers = kernel::download(&name, &scratch.join("headers"))?;
    let about = Control::of(&headers)?;
    if let Some(compiler) = about.compiler().filter(|name| skip::on_path(name).is_none()) {
        bail!("not installed: {compiler}; as root: apt-get install {compiler}");
    }
    let root = scratch.join("root");
    unpack(&headers, &root)?;
    for package in about.packages(&["linux-headers-", "linux-kbuild-"]) {
        unpack(&kernel::download(&package, &scratch.join(&package))?, &root)?;
    }
    let source = about.source()?;
    let tree = take_sources(&kernel::download(&source, &scratch.join("source"))?, scratch)?;
    let headers = root.join("usr/src").join(name);
    relocate(&headers.join("Makefile"), &root)?;
    let built = scratch.join("built");
    for build in Build::BOTH {
        if build == Build::Fixed {
            let file = tree.join(PATCHED);
            fs::write(&file, fixed(&fs::read_to_string(&file)?)?)?;
        }
        make(&headers, &tree)?;
        let dir = built.join(build.name());
        fs::create_dir_all(&dir)?;
        // Debugging information is most of it.
        let module = dir.join("siw.ko");
        kernel::output(Command::new("strip").arg("-g").arg("-o").arg(&module).arg(tree.join("siw.ko")))?;
    }
    let _ = fs::remove_dir_all(place(kernel));
    fs::rename(&built, place(kernel)).context("cannot put the modules beside the kernel")
}

fn unpack(deb: &Path, root: &Path) -> Result<()> {
    kernel::output(Command::new("dpkg-deb").arg("-x").arg(deb).arg(root)).map(drop)
}

/// Extracts siw's sources from a linux-source package: a tar file in a tar file.
fn take_sources(deb: &Path, scratch: &Path) -> Result<PathBuf> {
    let package = deb.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('_').next());
    let package = package.context("the source package has no name")?;
    let mut outer = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(deb).stdout(Stdio::piped()).spawn()?;
    let mut inner = Command::new("tar")
        .args(["-xO", &format!("./usr/src/{package}.tar.xz")])
        .stdin(outer.stdout.take().context("no pipe")?)
        .stdout(Stdio::piped())
        .spawn()?;
    let status = Command::new("tar")
        .args(["-xJ", "--strip-components=1", "-C"])
        .arg(scratch)
        .arg(format!("{package}/{SOURCES}"))
        .stdin(inner.stdout.take().context("no pipe")?)
        .status()?;
    let whole = outer.wait()?.success() && inner.wait()?.success() && status.success();
    ensure!(whole, "{} has no {SOURCES}", deb.display());
    Ok(scratch.join(SOURCES))
}

/// Lets a Makefile for /usr/src work below `root`.
fn relocate(makefile: &Path, root: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile).with_context(|| format!("cannot read {}", makefile.display()))?;
    let below = format!("{}/usr/src/", root.display());
    fs::write(makefile, text.replace("/usr/src/", &below)).context("cannot write the headers' Makefile")
}

/// Returns the source file with [`FIX`].
fn fixed(text: &str) -> Result<String> {
    let (before, after) = text.split_once(ANCHOR).context("siw_accept has changed: see FIX in guest/siw.rs")?;
    ensure!(!after.contains(ANCHOR), "siw_accept is not the only function of its shape: see FIX in guest/siw.rs");
    Ok([before, ANCHOR, FIX, after].concat())
}

fn make(headers: &Path, tree: &Path) -> Result<()> {
    let mut make = Command::new("make");
    make.arg("-s").arg(format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from)));
    make.arg("-C").arg(headers).arg(format!("M={}", tree.display()));
    // The headers' configuration has siw off; BTF would need the kernel's own.
    kernel::output(make.args(["CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_comes_once() {
        let text = format!("before\n{ANCHOR}\tsiw_cep_set_free(cep);\n");
        let patched = fixed(&text).expect("it has the anchor");
        assert_eq!(patched, format!("before\n{ANCHOR}{FIX}\tsiw_cep_set_free(cep);\n"));
        assert!(fixed("nothing").is_err() && fixed(&text.repeat(2)).is_err());
    }
}
