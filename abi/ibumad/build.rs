//! Gives the library its SONAME and symbol versions.

fn main() {
    weft_symver::build("libibumad.so.3", "ibumad.sym");
}
