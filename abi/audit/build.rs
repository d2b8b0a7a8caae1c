//! Links the library without a C library, and puts it beside the libraries that it leads to.

fn main() {
    weft_symver::build_plain("libweft_audit.so");
    // The loader would load, for the audit library alone, a second copy of each library that it needs.
    println!("cargo:rustc-cdylib-link-arg=-nostdlib");
}
