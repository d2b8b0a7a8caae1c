//! Finds a linker that accepts a second version script.
//!
//! rustc passes the linker an anonymous version script of its own. lld and mold accept ours beside it; GNU ld refuses
//! the pair ("anonymous version tag cannot be combined with other version tags"). rustc on x86-64 Linux includes lld
//! and uses it; other targets, older toolchains and some distributions use GNU ld. So this module first links a tiny
//! library, with the linker that the real one will get, then with the alternatives that the C compiler may know.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

const PROBE: &str = r#"#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
core::arch::global_asm!(".globl probe_impl", "probe_impl: .byte 0", ".symver probe_impl, weft_probe@@WEFT_PROBE_1, remove");
"#;
const PROBE_MAP: &str = "WEFT_PROBE_1 { global: weft_probe; local: *; };\n";

/// Linker arguments to try, in this order.
const CANDIDATES: [&[&str]; 3] = [&[], &["-fuse-ld=lld"], &["-fuse-ld=mold"]];

/// Returns the extra arguments that make the linker accept a version script beside rustc's.
///
/// # Panics
/// If none of the candidates works.
pub fn usable(out: &Path) -> Vec<String> {
    for name in ["RUSTC_LINKER", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let mut first_error = String::new();
    for candidate in CANDIDATES {
        match probe(out, candidate) {
            Ok(()) => return candidate.iter().map(|arg| (*arg).to_owned()).collect(),
            Err(e) if first_error.is_empty() => first_error = e,
            Err(_) => {}
        }
    }
    panic!(
        "\nNo linker on this machine can give a Rust library its symbol versions.\n\
         The default one said:\n{}\n\n\
         GNU ld cannot combine a version script with the one that rustc passes. Remedy: install lld or mold\n\
         (`apt-get install lld`), or use a toolchain that brings lld along (rustup, x86-64, Rust 1.90 or newer).\n",
        last_lines(&first_error, 12)
    );
}

fn probe(out: &Path, extra: &[&str]) -> Result<(), String> {
    let source = out.join("probe.rs");
    let map = out.join("probe.map");
    fs::write(&source, PROBE).map_err(|e| e.to_string())?;
    fs::write(&map, PROBE_MAP).map_err(|e| e.to_string())?;
    let mut rustc = rustc(extra);
    rustc.arg(&source).arg("-o").arg(out.join("libprobe.so"));
    rustc.arg(format!("-Clink-arg=-Wl,--version-script={}", map.display()));
    run(&mut rustc)
}

/// Returns rustc's command line for a tiny library, as cargo runs it, with more linker arguments.
pub fn rustc<A: AsRef<str>>(extra: &[A]) -> Command {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--crate-type=cdylib", "--edition=2021", "-Cpanic=abort", "--cap-lints=allow"]);
    if let Ok(target) = env::var("TARGET") {
        rustc.args(["--target", &target]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut arg = std::ffi::OsString::from("-Clinker=");
        arg.push(linker);
        rustc.arg(arg);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    for arg in extra {
        rustc.arg(format!("-Clink-arg={}", arg.as_ref()));
    }
    rustc.arg("-Clink-arg=-nostartfiles");
    rustc
}

/// Runs it; an error is its output.
pub fn run(rustc: &mut Command) -> Result<(), String> {
    let output = rustc.output().map_err(|e| format!("cannot run rustc: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
