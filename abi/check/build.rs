//! Puts the library beside those that it accompanies.

fn main() {
    weft_symver::build_plain("libweft_check.so");
}
