//! Build helper for the drop-in libraries: exports with symbol versions, from plain `cargo build` on stable Rust.
//!
//! A program linked against rdma-core asks the loader for `ibv_open_device@IBVERBS_1.1`, so the loader refuses a
//! library without symbol versions. Rust has no support for them; this helper adds them in three parts, driven by one
//! reviewed list, `NAME.sym` (`list.rs` describes its format):
//!
//! 1. `exports.rs`, included by the library: a one-jump assembler trampoline for each versioned symbol, with the
//!    `.symver` directive that names it. (The directive on a Rust function itself would need the same codegen unit and
//!    would leave an unversioned twin.) Unimplemented symbols get a stub that fails properly.
//! 2. a version script with the chain of nodes.
//! 3. the linker arguments, after a probe that the linker can combine the script with rustc's own.
//!
//! It also creates `target/<profile>/rdma/`, which contains the libraries under the names that the loader looks for:
//! `LD_LIBRARY_PATH=target/debug/rdma ibv_devices` works right after a build.

mod emit;
mod import;
mod linker;
mod links;
mod list;
mod source;

use std::path::PathBuf;
use std::{env, fs};

/// Runs all steps for the library `soname` (such as `libibverbs.so.1`) whose list is `sym` in the crate's root.
///
/// # Panics
/// If the list and the sources disagree, or no usable linker is found; the message says what to do.
pub fn build(soname: &str, sym: &str) {
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    let sym = root.join(sym);
    println!("cargo:rerun-if-changed={}", sym.display());
    println!("cargo:rerun-if-changed={}", root.join("src").display());

    let text = fs::read_to_string(&sym).unwrap_or_else(|e| panic!("cannot read {}: {e}", sym.display()));
    let symbols = list::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", sym.display()));
    let functions = source::exported_functions(&root.join("src"))
        .unwrap_or_else(|e| panic!("cannot read the sources of {soname}: {e}"));
    let complaints = list::check(&symbols, &functions);
    assert!(complaints.is_empty(), "{} and the sources disagree:\n{}", sym.display(), complaints.join("\n"));

    let map = out.join("exports.map");
    write(&out.join("exports.rs"), &emit::exports(&symbols, &functions, &var("CARGO_CFG_TARGET_ARCH")));
    write(&map, &emit::version_script(&symbols));

    for arg in linker::usable(&out) {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", map.display());
    // The libraries have threads and thread-local state: dlclose must not unmap them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    if let Err(e) = links::make(&out, soname) {
        println!("cargo:warning=no {soname} in the target directory's rdma/: {e}");
    }
}

/// Makes a library that exports plain names findable beside the drop-in libraries. Loaders take it by its path, so it
/// has no versions.
pub fn build_plain(name: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete,-z,now");
    if let Err(e) = links::make_plain(&PathBuf::from(var("OUT_DIR")), name) {
        println!("cargo:warning=no {name} in the target directory's rdma/: {e}");
    }
}

/// Lets the library call another of ours, `soname`, whose list is `sym`: `#[link(name = "ibverbs")]` finds the symbols
/// with the versions in the list.
///
/// # Panics
/// As [`build`].
pub fn import(soname: &str, sym: &str) {
    let sym = PathBuf::from(var("CARGO_MANIFEST_DIR")).join(sym);
    let out = PathBuf::from(var("OUT_DIR")).join("import");
    println!("cargo:rerun-if-changed={}", sym.display());
    let text = fs::read_to_string(&sym).unwrap_or_else(|e| panic!("cannot read {}: {e}", sym.display()));
    let symbols = list::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", sym.display()));
    fs::create_dir_all(&out).unwrap_or_else(|e| panic!("cannot make {}: {e}", out.display()));
    if let Err(e) = import::make(&out, soname, &symbols) {
        panic!("cannot make a library to link against in place of {soname}:\n{e}");
    }
    println!("cargo:rustc-link-search=native={}", out.display());
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: this runs in a build script"))
}

fn write(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
