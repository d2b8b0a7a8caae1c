//! A program under `weft check`, and the reports about it.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_interop::{Ended, Lab, Who, product};

/// Exit status of a check that found an error.
pub const FOUND: i32 = 99;

/// The end of a check.
#[derive(Debug)]
pub struct Checked {
    /// The command's end, with the program's output.
    pub ended: Ended,
    /// The reports, as JSON.
    pub reports: Vec<serde_json::Value>,
}

/// Runs `weft check OPTIONS -- WORDS` to its end.
pub fn check(lab: &Lab, who: Who, options: &[&str], words: &[&str]) -> Result<Checked> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let file = lab.file(&format!("reports-{}.jsonl", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let file = file.to_str().context("the lab's path is not UTF-8")?;
    let own = ["--format", "json", "--output", file];
    let ended = run(lab, who, &[&own, options, &["--"], words].concat())?;
    let text = std::fs::read_to_string(file).with_context(|| ended.report())?;
    let reports: serde_json::Result<_> = text.lines().map(serde_json::from_str).collect();
    Ok(Checked { reports: reports.with_context(|| text.clone())?, ended })
}

/// Runs `weft check` with these words to its end.
pub fn run(lab: &Lab, who: Who, words: &[&str]) -> Result<Ended> {
    let weft = product::weft()?;
    let weft = weft.to_str().context("the product's path is not UTF-8")?;
    let line = lab.bare(lab.client(), who, &[&[weft, "check"], words].concat());
    Ok(lab.start_line(&line, &[])?.wait(Duration::from_secs(120)))
}

impl Checked {
    /// The rules of the reports.
    pub fn rules(&self) -> Vec<&str> {
        self.reports.iter().filter_map(|report| report["rule"].as_str()).collect()
    }

    /// The rules of reports about errors.
    pub fn errors(&self) -> Vec<&str> {
        let errors = self.reports.iter().filter(|report| report["severity"] == "error");
        errors.filter_map(|report| report["rule"].as_str()).collect()
    }

    /// The exit status.
    pub fn code(&self) -> Option<i32> {
        self.ended.status.and_then(|status| status.code())
    }

    /// Describes the end and the reports.
    pub fn report(&self) -> String {
        let reports: Vec<_> = self.reports.iter().map(|report| format!("{report:#}")).collect();
        format!("{}\n      reports: [{}]", self.ended.report(), reports.join(", "))
    }
}
