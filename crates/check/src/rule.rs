//! A rule of verbs.

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
            pub static $id: $crate::rule::Rule = $crate::rule::Rule {
                name: $name,
                severity: $crate::rule::Severity::$severity,
                summary: $summary,
                clause: $clause,
                advice: $advice,
            };
        )*
        pub(super) static $list: &[&$crate::rule::Rule] = &[$(&$id),*];
    };
}
pub(crate) use rules;
