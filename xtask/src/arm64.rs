//! `cargo xtask arm64`: builds the workspace for 64-bit ARM, and runs the unit and sim rings under QEMU's user emulation.

use crate::cargo;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Debian's cross compiler.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// The cross compiler's C library, where the emulator looks for the loader.
const C_LIBRARY: &str = "/usr/aarch64-linux-gnu";

/// Debian's names of the emulator: the second is in qemu-user-static.
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];

/// Variable by which tests of system calls that the emulator lacks know that they cannot run.
const EMULATED: &str = "WEFT_EMULATED";

/// Options of `arm64`.
#[derive(clap::Args)]
pub struct Options {
    /// Run only tests whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
}

/// Builds everything, then runs both rings.
pub fn run(options: &Options) -> Result<()> {
    let runner = runner()?;
    let env = [
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner.as_str()),
        (EMULATED, "1"),
    ];
    let filter: Vec<&str> = options.filter.as_deref().into_iter().collect();
    cargo::run(&["build", "--workspace", "--all-targets", "--target", TARGET], &env)?;
    let unit = ["test", "--workspace", "--exclude", "weft-interop", "--exclude", "weft-sim", "--no-fail-fast"];
    cargo::run(&[&unit[..], &["--target", TARGET], &filter].concat(), &env)?;
    cargo::run(&[&["test", "-p", "weft-sim", "--tests", "--target", TARGET][..], &filter].concat(), &env)
}

/// The command that runs a program for the target; an error that names what is missing.
fn runner() -> Result<String> {
    let mut missing = Vec::new();
    if !has_standard_library() {
        missing.push(format!(
            "the standard library: `rustup target add {TARGET}`, or Debian's libstd-rust-dev:arm64 of rustc's version"
        ));
    }
    if find(COMPILER).is_none() {
        missing.push(format!("{COMPILER}: `apt install gcc-aarch64-linux-gnu`"));
    }
    if !Path::new(C_LIBRARY).join("include/stdio.h").exists() {
        missing.push(format!("{C_LIBRARY}: `apt install libc6-dev-arm64-cross`"));
    }
    if find("ld.lld").is_none() {
        missing.push("ld.lld, which gives Rust libraries symbol versions: `apt install lld`".to_owned());
    }
    let emulator = EMULATORS.iter().find(|name| find(name).is_some());
    if emulator.is_none() {
        missing.push(format!("{}: `apt install qemu-user`", EMULATORS[0]));
    }
    match emulator {
        Some(emulator) if missing.is_empty() => Ok(format!("{emulator} -L {C_LIBRARY}")),
        _ => bail!("arm64 needs\n  {}", missing.join("\n  ")),
    }
}

fn has_standard_library() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let dir = out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    !dir.is_empty() && Path::new(&dir).is_dir()
}

/// A program of the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
