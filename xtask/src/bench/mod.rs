//! `cargo xtask bench`: the product beside its peers, in the same run and the same namespaces.
//!
//! Each measure is a contest: ours and the peer take turns three times, the medians are compared. A figure
//! without its peer of the same minute says more about the machine than about the product.

mod contest;
mod machine;
pub mod udp_pong;

use anyhow::{Result, bail};
use contest::Row;
use weft_interop::{Lab, Shape};

/// What to measure and how to tell it.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only measures whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// Turns of each contest; the median counts.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Seconds of each bandwidth run.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// End with an error when a wanted ratio is missed.
    #[arg(long)]
    check: bool,
    /// Measure what is built already.
    #[arg(long)]
    no_build: bool,
}

/// Builds, measures, prints.
pub fn run(options: &Options) -> Result<()> {
    if options.turns == 0 || options.seconds < 2 {
        bail!("at least one turn and two seconds");
    }
    if !options.no_build {
        crate::cargo::run(&["build", "--release"], &[])?;
    }
    let mut rows = Vec::new();
    for mtu in [9000, 1500] {
        let lab = Lab::new(Shape::Two { mtu })?;
        for contest in contest::ALL.iter().filter(|contest| contest.mtu == mtu) {
            if options.filter.as_ref().is_some_and(|text| !contest.name.contains(text.as_str())) {
                continue;
            }
            eprintln!("{} ...", contest.name);
            rows.push(contest.hold(&lab, options.turns, options.seconds)?);
        }
    }
    if options.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "machine": machine::describe(), "rows": rows }))?
        );
    } else {
        print(&rows);
    }
    let missed = rows.iter().filter(|row| !row.kept).count();
    if options.check && missed > 0 {
        bail!("{missed} of {} ratios missed", rows.len());
    }
    Ok(())
}

/// The table, in Markdown, as the README shows it.
fn print(rows: &[Row]) {
    println!("\n{}; `cargo xtask bench`\n", machine::describe());
    println!("| what | Weft | peer | ratio | wanted |");
    println!("|---|---:|---:|---:|---:|");
    for row in rows {
        let mark = if row.kept { "" } else { " **missed**" };
        println!(
            "| {} | {} | {} {} | {} | {}{mark} |",
            row.name,
            contest::figure(row.ours, row.unit),
            contest::figure(row.peer, row.unit),
            row.peer_name,
            contest::ratio(row),
            row.wanted
        );
    }
}
