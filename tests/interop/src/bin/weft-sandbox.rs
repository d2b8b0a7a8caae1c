//! Runs a command in a sandbox (see `weft_interop::sandbox`).

fn main() -> anyhow::Result<()> {
    weft_interop::sandbox::main()
}
