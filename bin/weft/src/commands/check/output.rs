//! The reports of a run, printed or written to a file.

use std::fs;

use anyhow::{Context as _, Result};
use weft_check::{Suppression, render};

use super::args::{Format, ReportArgs};
use super::verdict::Verdict;
use crate::output;

/// Writes reports, the suppressions that hide them if the options ask for those, and the last line. `is_quiet`: nothing if
/// there is no report.
///
/// # Errors
/// The file cannot be written.
pub fn write(verdict: &Verdict, args: &ReportArgs, is_quiet: bool) -> Result<()> {
    let rendered = match args.format {
        Format::Text => paragraphs(verdict),
        Format::Json => render::json_lines(&verdict.reports),
        Format::Sarif => render::sarif(&verdict.reports, env!("CARGO_PKG_VERSION")),
    };
    match &args.output {
        Some(file) if file.as_os_str() == "-" => output::print(&rendered),
        Some(file) => fs::write(file, rendered).with_context(|| format!("--output {}", file.display()))?,
        None => output::complain_text(&rendered),
    }
    if args.generate_suppressions {
        for table in suppressions(verdict) {
            crate::outln!("{table}");
        }
    }
    if !is_quiet || !verdict.is_silent() {
        for line in ending(verdict) {
            crate::errln!("weft check: {line}");
        }
    }
    Ok(())
}

/// The reports with an empty line after each.
fn paragraphs(verdict: &Verdict) -> String {
    verdict.reports.iter().map(|report| render::text(report) + "\n").collect()
}

/// The suppressions of all reports, each once.
fn suppressions(verdict: &Verdict) -> Vec<String> {
    let mut tables: Vec<String> = Vec::new();
    for table in verdict.reports.iter().map(|report| Suppression::for_report(report).to_toml()) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    tables
}

/// The last lines: limits that were met, and the sums.
fn ending(verdict: &Verdict) -> Vec<String> {
    let mut lines = verdict.notes.clone();
    let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "es" });
    if verdict.processes == 0 {
        lines.push("no process of the program used a device; statically linked programs cannot be checked".to_owned());
        return lines;
    }
    let unfinished = match verdict.unfinished {
        0 => String::new(),
        count => format!(" ({count} killed or still running: what they leave behind is unknown)"),
    };
    let sums = render::summary(&verdict.reports, verdict.suppressed);
    lines.push(format!("{sums}, in {}{unfinished}", counted(verdict.processes, "process")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_nothing_says_so() {
        assert!(ending(&Verdict::default())[0].starts_with("no process"));
        let one = Verdict { processes: 1, ..Verdict::default() };
        assert_eq!(ending(&one), ["0 errors, 0 warnings, in 1 process"]);
        let two = Verdict { processes: 2, unfinished: 1, suppressed: 1, ..Verdict::default() };
        assert!(ending(&two)[0].starts_with("0 errors, 0 warnings, 1 suppressed, in 2 processes (1 killed"));
    }
}
