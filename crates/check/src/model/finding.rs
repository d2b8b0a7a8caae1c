//! Breaches of rules, before stacks have names.

use super::Model;
use super::limits::{FINDINGS_MAX, HISTORY_MAX};
use crate::rules::Rule;

/// A stack of return addresses that the library has stored.
pub type StackId = u32;

/// The stack of the call in progress: the library captures it only if a breach names it.
pub const CURRENT_STACK: StackId = 0;

/// A call and its place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Name of the call.
    pub call: &'static str,
    /// Its callers.
    pub stack: StackId,
}

impl Site {
    /// The call in progress.
    pub const fn current(call: &'static str) -> Site {
        Site { call, stack: CURRENT_STACK }
    }
}

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

impl Model {
    pub(super) fn find(&mut self, rule: &'static Rule, site: Site, object: String, message: String) {
        self.find_with(rule, site, object, message, Vec::new());
    }

    pub(super) fn find_with(
        &mut self,
        rule: &'static Rule,
        site: Site,
        object: String,
        message: String,
        mut history: Vec<(String, StackId)>,
    ) {
        if self.findings.len() < FINDINGS_MAX {
            history.truncate(HISTORY_MAX);
            self.findings.push(Finding { rule, message, object, site, history });
        }
    }
}
