//! Breaches of rules, before stacks have names.

use super::ids::{Site, StackId};
use crate::rule::{Rule, Severity};

/// One breach of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The rule's, or less.
    pub severity: Severity,
    /// One sentence: the actor did what.
    pub message: String,
    /// Name of the object.
    pub object: String,
    /// The call that broke the rule or showed the breach.
    pub site: Site,
    /// Earlier calls, oldest first.
    pub history: Vec<(String, StackId)>,
}

/// A request beyond the capacity of its queue. Libraries have room for more than they promise, and programs post until the
/// library refuses: its answer decides ([`super::Model::report_excess`]).
#[derive(Debug)]
#[must_use]
pub struct Excess {
    pub(super) finding: Finding,
    /// Whether the queue holds all the requests that the model counts.
    pub(super) is_certain: bool,
}
