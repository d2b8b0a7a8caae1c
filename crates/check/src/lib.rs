//! The checker of verbs programs: values in, reports out.
//!
//! - [`rules`]: the table of rules, with the clause behind each;
//! - [`Report`]: one breach of a rule, and its line in a process's file of reports;
//! - [`Collection`]: the reports of all processes of a run, with repetitions folded;
//! - [`Suppressions`]: the reports that a user knows of;
//! - [`render`]: reports as text, JSON lines and SARIF;
//! - [`model`]: the objects of a process, their outstanding requests, and the rules in force. The library that stands in
//!   front of libibverbs feeds it.
#![forbid(unsafe_code)]

mod collection;
mod glob;
pub mod model;
pub mod render;
mod report;
mod rule;
pub mod rules;
mod suppress;

pub use collection::{Collection, INCOMPLETE_MODE, LineError};
pub use report::{End, HistoryEntry, Line, Repeat, Report};
pub use rule::{Rule, Severity};
pub use suppress::{Suppression, SuppressionError, Suppressions};
