//! `weft srp list`: the disks of all logins, with the URIs of their exports.

mod print;

use anyhow::Result;
use clap::Args;

use crate::registry::Registry;

/// Options of `weft srp list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the disks.
///
/// # Errors
/// There is no place for logins.
pub fn run(args: &ListArgs) -> Result<()> {
    let sessions = Registry::open()?.all();
    let text = if args.json { print::json(&sessions)? } else { print::text(&sessions) };
    weft_tool::output::print(&text);
    Ok(())
}
