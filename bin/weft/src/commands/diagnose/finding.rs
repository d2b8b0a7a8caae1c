//! Findings of the checks, and the report that they form.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_fabric::topology::counted;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information: the fabric works.
    Note,
    /// The fabric works, but worse than it could.
    Warning,
    /// Something does not work.
    Error,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The fault, its place, and the remedy.
    pub text: String,
}

/// The result of one check.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name of the check.
    pub title: &'static str,
    /// Short description of the objects that were checked.
    pub looked_at: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Maximum number of findings printed per check; the rest are only counted.
const SHOWN_MAX: usize = 20;

impl Section {
    /// A check without findings.
    pub fn new(title: &'static str) -> Section {
        Section { title, ..Section::default() }
    }

    /// Adds an error.
    pub fn error(&mut self, text: String) {
        self.findings.push(Finding { severity: Severity::Error, text });
    }

    /// Adds a warning.
    pub fn warning(&mut self, text: String) {
        self.findings.push(Finding { severity: Severity::Warning, text });
    }

    /// Adds a note.
    pub fn note(&mut self, text: String) {
        self.findings.push(Finding { severity: Severity::Note, text });
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }

    fn verdict(&self) -> String {
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        match (errors, warnings) {
            (0, 0) => "ok".to_owned(),
            (0, n) => counted(n, "warning"),
            (n, 0) => counted(n, "error"),
            (e, w) => format!("{}, {}", counted(e, "error"), counted(w, "warning")),
        }
    }
}

/// The highest severity among all findings.
pub fn worst(sections: &[Section]) -> Option<Severity> {
    sections.iter().flat_map(|s| &s.findings).map(|f| f.severity).max()
}

/// The report as text.
pub fn text(sections: &[Section], all: bool) -> String {
    let mut out = String::new();
    for section in sections {
        let _ = writeln!(out, "{:<22} {:<24} {}", section.title, section.verdict(), section.looked_at);
        let mut findings: Vec<&Finding> = section.findings.iter().collect();
        findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        let shown = if all { findings.len() } else { findings.len().min(SHOWN_MAX) };
        for finding in &findings[..shown] {
            let _ = writeln!(out, "  {:<8} {}", finding.severity.word(), finding.text);
        }
        if shown < findings.len() {
            let _ = writeln!(out, "  ... and {} more (--all shows them)", findings.len() - shown);
        }
    }
    out
}

/// The report as JSON.
pub fn json(sections: &[Section]) -> Value {
    let section = |s: &Section| {
        let findings = s.findings.iter().map(|f| json!({"severity": f.severity.word(), "text": f.text}));
        json!({"check": s.title, "looked_at": s.looked_at, "verdict": s.verdict(), "findings": findings.collect::<Value>()})
    };
    sections.iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_counts() {
        let mut section = Section::new("links");
        section.note("a".to_owned());
        section.error("b".to_owned());
        section.warning("c".to_owned());
        assert_eq!(section.verdict(), "1 error, 1 warning");
        let text = text(&[section.clone()], false);
        let at = |word: &str| text.find(word).unwrap();
        assert!(at("error    b") < at("warning  c") && at("warning  c") < at("note     a"), "{text}");
        assert_eq!(worst(&[section]), Some(Severity::Error));
        assert_eq!(worst(&[Section::new("x")]), None);
    }
}
