//! Results of the rings, and the table that reports them.

use std::fmt;
use std::time::Duration;

/// Maximum number of a failed test's output lines that are repeated at the end, where they are easy to find.
const SAID_MAX: usize = 60;

/// Maximum number of slow test programs that the report names, and the least time of each.
const SLOWEST_MAX: usize = 12;
const SLOW: Duration = Duration::from_secs(20);

/// One ring's counts.
#[derive(Debug, Default)]
pub struct Ring {
    pub name: &'static str,
    pub passed: usize,
    pub failed: usize,
    pub ignored: usize,
    /// Names of failed tests.
    pub failures: Vec<String>,
    /// Output of each failed test: its name, and its lines without the stack.
    said: Vec<(String, Vec<String>)>,
    /// Whether the harness is printing a failed test's output.
    telling: bool,
    pub took: Duration,
    /// Share of the processors' time that was used meanwhile, in percent.
    pub busy: f64,
    /// Time of each test program: where a run's minutes are.
    programs: Vec<(Duration, String)>,
    /// Name of the program that runs, or else of its first test.
    program: Option<String>,
    run: bool,
}

/// All rings.
#[derive(Debug, Default)]
pub struct Summary {
    pub rings: Vec<Ring>,
    /// Skips that tests noted themselves; Rust's harness also counts each of those tests as passed.
    pub skipped: Vec<String>,
}

impl Ring {
    /// Creates the counts of a ring that runs.
    pub fn new(name: &'static str) -> Ring {
        Ring { name, run: true, ..Ring::default() }
    }

    /// Creates the counts of one test program of a ring.
    pub fn of(name: &'static str, program: &str) -> Ring {
        Ring { program: Some(program.to_owned()), ..Ring::new(name) }
    }

    /// Creates the counts of a ring left out because an earlier one failed.
    pub fn not_run(name: &'static str) -> Ring {
        Ring { name, ..Ring::default() }
    }

    /// Returns the counts of both.
    pub fn with(mut self, other: Ring) -> Ring {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.said.extend(other.said);
        self.programs.extend(other.programs);
        self
    }

    /// Reads a line of Rust's test harness.
    pub fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let number = |word: &str| -> usize {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.passed += number(" passed");
            self.failed += number(" failed");
            self.ignored += number(" ignored");
            let seconds = counts.rsplit(' ').next().and_then(|time| time.strip_suffix('s')?.parse().ok());
            let took = seconds.and_then(|seconds| Duration::try_from_secs_f32(seconds).ok());
            self.programs.extend(took.zip(self.program.take()));
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            self.program.get_or_insert_with(|| name.to_owned());
            if outcome == "FAILED" {
                self.failures.push(format!("{}: {name}", self.name));
            }
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----")) {
            self.said.push((name.to_owned(), Vec::new()));
            self.telling = true;
        } else if line == "failures:" || line == "stack backtrace:" {
            self.telling = false;
        } else if self.telling
            && let Some((_, lines)) = self.said.last_mut()
        {
            lines.push(line.to_owned());
        }
    }
}

impl Summary {
    /// Whether anything failed; with CI=true a skip is a failure.
    pub fn failed(&self) -> bool {
        let failed = self.rings.iter().any(|ring| ring.failed > 0);
        failed || (weft_interop::skip::forbidden() && self.skips() > 0)
    }

    fn skips(&self) -> usize {
        self.skipped.len() + self.rings.iter().map(|ring| ring.ignored).sum::<usize>()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in self.rings.iter().flat_map(|ring| &ring.said) {
            writeln!(f, "\n---- {name}")?;
            // A table's last lines contain its failures; the earlier output is above.
            for line in lines.iter().skip(lines.len().saturating_sub(SAID_MAX)) {
                writeln!(f, "{line}")?;
            }
        }
        writeln!(f, "\n{:<10} {:>8} {:>8} {:>8} {:>10} {:>6}", "ring", "passed", "failed", "skipped", "time", "busy")?;
        for ring in &self.rings {
            // A skip noted by a test belongs to interop: only its tests need third-party programs.
            let noted = if ring.name == "interop" { self.skipped.len() } else { 0 };
            if ring.run {
                let (passed, skipped) = (ring.passed.saturating_sub(noted), ring.ignored + noted);
                let took = format!("{:.1} s", ring.took.as_secs_f32());
                let busy = format!("{:.0} %", ring.busy);
                writeln!(f, "{:<10} {passed:>8} {:>8} {skipped:>8} {took:>10} {busy:>6}", ring.name, ring.failed)?;
            } else {
                writeln!(f, "{:<10} not run, because an earlier ring failed (--keep-going runs it)", ring.name)?;
            }
        }
        let mut slow: Vec<_> =
            self.rings.iter().flat_map(|ring| &ring.programs).filter(|(took, _)| *took >= SLOW).collect();
        slow.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        let slow: Vec<_> =
            slow.iter().take(SLOWEST_MAX).map(|(took, name)| format!("{name} {} s", took.as_secs())).collect();
        if !slow.is_empty() {
            writeln!(f, "slowest: {}", slow.join(", "))?;
        }
        for failure in self.rings.iter().flat_map(|ring| &ring.failures) {
            writeln!(f, "FAILED  {failure}")?;
        }
        for skip in &self.skipped {
            writeln!(f, "SKIPPED {skip}")?;
        }
        let (passed, failed) = self.rings.iter().fold((0, 0), |(p, n), ring| (p + ring.passed, n + ring.failed));
        let passed = passed.saturating_sub(self.skipped.len());
        writeln!(f, "\n{passed} passed, {failed} failed, {} skipped", self.skips())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_the_harness_prints() {
        let mut ring = Ring::new("unit");
        ring.read("test wire::bth::round_trip ... ok");
        ring.read("test hca::demux ... FAILED");
        ring.read("test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.10s");
        ring.read("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s");
        assert_eq!((ring.passed, ring.failed, ring.ignored), (17, 1, 2));
        assert_eq!(ring.failures, ["unit: hca::demux"]);
        ring.read("test peer ... ok");
        ring.read("test other ... ok");
        ring.read("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 31.70s");
        let summary = Summary { rings: vec![ring], skipped: vec!["pyverbs: not installed".into()] };
        assert!(summary.failed());
        assert!(summary.to_string().ends_with("\n18 passed, 1 failed, 3 skipped\n"), "{summary}");
        assert!(summary.to_string().contains("\nslowest: peer 31 s\n"), "{summary}");
    }

    #[test]
    fn what_failed_is_told_again_at_the_end() {
        let mut ring = Ring::new("interop");
        let lines = "test peer ... FAILED\n\nfailures:\n\n---- peer stdout ----\n1 of 2 cases failed\n  - the second\n\
                     stack backtrace:\n   0: begin_unwind\n\n\nfailures:\n    peer\n\n\
                     test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.0s";
        lines.lines().for_each(|line| ring.read(line));
        let told = Summary { rings: vec![ring], skipped: Vec::new() }.to_string();
        assert!(told.contains("---- peer\n1 of 2 cases failed\n  - the second\n\nring "), "{told}");
        assert!(!told.contains("begin_unwind"), "{told}");
    }
}
