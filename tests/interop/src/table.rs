//! Many cases in one test: each runs, and the end reports every failure.

use anyhow::Result;
use std::io::Write;
use std::time::Instant;

/// Failures after which a table stops: each may cost a timeout.
const FAILURES_MAX: usize = 6;

/// A table of cases.
#[derive(Debug)]
pub struct Table {
    name: &'static str,
    only: Option<String>,
    failures: Vec<String>,
    ran: usize,
    left: usize,
    started: Instant,
    sample: Sample,
}

/// Which cases of a large product run unless all shall.
#[derive(Clone, Copy, Debug)]
struct Sample {
    one_in: usize,
    next: usize,
    left_out: usize,
}

impl Table {
    /// Creates an empty table. `WEFT_ONLY=text` runs only the cases whose label contains the text.
    pub fn new(name: &'static str) -> Table {
        let only = std::env::var("WEFT_ONLY").ok().filter(|t| !t.is_empty());
        let sample = Sample { one_in: 1, next: 0, left_out: 0 };
        Table { name, only, failures: Vec::new(), ran: 0, left: 0, started: Instant::now(), sample }
    }

    /// Creates a table that runs one in so many of the cases of a large product ([`Table::sampled`]), beginning with the
    /// one of this index; `WEFT_ALL=1` runs all. A number that divides no dimension of the product leaves no value out.
    pub fn sampling(name: &'static str, one_in: usize, first: usize) -> Table {
        let mut table = Table::new(name);
        table.sample = Sample { one_in, next: one_in - first % one_in, left_out: 0 };
        table
    }

    /// Runs one case if it belongs to the sample.
    pub fn sampled(&mut self, label: &str, run: impl FnOnce() -> Result<()>) {
        let is_in = self.sample.next.is_multiple_of(self.sample.one_in);
        self.sample.next += 1;
        if is_in || all() || self.only.is_some() {
            self.case(label, run);
        } else {
            self.sample.left_out += 1;
        }
    }

    /// Runs one case.
    pub fn case(&mut self, label: &str, run: impl FnOnce() -> Result<()>) {
        if self.only.as_ref().is_some_and(|text| !label.contains(text.as_str())) {
            return;
        }
        if self.failures.len() >= FAILURES_MAX && self.only.is_none() && !all() {
            self.left += 1;
            return;
        }
        let started = Instant::now();
        self.ran += 1;
        let result = run();
        let took = started.elapsed().as_secs_f32();
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        note(&format!("{} · {label} ... {word} ({took:.2} s)", self.name));
        if let Err(error) = result {
            self.failures.push(format!("{label} ({took:.1} s)\n      {error:#}"));
        }
    }

    /// Ends the table.
    ///
    /// # Panics
    /// If a case failed; the message lists all failures.
    pub fn finish(self) {
        let took = self.started.elapsed().as_secs_f32();
        let left_out = match self.sample.left_out {
            0 => String::new(),
            others => format!(" ({others} others with --all)"),
        };
        note(&format!("{}: {} cases, {} failed, {took:.1} s{left_out}", self.name, self.ran, self.failures.len()));
        assert!(
            self.failures.is_empty(),
            "\n{}: {} of {} cases failed{}\n  - {}\n",
            self.name,
            self.failures.len(),
            self.ran,
            if self.left > 0 { format!(" ({} more not tried)", self.left) } else { String::new() },
            self.failures.join("\n  - ")
        );
    }
}

/// Writes a progress line to the test's output, and to the file `WEFT_REPORT` if set.
pub fn note(line: &str) {
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("WEFT_REPORT")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
}

/// Returns whether to run everything, however long it takes (`WEFT_ALL=1`).
pub fn all() -> bool {
    std::env::var_os("WEFT_ALL").is_some()
}

/// Returns whether to run only a sample of each table (`cargo xtask test --quick`).
pub fn quick() -> bool {
    std::env::var_os("WEFT_QUICK").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_each_value_of_each_dimension() {
        let mut seen = Vec::new();
        let mut table = Table::sampling("sample", 3, 1);
        for path in 0..2 {
            for program in 0..10 {
                table.sampled("case", || {
                    seen.push((path, program));
                    Ok(())
                });
            }
        }
        table.finish();
        if !all() {
            assert_eq!(seen, [(0, 1), (0, 4), (0, 7), (1, 0), (1, 3), (1, 6), (1, 9)]);
        }
    }
}
