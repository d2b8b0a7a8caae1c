//! The report of a run: everything as JSON, or the table for a reader; and the plot.

use super::machine::Machine;
use super::plot;
use super::row::Row;
use super::sweep::Swept;
use super::table;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// All measurements of a run.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub turns: usize,
    pub seconds: u32,
    /// Whether every program had a core of its own.
    pub pinned: bool,
    pub rows: Vec<Row>,
    pub sweeps: Vec<Swept>,
}

impl Report {
    /// Returns the table, with its machine and the reasons to doubt it.
    pub fn markdown(&self) -> String {
        let Report { machine, turns, seconds, .. } = self;
        let how = if self.pinned { "one core a side" } else { "cores as the scheduler gives them" };
        let median =
            if *turns > 1 { format!("medians of {turns} turns (and their spread)") } else { "one turn".into() };
        let mut text = format!("{}; {median} of {seconds} s, {how}; `cargo xtask bench`\n", machine.describe());
        for noise in machine.noise() {
            text += &format!("\nDoubtful: {noise}.\n");
        }
        text + &table::markdown(&self.rows)
    }

    /// Writes everything as JSON to a file, or to standard output (`-`).
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        if path == Path::new("-") {
            print!("{text}");
            return Ok(());
        }
        write(path, &text)
    }

    /// Draws the sweeps.
    pub fn write_plot(&self, path: &Path) -> Result<()> {
        write(path, &plot::draw(&self.sweeps, &self.machine.describe()))
    }

    /// Returns the number of goals, and the number of missed ones.
    pub fn goals(&self) -> (usize, usize) {
        self.rows.iter().map(Row::goals).fold((0, 0), |(all, missed), (a, m)| (all + a, missed + m))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
