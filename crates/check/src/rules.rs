//! The table of rules: names, severities, the clauses that programs break, and advice.

mod completions;
mod memory;
mod objects;
mod queues;

pub use completions::*;
pub use memory::*;
pub use objects::*;
pub use queues::*;

pub use crate::rule::{Rule, Severity};

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
