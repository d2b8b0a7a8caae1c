//! Breaches of rules, before stacks have names.

use super::ids::{Site, StackId};
use crate::rule::Rule;

/// One breach of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// One sentence: the actor did what.
    pub message: String,
    /// Name of the object.
    pub object: String,
    /// The call that broke the rule or showed the breach.
    pub site: Site,
    /// Earlier calls, oldest first.
    pub history: Vec<(String, StackId)>,
}
