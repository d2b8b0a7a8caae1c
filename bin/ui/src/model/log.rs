//! The event log: the last entries, each of a bounded length.

use std::collections::VecDeque;

use serde::Serialize;

use crate::limits::{LOG_ENTRIES_MAX, LOG_TEXT_BYTES_MAX};

/// Subject of an entry, by which the page filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Cables and links.
    Link,
    /// Nodes.
    Node,
    /// Subnet managers and their routes.
    Manager,
    /// Programs and their connections.
    Program,
    /// An action of a person on this page.
    Action,
    /// The daemon and the fabric as a whole.
    Fabric,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entry {
    /// Number, counted since the start.
    pub id: u64,
    /// Time in milliseconds since 1970.
    pub at: u64,
    /// Subject.
    pub topic: Topic,
    /// Whether something got worse.
    pub bad: bool,
    /// Sentence.
    pub text: String,
}

/// The log.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    next: u64,
    /// First entry that [`Log::take_new`] did not return yet.
    new: u64,
}

impl Log {
    /// Adds an entry; the oldest makes room for it.
    pub fn add(&mut self, at: u64, topic: Topic, bad: bool, text: impl Into<String>) {
        let mut text: String = text.into();
        if text.len() > LOG_TEXT_BYTES_MAX {
            let end = (0..=LOG_TEXT_BYTES_MAX - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        if self.entries.len() == LOG_ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { id: self.next, at, topic, bad, text });
        self.next += 1;
    }

    /// Returns all entries, the oldest first.
    pub fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// Returns the entries since the last call that are still there.
    pub fn take_new(&mut self) -> Vec<Entry> {
        let from = std::mem::replace(&mut self.new, self.next);
        let skip = self.entries.partition_point(|entry| entry.id < from);
        self.entries.iter().skip(skip).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_last_entries_and_hands_out_each_once() {
        let mut log = Log::default();
        assert!(log.take_new().is_empty());
        log.add(1, Topic::Link, true, "a");
        log.add(2, Topic::Node, false, "b");
        assert_eq!(log.take_new().iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(log.take_new().is_empty());
        for at in 0..3 * LOG_ENTRIES_MAX as u64 {
            log.add(at, Topic::Action, false, "x".repeat(10_000));
        }
        assert_eq!((log.entries().len(), log.take_new().len()), (LOG_ENTRIES_MAX, LOG_ENTRIES_MAX));
        assert!(log.entries().iter().all(|entry| entry.text.len() <= LOG_TEXT_BYTES_MAX));
        log.add(0, Topic::Link, false, "é".repeat(LOG_TEXT_BYTES_MAX));
        assert!(log.take_new()[0].text.ends_with("é..."));
    }
}
