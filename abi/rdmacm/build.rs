//! Gives the library its SONAME and symbol versions, and `libibverbs.so.1` to call.

fn main() {
    weft_symver::import("libibverbs.so.1", "../ibverbs/ibverbs.sym");
    weft_symver::build("librdmacm.so.1", "rdmacm.sym");
}
