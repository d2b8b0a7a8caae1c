//! Reports, and the lines of a process's file of reports.

use serde::{Deserialize, Serialize};

use crate::rule::Severity;

/// One breach of a rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the rule.
    pub rule: String,
    /// Weight of the rule.
    pub severity: Severity,
    /// One sentence: the actor did what.
    pub message: String,
    /// The object concerned, such as `qp 0x000011 (RC, weft0)`.
    pub object: String,
    /// The call that broke the rule, or that showed the breach.
    pub call: String,
    /// Callers of the call, innermost first: `function (module+0xoffset)`.
    pub stack: Vec<String>,
    /// Earlier calls that explain the breach, oldest first.
    pub history: Vec<HistoryEntry>,
    /// Clause of the specification or manual page.
    pub clause: String,
    /// The remedy.
    pub advice: String,
    /// How often the rule was broken from this stack.
    pub count: u64,
    /// Path of the program.
    pub program: String,
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub thread: u32,
}

/// An earlier call on the object of a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The call, such as `posted SEND wr_id 7, 4096 bytes`.
    pub what: String,
    /// Its callers, innermost first.
    pub stack: Vec<String>,
}

/// A later count of an earlier report. The library writes it at powers of two and at the process's end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Repeat {
    /// The report's place among the reports of the file, from 0.
    pub report: u32,
    /// How often the rule was broken from its stack until now.
    pub count: u64,
}

/// Totals of a process, the last line of its file. A process that a signal kills writes none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Path of the program.
    pub program: String,
    /// Process ID.
    pub pid: u32,
    /// Work requests that the program posted.
    pub requests: u64,
    /// Completions that it polled.
    pub completions: u64,
    /// Send buffers whose bytes were compared at completion.
    pub buffers_compared: u64,
    /// Send buffers that were too long for a comparison.
    pub buffers_skipped: u64,
    /// Objects and requests beyond the checker's limits, which no rule covered.
    pub untracked: u64,
    /// Reports beyond the checker's limit.
    pub reports_dropped: u64,
}

/// A line of a process's file of reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// `{"end": {...}}`
    End {
        /// The totals.
        end: End,
    },
    /// `{"repeat": {...}}`
    Repeat {
        /// The count.
        repeat: Repeat,
    },
    /// Any other line.
    Report(Box<Report>),
}

impl Line {
    /// The line's JSON, without the newline.
    pub fn to_json(&self) -> String {
        // Strings and numbers alone: serialization has no way to fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
