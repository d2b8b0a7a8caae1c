//! Import libraries: one of our libraries may call another, which cargo builds separately. An import library has the
//! other's name, versions and symbols but no code; at run time the loader uses the real one.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::list::{Answer, Symbol};
use crate::{emit, linker};

/// Generates the library's source: one byte for each symbol.
fn source(symbols: &[Symbol]) -> String {
    let mut rs = String::from("#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n");
    for s in symbols {
        let label = format!("\\\"weft.{}.{}\\\"", s.name, s.node);
        writeln!(
            rs,
            "core::arch::global_asm!(\".globl {label}\", \".type {label},@function\", \"{label}: .byte 0\", \
             \".size {label}, 1\", \".symver {label}, {}@@{}, remove\");",
            s.name, s.node
        )
        .expect("writing to a String");
    }
    rs
}

/// Makes `out/NAME.so` for `soname` (`libNAME.so.1`).
pub fn make(out: &Path, soname: &str, symbols: &[Symbol]) -> Result<(), String> {
    let symbols: Vec<Symbol> = symbols.iter().filter(|s| s.default && s.answer != Answer::Data).cloned().collect();
    let name = soname.split(".so").next().unwrap_or(soname);
    let (rs, map) = (out.join(format!("{name}.rs")), out.join(format!("{name}.map")));
    fs::write(&rs, source(&symbols)).map_err(|e| e.to_string())?;
    fs::write(&map, emit::version_script(&symbols)).map_err(|e| e.to_string())?;
    let mut rustc = linker::rustc(&linker::usable(out));
    rustc.arg(&rs).arg("-o").arg(out.join(format!("{name}.so")));
    rustc.arg(format!("-Clink-arg=-Wl,-soname,{soname}"));
    rustc.arg(format!("-Clink-arg=-Wl,--version-script={}", map.display()));
    linker::run(&mut rustc)
}
