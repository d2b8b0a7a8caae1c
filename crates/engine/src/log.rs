//! Diagnostics. A library that a program loaded has no business on its terminal, so nothing is printed unless
//! `WEFT_LOG` names a place: `stderr`, or a file, which is appended to.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

enum Place {
    Nowhere,
    Stderr,
    File(File),
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| match std::env::var_os("WEFT_LOG") {
        None => Place::Nowhere,
        // The caller of a set-user-ID program must not have it write where the caller could not.
        _ if weft_sys::process::gained_privilege() => Place::Nowhere,
        Some(name) if name.is_empty() => Place::Nowhere,
        Some(name) if name == "stderr" => Place::Stderr,
        Some(name) => match File::options().append(true).create(true).open(name) {
            Ok(file) => Place::File(file),
            Err(_) => Place::Nowhere,
        },
    })
}

/// Write a line.
pub fn note(text: &str) {
    let line = || format!("weft[{}]: {text}\n", std::process::id());
    // What cannot be written is lost: there is nobody to tell.
    match place() {
        Place::Nowhere => {}
        Place::Stderr => drop(std::io::stderr().write_all(line().as_bytes())),
        Place::File(file) => drop((&*file).write_all(line().as_bytes())),
    }
}
