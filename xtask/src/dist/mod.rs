//! `cargo xtask dist`: the packages that users install, from the `dist` profile's build.
//!
//! A tarball with an installer, a Debian package, a Python wheel, and what a container image is built from. Each file
//! here makes one of them from the same [`Product`]; `check` installs and runs all of them.

mod check;
mod debian;
mod elf;
mod layout;
mod product;
mod tarball;
mod wheel;

use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;
use weft_interop::product::SHIPPED;

use product::Product;

/// The release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The processor, as Rust, uname and wheels name it.
const ARCH: &str = std::env::consts::ARCH;

/// Options of `dist`.
#[derive(Args)]
pub struct Options {
    /// Install every package into a scratch directory, run it, and remove it.
    #[arg(long)]
    check: bool,
}

/// The packages that one run makes.
struct Packages {
    tarball: PathBuf,
    debian: PathBuf,
    wheel: PathBuf,
}

/// Builds, and makes all packages.
pub fn run(options: &Options) -> Result<()> {
    crate::cargo::run(&["build", "--profile", SHIPPED], &[])?;
    let product = Product::stage()?;
    let packages =
        Packages { tarball: tarball::make(&product)?, debian: debian::make(&product)?, wheel: wheel::make(&product)? };
    let symbols = tarball::make_symbols(&product)?;
    let container = debian::container_context(&packages.debian)?;
    for made in [&packages.tarball, &packages.debian, &packages.wheel, &symbols, &container] {
        eprintln!("{}", made.display());
    }
    if options.check { check::run(&packages) } else { Ok(()) }
}

/// Cargo's output directory, where the packages go, too.
fn output() -> PathBuf {
    weft_interop::product::target().join(SHIPPED)
}

/// A new, empty directory below the output directory.
fn scratch(name: &str) -> Result<PathBuf> {
    let dir = output().join("packaging").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

/// Path of a file of the repository.
fn source(path: &str) -> PathBuf {
    crate::cargo::root().join(path)
}

/// A template of the repository with its `@NAME@` filled in.
fn filled(path: &str, values: &[(&str, &str)]) -> Result<String> {
    let text = std::fs::read_to_string(source(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(values.iter().fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value)))
}

/// Seconds since 1970 that packages carry as their files' time: the last commit's, so that the same sources give the
/// same packages.
fn epoch() -> Result<String> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(set);
    }
    let out = output_of(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(crate::cargo::root()))?;
    Ok(out.trim().to_owned())
}

/// Runs a command to its end; an error with its standard error unless it succeeds.
fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot run {name}: is it installed?"))?;
    if !out.status.success() {
        bail!("{name} failed: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Reads a file; the error names it.
fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file; the error names it.
fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
