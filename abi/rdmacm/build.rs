//! Gives the library its SONAME and symbol versions.

fn main() {
    weft_symver::build("librdmacm.so.1", "rdmacm.sym");
}
