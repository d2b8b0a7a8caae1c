//! Gives the library its SONAME and symbol versions.

fn main() {
    weft_symver::build("libibverbs.so.1", "ibverbs.sym");
}
