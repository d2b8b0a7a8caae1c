//! The first process of a guest that tests run against (see `weft_interop::guest`).

fn main() {
    if let Err(error) = weft_interop::guest::agent::main() {
        println!("weft: {error:#}");
    }
}
