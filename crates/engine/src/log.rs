//! Diagnostics. A library that a program loads must not write to its terminal, so nothing is printed unless `WEFT_LOG`
//! names a destination: `stderr`, or a file to append to.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use weft_sys::file_size::without_signal;

enum Place {
    Nowhere,
    Stderr,
    File(File),
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| match std::env::var_os("WEFT_LOG") {
        None => Place::Nowhere,
        // A set-user-ID program must not write where its caller could not.
        _ if weft_sys::process::gained_privilege() => Place::Nowhere,
        Some(name) if name.is_empty() => Place::Nowhere,
        Some(name) if name == "stderr" => Place::Stderr,
        Some(name) => match File::options().append(true).create(true).open(name) {
            Ok(file) => Place::File(file),
            Err(_) => Place::Nowhere,
        },
    })
}

/// Writes a line.
pub fn note(text: &str) {
    let line = || format!("weft[{}]: {text}\n", std::process::id());
    // A line that cannot be written is lost; there is no other place to report it.
    match place() {
        Place::Nowhere => {}
        Place::Stderr => without_signal(|| drop(std::io::stderr().write_all(line().as_bytes()))),
        Place::File(file) => without_signal(|| drop((&*file).write_all(line().as_bytes()))),
    }
}
