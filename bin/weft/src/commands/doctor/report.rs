//! Findings of the checks, and the report that they form.

use std::fmt::Write;

use serde_json::{Value, json};

/// The state of what a check looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing to do.
    Well,
    /// For information.
    Note,
    /// Weft works, but less well than it could.
    Warning,
    /// It keeps Weft from working.
    Error,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Well => "ok",
            State::Note => "note",
            State::Warning => "warning",
            State::Error => "error",
        }
    }
}

/// A result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The state.
    pub state: State,
    /// The fact, and its consequence.
    pub text: String,
    /// The remedy.
    pub remedy: Option<String>,
}

impl Finding {
    /// Nothing to do.
    pub fn well(text: impl Into<String>) -> Finding {
        Finding { state: State::Well, text: text.into(), remedy: None }
    }

    /// For information.
    pub fn note(text: impl Into<String>) -> Finding {
        Finding { state: State::Note, text: text.into(), remedy: None }
    }

    /// Weft works less well.
    pub fn warning(text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Warning, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// Weft does not work.
    pub fn error(text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Error, text: text.into(), remedy: Some(remedy.into()) }
    }
}

/// The report as text: a line for each finding, and one below it with the remedy.
pub fn text(findings: &[(&'static str, Finding)]) -> String {
    let mut out = String::new();
    for (name, finding) in findings {
        let _ = writeln!(out, "{:<8} {name:<12} {}", finding.state.word(), finding.text);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(out, "{:21} -> {remedy}", "");
        }
    }
    let count = |state| findings.iter().filter(|(_, finding)| finding.state == state).count();
    let _ = match (count(State::Error), count(State::Warning)) {
        (0, 0) => writeln!(out, "\nWeft works here."),
        (0, 1) => writeln!(out, "\nWeft works here, with 1 warning."),
        (0, warnings) => writeln!(out, "\nWeft works here, with {warnings} warnings."),
        (1, _) => writeln!(out, "\n1 error keeps Weft from working."),
        (errors, _) => writeln!(out, "\n{errors} errors keep Weft from working."),
    };
    out
}

/// The report as JSON.
pub fn json(findings: &[(&'static str, Finding)]) -> String {
    let works = findings.iter().all(|(_, finding)| finding.state != State::Error);
    let all = findings.iter().map(|(name, finding)| {
        json!({"check": name, "state": finding.state.word(), "text": finding.text, "remedy": finding.remedy})
    });
    format!("{}\n", json!({"works": works, "findings": all.collect::<Value>()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_follow_their_findings() {
        let findings = [("kernel", Finding::well("fine")), ("port", Finding::error("taken", "end it"))];
        let text = text(&findings);
        assert!(text.starts_with("ok       kernel       fine\nerror    port         taken\n"), "{text}");
        assert!(text.ends_with("-> end it\n\n1 error keeps Weft from working.\n"), "{text}");
        let json: Value = serde_json::from_str(&json(&findings)).unwrap();
        assert_eq!((&json["works"], &json["findings"][1]["remedy"]), (&json!(false), &json!("end it")));
    }

    #[test]
    fn warnings_do_not_keep_weft_from_working() {
        let text = text(&[("limits", Finding::warning("low", "raise it"))]);
        assert!(text.ends_with("Weft works here, with 1 warning.\n"), "{text}");
    }
}
