//! Debian's kernel: finds the newest package, fetches it without installing it, and extracts the parts that a guest
//! needs.
//!
//! It is unpacked below `target/vm`, a directory for each package. `WEFT_KERNEL_DEB` names a package from another
//! source; where a kernel comes in several packages, all of them, separated by colons.

use super::control::Control;
use crate::product;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The package that depends on the newest kernel.
const META_PACKAGE: &str = "linux-image-amd64";

/// Directory name suffix of an unpacked package below `target/vm`; the number changes with the choice of [`PARTS`].
const MARK: &str = "weft-6";

/// Beginnings of the names of the packages that contain a newer kernel, whose own package only depends on them.
pub(super) const SPLIT: &[&str] = &["linux-binary-", "linux-modules-"];

/// Parts of the packages to extract: the kernel, and modules for RDMA over virtio, for NFS, FUSE, iSCSI and NVMe.
const PARTS: &[&str] = &[
    "boot/vmlinuz-*",
    "lib/modules/*/kernel/arch/x86/crypto",
    "lib/modules/*/kernel/block",
    "lib/modules/*/kernel/crypto",
    "lib/modules/*/kernel/drivers/block",
    "lib/modules/*/kernel/drivers/char",
    "lib/modules/*/kernel/drivers/infiniband",
    "lib/modules/*/kernel/drivers/net/*.ko*",
    "lib/modules/*/kernel/drivers/nvme",
    "lib/modules/*/kernel/drivers/scsi/libiscsi.ko*",
    "lib/modules/*/kernel/drivers/scsi/scsi_*.ko*",
    "lib/modules/*/kernel/drivers/scsi/sd_mod.ko*",
    "lib/modules/*/kernel/drivers/target",
    "lib/modules/*/kernel/drivers/virtio",
    "lib/modules/*/kernel/fs/configfs",
    "lib/modules/*/kernel/fs/exportfs",
    "lib/modules/*/kernel/fs/fscache",
    "lib/modules/*/kernel/fs/fuse",
    "lib/modules/*/kernel/fs/lockd",
    "lib/modules/*/kernel/fs/netfs",
    "lib/modules/*/kernel/fs/nfs",
    "lib/modules/*/kernel/fs/nfs_common",
    "lib/modules/*/kernel/fs/nfsd",
    "lib/modules/*/kernel/fs/nls",
    "lib/modules/*/kernel/lib",
    "lib/modules/*/kernel/net",
];

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name of the package.
    pub package: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The directory of its modules.
    pub modules: PathBuf,
}

impl Kernel {
    /// Returns its release, as `uname -r` prints it.
    pub(super) fn release(&self) -> Result<String> {
        let name = fs::read_dir(&self.modules)?.flatten().find_map(|entry| entry.file_name().into_string().ok());
        name.with_context(|| format!("{}: empty", self.modules.display()))
    }
}

/// Returns the newest unpacked kernel, or fetches one.
pub fn find() -> Result<Kernel> {
    match unpacked().pop() {
        Some(dir) if std::env::var_os("WEFT_KERNEL_DEB").is_none() => open(&dir),
        _ => fetch(),
    }
}

/// Asks apt for the newest kernel, and fetches it unless it is here. If apt is not usable, an unpacked kernel suffices.
pub fn fetch() -> Result<Kernel> {
    if let Some(debs) = std::env::var_os("WEFT_KERNEL_DEB") {
        let debs: Vec<_> = std::env::split_paths(&debs).collect();
        let name =
            debs.first().and_then(|deb| deb.file_stem()?.to_str()).context("WEFT_KERNEL_DEB names no package")?;
        return open(&unpack(&debs, name)?);
    }
    let here = unpacked().pop();
    let package = match (newest(), &here) {
        (Ok(package), _) => package,
        (Err(_), Some(dir)) => return open(dir),
        (Err(error), None) => return Err(error.context(HELP)),
    };
    let dir = top().join(format!("{package}.{MARK}"));
    if dir.exists() {
        return open(&dir);
    }
    let place = top().join(format!("fetch-{}", std::process::id()));
    let result = download_all(&package, &place).and_then(|debs| unpack(&debs, &package));
    let _ = fs::remove_dir_all(&place);
    match (result, here) {
        (Ok(dir), _) => {
            // Remove the older ones.
            everything()
                .filter(|old| old.extension().is_some() && *old != dir)
                .for_each(|old| drop(fs::remove_dir_all(old)));
            open(&dir)
        }
        (Err(_), Some(here)) => open(&here),
        (Err(error), None) => Err(error.context(HELP)),
    }
}

const HELP: &str = "no Debian kernel to run as a guest. With apt's archives in reach, `apt-get update` as root mends \
                    this; otherwise fetch the package that linux-image-amd64 depends on elsewhere and name the file \
                    with WEFT_KERNEL_DEB";

pub(super) fn top() -> PathBuf {
    product::target().join("vm")
}

