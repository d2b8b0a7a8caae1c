//! `cargo xtask dist --check`: installs every package into a scratch directory, runs it as root and as an ordinary user
//! in a network namespace of its own, and removes it. Nothing may stay behind.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_interop::{Lab, Shape, Table, Who, skip};

use super::layout::listing;
use super::{Packages, output_of};

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks all packages; the process ends with a failure if one fails.
pub fn run(packages: &Packages) -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let mut table = Table::new("packages");
    table.case("tarball", || check_tarball(&lab, &packages.tarball));
    table.case("Debian package", || check_debian(&lab, &packages.debian));
    if skip::have("the wheel", &["python3"]) {
        table.case("wheel", || check_wheel(&lab, &packages.wheel));
    }
    table.finish();
    Ok(())
}

fn check_tarball(lab: &Lab, tarball: &Path) -> Result<()> {
    let unpacked = new_directory(lab, "unpacked")?;
    output_of(Command::new("tar").arg("-xf").arg(tarball).args(["--strip-components=1", "-C"]).arg(&unpacked))?;
    let prefix = new_directory(lab, "prefix")?;
    std::fs::create_dir(prefix.join("bin"))?;
    std::fs::write(prefix.join("bin/neighbour"), "")?;
    let before = listing(&prefix)?;
    let install = || output_of(Command::new(unpacked.join("install.sh")).arg("--prefix").arg(&prefix));
    install()?;
    let libraries = prefix.join("lib/weft");
    check_command(lab, &prefix.join("bin/weft"), &libraries)?;
    check_faulty_libraries(lab, &prefix.join("bin/weft"), &libraries)?;
    // Over itself, as an upgrade does.
    install()?;
    check_command(lab, &prefix.join("bin/weft"), &libraries)?;
    output_of(Command::new(libraries.join("install.sh")).arg("--uninstall"))?;
    ensure_equal(&before, &listing(&prefix)?)
}

fn check_debian(lab: &Lab, package: &Path) -> Result<()> {
    let root = new_directory(lab, "root")?;
    output_of(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    let libraries = root.join(format!("usr/lib/{}-linux-gnu/weft", super::ARCH));
    check_command(lab, &root.join("usr/bin/weft"), &libraries)?;
    let paths = listing(&root)?;
    for path in [
        "usr/share/man/man1/weft-run.1.gz",
        "usr/share/bash-completion/completions/weft",
        "usr/share/zsh/vendor-completions/_weft",
        "usr/share/fish/vendor_completions.d/weft.fish",
        "usr/lib/systemd/system/weft-sm.service",
        "etc/apparmor.d/weft",
    ] {
        ensure!(paths.iter().any(|p| p == path), "{path} is not in the package");
    }
    let fields = output_of(Command::new("dpkg-deb").arg("--field").arg(package))?;
    ensure!(fields.contains("Depends: libc6 (>= 2."), "{fields}");
    let conffiles = output_of(Command::new("dpkg-deb").args(["--info"]).arg(package).arg("conffiles"))?;
    ensure!(conffiles.trim() == "/etc/apparmor.d/weft", "{conffiles}");
    check_faulty_libraries(lab, &root.join("usr/bin/weft"), &libraries)
}

fn check_wheel(lab: &Lab, wheel: &Path) -> Result<()> {
    let venv = new_directory(lab, "venv")?;
    output_of(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let pip = |words: &[&str]| output_of(Command::new(venv.join("bin/python")).args(["-Bm", "pip"]).args(words));
    let before = listing(&venv)?;
    let wheel = wheel.to_str().context("the wheel's path is not UTF-8")?;
    pip(&["install", "--no-index", "--no-compile", wheel])?;
    let package = "import weft_rdma; print(weft_rdma.library_directory)";
    let libraries = output_of(Command::new(venv.join("bin/python")).args(["-Bc", package]))?;
    check_command(lab, &venv.join("bin/weft"), Path::new(libraries.trim()))?;
    check_faulty_libraries(lab, &venv.join("bin/weft"), Path::new(libraries.trim()))?;
    pip(&["uninstall", "--yes", "weft-rdma"])?;
    ensure_equal(&before, &listing(&venv)?)
}

/// Lets the installed command say where its libraries are, and carry traffic over them.
fn check_command(lab: &Lab, weft: &Path, libraries: &Path) -> Result<()> {
    let weft = weft.to_str().context("a path in UTF-8")?;
    let libraries = libraries.canonicalize()?;
    for who in Who::BOTH {
        let run = |words: &[&str]| {
            let line = [&[weft], words].concat();
            lab.start_bare(lab.client(), who, &line)?.wait(LIMIT).success().map(|ended| ended.text)
        };
        ensure!(run(&["--version"])?.contains(super::VERSION), "another release");
        let env = run(&["env"])?;
        ensure!(env.contains(&libraries.display().to_string()), "{who:?}: other libraries: {env}");
        let report = run(&["demo"])?;
        ensure!(report.contains("bandwidth of 1 MiB RDMA READs"), "{who:?}: no bandwidth: {report}");
        let devices = run(&["run", "--", weft, "ibv_devices"])?;
        ensure!(devices.contains("rxe") || devices.contains("weft"), "{who:?}: no device: {devices}");
    }
    Ok(())
}

/// Libraries of another release, and a set that lacks one, are errors with a remedy. Leaves the set as it was.
fn check_faulty_libraries(lab: &Lab, weft: &Path, libraries: &Path) -> Result<()> {
    let refuses = |expected: &str| {
        let weft = weft.to_str().context("a path in UTF-8")?;
        let ended = lab.start_bare(lab.client(), Who::Ordinary, &[weft, "env"])?.wait(LIMIT);
        ensure!(!ended.ok(), "it runs with faulty libraries: {}", ended.text);
        ensure!(ended.text.contains(expected) && ended.text.contains("reinstall Weft"), "{}", ended.text);
        Ok(())
    };
    let (library, aside) = (libraries.join("libibumad.so.3"), libraries.join("aside"));
    std::fs::rename(&library, &aside)?;
    refuses("there is no libibumad.so.3")?;
    std::fs::rename(&aside, &library)?;
    let release = libraries.join("RELEASE");
    let whole = std::fs::read(&release)?;
    std::fs::write(&release, "0.0.1 x86_64\n")?;
    refuses("they belong to weft 0.0.1 x86_64")?;
    std::fs::write(&release, whole)?;
    Ok(())
}

/// A directory that the lab's ordinary user can read.
fn new_directory(lab: &Lab, name: &str) -> Result<PathBuf> {
    let dir = lab.file(name);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

fn ensure_equal(before: &[String], after: &[String]) -> Result<()> {
    let (lost, left): (Vec<_>, Vec<_>) = (
        before.iter().filter(|path| !after.contains(path)).collect(),
        after.iter().filter(|path| !before.contains(path)).collect(),
    );
    ensure!(lost.is_empty() && left.is_empty(), "removal leaves {left:?}, and took {lost:?}");
    Ok(())
}
