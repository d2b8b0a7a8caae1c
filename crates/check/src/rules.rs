//! The table of rules: names, severities, the clauses that programs break, and advice.

mod completions;
mod memory;
mod objects;
mod queues;

pub use completions::*;
pub use memory::*;
pub use objects::*;
pub use queues::*;

use serde::{Deserialize, Serialize};

/// The weight of a report: an error changes the exit status of `weft check`, a warning does not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program depends on luck: a leak, or an attribute that hides failures.
    Warning,
    /// The specification or a manual page forbids the call.
    Error,
}

impl Severity {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A rule of verbs.
#[derive(PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name in reports, options and suppressions.
    pub name: &'static str,
    /// The weight of its reports.
    pub severity: Severity,
    /// One sentence: the program's mistake.
    pub summary: &'static str,
    /// The clause of the InfiniBand Architecture specification, or the manual page.
    pub clause: &'static str,
    /// One sentence: the remedy.
    pub advice: &'static str,
}

/// Defines the rules of one subject, and the list of them.
macro_rules! rules {
    ($list:ident: $($id:ident = $name:literal, $severity:ident, $summary:literal, $clause:literal, $advice:literal;)*) => {
        $(
            #[doc = $summary]
            pub static $id: $crate::rules::Rule = $crate::rules::Rule {
                name: $name,
                severity: $crate::rules::Severity::$severity,
                summary: $summary,
                clause: $clause,
                advice: $advice,
            };
        )*
        pub(super) static $list: &[&$crate::rules::Rule] = &[$(&$id),*];
    };
}
pub(crate) use rules;

/// All rules, in the order of the manual.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let lists = [memory::MEMORY, queues::QUEUES, completions::COMPLETIONS, objects::OBJECTS];
    lists.into_iter().flat_map(|list| list.iter().copied())
}

/// Returns the rule of this name.
pub fn find(name: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_texts_are_complete() {
        let names: BTreeSet<_> = all().map(|rule| rule.name).collect();
        assert_eq!(names.len(), all().count());
        for rule in all() {
            assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
            assert!(rule.summary.ends_with('.') && rule.advice.ends_with('.'), "{}", rule.name);
            assert!(rule.clause.contains("IBA") || rule.clause.contains('('), "{}", rule.name);
            assert_eq!(find(rule.name), Some(rule));
        }
    }
}
