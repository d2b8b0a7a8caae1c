//! Untrusted text on its way to a person's terminal: the names that programs give themselves, and the texts of a daemon
//! that may belong to another user. Terminals obey control characters, so they become question marks.

use crate::{PortHealth, StatusReport};

/// Returns the text with control characters replaced.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Returns the report with every text in it made printable.
pub(crate) fn printable_report(mut report: StatusReport) -> StatusReport {
    report.version = printable(&report.version);
    if let PortHealth::Taken(who) = &mut report.port {
        *who = printable(who);
    }
    for process in &mut report.processes {
        process.program = printable(&process.program);
        process.fault = printable(&process.fault);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing() {
        assert_eq!(printable("ib_write_bw"), "ib_write_bw");
        assert_eq!(printable("a\u{1b}]0;b\u{7}\n\u{9b}31m\u{e4}"), "a?]0;b???31m\u{e4}");
    }
}
