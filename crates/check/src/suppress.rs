//! Suppressions: reports that a user knows of and does not want to see.

use serde::Deserialize;

use crate::glob;
use crate::report::Report;
use crate::rules;

/// A file of suppressions that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuppressionError {
    /// The text is not TOML, or has other fields.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A rule pattern that matches no rule.
    #[error("no rule is called `{0}`; `weft check --rules` lists them")]
    UnknownRule(String),
    /// A suppression without any condition hides all reports.
    #[error("a suppression needs a rule, a stack or a program")]
    Empty,
}

/// One `[[suppress]]` table. Conditions left out hold for every report.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suppression {
    /// Name of the rule, or a pattern of names.
    pub rule: Option<String>,
    /// Patterns for frames of the stack. Each must match the function, the module or all of a frame, in this order; other
    /// frames may stand between.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Pattern for the program's path or file name.
    pub program: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    suppress: Vec<Suppression>,
}

/// The suppressions of a run.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    list: Vec<Suppression>,
}

impl Suppressions {
    /// Reads a TOML file's text.
    pub fn parse(text: &str) -> Result<Suppressions, SuppressionError> {
        let file: File = toml::from_str(text)?;
        file.suppress.iter().try_for_each(check)?;
        Ok(Suppressions { list: file.suppress })
    }

    /// Adds those of another file.
    pub fn extend(&mut self, other: Suppressions) {
        self.list.extend(other.list);
    }

    /// Returns the suppression that hides the report.
    pub fn find(&self, report: &Report) -> Option<&Suppression> {
        self.list.iter().find(|suppression| suppression.matches(report))
    }

    /// Returns whether a suppression hides the report.
    pub fn matches(&self, report: &Report) -> bool {
        self.find(report).is_some()
    }
}

fn check(suppression: &Suppression) -> Result<(), SuppressionError> {
    match &suppression.rule {
        Some(pattern) if !rules::all().any(|rule| glob::is_match(pattern, rule.name)) => {
            Err(SuppressionError::UnknownRule(pattern.clone()))
        }
        None if suppression.stack.is_empty() && suppression.program.is_none() => Err(SuppressionError::Empty),
        _ => Ok(()),
    }
}

impl Suppression {
    /// Returns whether it hides the report.
    pub fn matches(&self, report: &Report) -> bool {
        let by_rule = self.rule.as_deref().is_none_or(|pattern| glob::is_match(pattern, &report.rule));
        let by_program = self.program.as_deref().is_none_or(|pattern| program_matches(pattern, &report.program));
        by_rule && by_program && self.stack_matches(&report.stack)
    }

    fn stack_matches(&self, stack: &[String]) -> bool {
        let mut frames = stack.iter();
        self.stack.iter().all(|pattern| frames.any(|frame| frame_matches(pattern, frame)))
    }

    /// The suppression that hides this report and those like it: its rule, program, and the functions of its stack.
    pub fn for_report(report: &Report) -> Suppression {
        let stack = report.stack.iter().map(|frame| generalized(frame)).collect();
        let name = report.program.rsplit('/').next().unwrap_or(&report.program);
        Suppression { rule: Some(report.rule.clone()), stack, program: Some(name.to_owned()) }
    }

    /// Its `[[suppress]]` table.
    pub fn to_toml(&self) -> String {
        // A JSON string is a basic string of TOML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = String::from("[[suppress]]\n");
        if let Some(rule) = &self.rule {
            text += &format!("rule = {}\n", quoted(rule));
        }
        if let Some(program) = &self.program {
            text += &format!("program = {}\n", quoted(program));
        }
        if !self.stack.is_empty() {
            let frames: Vec<_> = self.stack.iter().map(|frame| format!("    {},\n", quoted(frame))).collect();
            text += &format!("stack = [\n{}]\n", frames.concat());
        }
        text
    }
}

fn program_matches(pattern: &str, program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    glob::is_match(pattern, program) || glob::is_match(pattern, name)
}

/// Splits `function (module+0xoffset)`.
fn parts(frame: &str) -> (&str, &str) {
    let (function, rest) = frame.rsplit_once(" (").unwrap_or((frame, ""));
    let module = rest.trim_end_matches(')');
    (function, module.rsplit_once("+0x").map_or(module, |(module, _)| module))
}

fn frame_matches(pattern: &str, frame: &str) -> bool {
    let (function, module) = parts(frame);
    let file = module.rsplit('/').next().unwrap_or(module);
    [frame, function, module, file].into_iter().any(|text| glob::is_match(pattern, text))
}

/// A pattern for the frame that survives another build of its module.
fn generalized(frame: &str) -> String {
    let (function, module) = parts(frame);
    let file = module.rsplit('/').next().unwrap_or(module);
    let escaped = |text: &str| text.replace('*', "?");
    if function.is_empty() || function == "??" { escaped(file) } else { escaped(function) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::report;

    fn matches(text: &str) -> bool {
        Suppressions::parse(text).expect("good suppressions").matches(&report())
    }

    #[test]
    fn conditions_hold_together() {
        assert!(matches("[[suppress]]\nrule = \"buffer-changed\"\n"));
        assert!(matches("[[suppress]]\nrule = \"buffer-*\"\nprogram = \"ping\"\n"));
        assert!(matches("[[suppress]]\nstack = [\"libping.so*\", \"main\"]\n"));
        assert!(!matches("[[suppress]]\nstack = [\"main\", \"libping.so*\"]\n"));
        assert!(!matches("[[suppress]]\nrule = \"buffer-changed\"\nprogram = \"pong\"\n"));
        assert!(!matches(""));
    }

    #[test]
    fn a_useless_suppression_is_refused() {
        let refusal = |text: &str| Suppressions::parse(text).expect_err("useless").to_string();
        assert!(refusal("[[suppress]]\nrule = \"buffer-chagned\"\n").contains("buffer-chagned"));
        assert!(refusal("[[suppress]]\n").contains("needs a rule"));
        assert!(refusal("[[suppress]]\nrules = \"x\"\n").contains("rules"));
    }

    #[test]
    fn a_generated_suppression_hides_its_report() {
        let generated = Suppression::for_report(&report());
        let parsed = Suppressions::parse(&generated.to_toml()).expect("good TOML");
        assert!(parsed.matches(&report()));
        assert!(!parsed.matches(&Report { rule: "key-stale".into(), ..report() }));
        assert!(!parsed.matches(&Report { stack: vec!["main (/bin/ping+0x9)".into()], ..report() }));
    }
}
