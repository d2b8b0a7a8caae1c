//! Errors in a description: location, problem, and fix.

use std::fmt;

/// An error in a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Line of the file, from 1; 0 without a file.
    pub line: u32,
    /// The problem.
    pub what: String,
    /// How to fix it.
    pub mend: String,
}

/// Result of a loader or a generator.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error at a line of a file.
    pub fn at(line: u32, what: impl Into<String>, mend: impl Into<String>) -> Error {
        Error { line, what: what.into(), mend: mend.into() }
    }

    /// Creates an error without a line: a generator's parameter.
    pub fn of(what: impl Into<String>, mend: impl Into<String>) -> Error {
        Error::at(0, what, mend)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}: {}", self.what, self.mend)
    }
}

impl std::error::Error for Error {}