fn everything() -> impl Iterator<Item = PathBuf> {
    fs::read_dir(top()).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the directories of unpacked kernels, the latest last.
fn unpacked() -> Vec<PathBuf> {
    let mut found: Vec<_> = everything().filter(|path| path.extension().is_some_and(|e| e == MARK)).collect();
    found.sort_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
    found
}

/// Returns the newest kernel package, by its meta-package's dependency.
fn newest() -> Result<String> {
    let text = output(Command::new("apt-cache").args(["depends", META_PACKAGE]))?;
    let package = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let package = package.with_context(|| format!("apt-cache knows no dependency of {META_PACKAGE}"))?;
    Ok(format!("linux-image-{package}"))
}

/// Downloads a package (`NAME`, or `NAME=VERSION`) into a directory of its own.
pub(super) fn download(package: &str, place: &Path) -> Result<PathBuf> {
    fs::create_dir_all(place)?;
    output(Command::new("apt-get").args(["download", "-q", package]).current_dir(place))?;
    let mut files = fs::read_dir(place)?.flatten().map(|entry| entry.path());
    files.find(|path| path.extension().is_some_and(|e| e == "deb")).context("apt-get download left no package")
}

/// Downloads a kernel's package and those that it consists of.
fn download_all(package: &str, place: &Path) -> Result<Vec<PathBuf>> {
    let image = download(package, &place.join(package))?;
    let parts = Control::of(&image)?.packages(SPLIT);
    let parts = parts.iter().map(|part| download(part, &place.join(part)));
    [Ok(image)].into_iter().chain(parts).collect()
}

/// Extracts the needed parts of the packages; the directory appears once it is complete.
fn unpack(debs: &[PathBuf], name: &str) -> Result<PathBuf> {
    let dir = top().join(format!("{name}.{MARK}"));
    if dir.exists() {
        return Ok(dir);
    }
    let part = top().join(format!("unpack-{}", std::process::id()));
    fs::create_dir_all(&part)?;
    let result = unpack_into(debs, &part).and_then(|()| fs::rename(&part, &dir).context("cannot name the kernel"));
    let _ = fs::remove_dir_all(&part);
    // Another process may have been faster.
    if dir.exists() { Ok(dir) } else { result.map(|()| dir) }
}

fn unpack_into(debs: &[PathBuf], part: &Path) -> Result<()> {
    let ended = debs.iter().map(|deb| extract(deb, part)).collect::<Result<Vec<_>>>()?;
    let kernel = vmlinuz(part).with_context(|| {
        let named = debs.iter().zip(ended).map(|(deb, tar)| format!("{} (tar: {tar})", deb.display()));
        format!("no kernel in {}", named.collect::<Vec<_>>().join(", "))
    })?;
    let image = part.join("image");
    match elf(&fs::read(&kernel)?) {
        Ok(elf) => fs::write(image, elf)?,
        // QEMU boots the compressed one as well, but seconds slower.
        Err(_) => fs::rename(&kernel, image)?,
    }
    Ok(())
}

/// Extracts the needed parts of one package; returns tar's status, which tells of parts that the package lacks, too.
fn extract(deb: &Path, part: &Path) -> Result<ExitStatus> {
    let mut package = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let tar = package.stdout.take().context("dpkg-deb has no output")?;
    let patterns = PARTS.iter().flat_map(|part| [format!("./{part}"), format!("./usr/{part}")]);
    let modules = ["./usr/lib/modules/*/vmlinuz".to_owned()];
    let status = Command::new("tar")
        .args(["-x", "--wildcards", "-C"])
        .arg(part)
        .args(patterns.chain(modules))
        .stdin(tar)
        // It complains about each pattern without a match; the callers report missing files themselves.
        .stderr(Stdio::null())
        .status()
        .context("cannot run tar")?;
    ensure!(package.wait()?.success(), "{} is not a whole Debian package", deb.display());
    Ok(status)
}

/// Returns where the package put the kernel: in /boot, or (newer ones) beside the modules.
fn vmlinuz(dir: &Path) -> Option<PathBuf> {
    let places = ["boot", "lib/modules", "usr/lib/modules"].map(|place| dir.join(place));
    let is_kernel = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz"));
    places.iter().flat_map(|place| files(place)).find(|path| is_kernel(path))
}

/// Returns the ELF kernel inside a bzImage (Linux's Documentation/arch/x86/boot.rst). QEMU boots it with PVH, so that
/// the guest skips its own, slow decompression.
fn elf(image: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| image.get(at..at + 4).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?) as usize));
    let sectors = usize::from(*image.get(0x1f1).context("no boot header")?);
    let (offset, len) = word(0x248).zip(word(0x24c)).context("no boot header")?;
    let start = (sectors + 1) * 512 + offset;
    // The uncompressed size follows the payload.
    let payload = image.get(start..start + len.saturating_sub(4)).context("the kernel is cut short")?;
    let unpacker: &[&str] = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => &["xz", "-dc", "--single-stream"],
        [0x28, 0xb5, 0x2f, 0xfd, ..] => &["zstd", "-dc"],
        [0x1f, 0x8b, ..] => &["gzip", "-dc"],
        _ => bail!("the kernel is packed in an unknown way"),
    };
    let elf = unpacked_by(unpacker, payload)?;
    ensure!(elf.starts_with(b"\x7fELF"), "what the kernel contains is not an ELF file");
    Ok(elf)
}

/// Decompresses `data` with a program.
pub fn unpacked_by(words: &[&str], data: &[u8]) -> Result<Vec<u8>> {
    let (program, args) = words.split_first().context("an empty command")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let mut to = child.stdin.take().context("no pipe")?;
    let out = std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut to, data));
        child.wait_with_output()
    })?;
    // gzip and zstd complain about the bytes after the end, once they have decompressed everything.
    ensure!(!out.stdout.is_empty(), "{program} unpacked nothing ({})", out.status);
    Ok(out.stdout)
}

fn open(dir: &Path) -> Result<Kernel> {
    let modules = ["lib/modules", "usr/lib/modules"].iter().map(|place| dir.join(place)).find(|path| path.is_dir());
    let modules = modules.with_context(|| format!("{}: no modules; remove it", dir.display()))?;
    let package = dir.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    Ok(Kernel { package, image: dir.join("image"), modules })
}

/// Returns every file below `dir`.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Runs a command and returns its output; an error has what it wrote to its error output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
