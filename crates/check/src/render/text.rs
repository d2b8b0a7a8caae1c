//! Reports as text.

use std::fmt::Write as _;

use crate::report::Report;
use crate::rules::{self, Severity};

/// The report as a paragraph, with a final newline.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}: {} [{}]\n", report.severity.as_str(), report.message, report.rule);
    let mut line = |label: &str, value: &str| {
        // Writing to a string has no way to fail.
        let _ = writeln!(text, "  {label} {value}");
    };
    line("object:", &report.object);
    line("in:", &format!("{}, process {} ({}), thread {}", report.call, report.pid, report.program, report.thread));
    for frame in &report.stack {
        line("    at", frame);
    }
    for entry in &report.history {
        line("earlier:", &entry.what);
        for frame in &entry.stack {
            line("    at", frame);
        }
    }
    line("rule:", &report.clause);
    line("advice:", &report.advice);
    if report.count > 1 {
        line("count:", &report.count.to_string());
    }
    text
}

/// The last line: `2 errors, 1 warning, 3 suppressed`.
pub fn summary<'a>(reports: impl IntoIterator<Item = &'a Report>, suppressed: usize) -> String {
    let (mut errors, mut warnings) = (0, 0);
    for report in reports {
        match report.severity {
            Severity::Error => errors += 1,
            Severity::Warning => warnings += 1,
        }
    }
    let plural = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut line = format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    if suppressed > 0 {
        let _ = write!(line, ", {suppressed} suppressed");
    }
    line
}

/// All rules with their clauses, for `weft check --rules`.
pub fn rule_list() -> String {
    let entry = |rule: &rules::Rule| {
        format!("{} ({})\n    {}\n    {}\n", rule.name, rule.severity.as_str(), rule.summary, rule.clause)
    };
    rules::all().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::report;

    #[test]
    fn a_paragraph_names_everything() {
        let text = text(&Report { count: 3, ..report() });
        let wanted = "error: the program changed byte 3 of 64 [buffer-changed]\n  object: qp 0x000011 (RC, weft0)\n  \
                      in: ibv_poll_cq, process 12 (/bin/ping), thread 13\n      at wait (/usr/lib/libping.so.1+0x12)\n      \
                      at main (/bin/ping+0x20)\n  earlier: posted SEND wr_id 7, 64 bytes\n      at main (/bin/ping+0x10)\n";
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.ends_with("  count: 3\n"), "{text}");
    }

    #[test]
    fn numbers_have_their_nouns() {
        assert_eq!(summary([&report()], 0), "1 error, 0 warnings");
        assert_eq!(summary([], 2), "0 errors, 0 warnings, 2 suppressed");
    }

    #[test]
    fn every_rule_is_listed() {
        let list = rule_list();
        assert!(rules::all().all(|rule| list.contains(rule.name) && list.contains(rule.clause)));
    }
}
