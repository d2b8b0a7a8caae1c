//! Refuses builds from cargo's own checkouts: `cargo install --git` would install a command without its libraries.
//!
//! `cargo install --path bin/weft` is fine: cargo records where the sources are, and the command builds its libraries
//! there (`src/rdma_dir/build.rs`).

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let sources = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    if is_checkout_of_cargo(Path::new(&sources)) {
        eprintln!(
            "Weft is a command and three shared libraries, and `cargo install` installs commands only.\n\
             Install the Debian package, the wheel or the tarball (docs/install.md), or clone the repository and run \
             `cargo install --path bin/weft` there."
        );
        std::process::exit(1);
    }
}

fn is_checkout_of_cargo(sources: &Path) -> bool {
    let parts: Vec<_> = sources.iter().collect();
    parts.windows(2).any(|pair| pair == ["git", "checkouts"] || pair == ["registry", "src"])
}
