//! `weft nvme list`: the connected namespaces, in nvme-cli's form, with the URIs of their exports.

mod print;

use anyhow::Result;
use clap::Args;

use crate::discover::OutputFormat;
use crate::registry::Registry;

/// Options of `weft nvme list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "normal")]
    output_format: OutputFormat,
}

/// Prints the namespaces.
///
/// # Errors
/// There is no place for connections.
pub fn run(args: &ListArgs) -> Result<()> {
    let controllers = Registry::open()?.all();
    let text = if args.output_format.is_json() { print::json(&controllers)? } else { print::text(&controllers) };
    weft_tool::output::print(&text);
    Ok(())
}
