//! First process of a guest for tests (see `weft_interop::guest`).

fn main() {
    if let Err(error) = weft_interop::guest::agent::main() {
        println!("weft: {error:#}");
    }
}
