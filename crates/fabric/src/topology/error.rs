//! What is wrong with a description: where, what, and what to do.

use std::fmt;

/// A mistake in a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Line of the file, from 1; 0 where there is no file.
    pub line: u32,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

/// What a loader or a generator gives.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A mistake at a line of a file.
    pub fn at(line: u32, what: impl Into<String>, mend: impl Into<String>) -> Error {
        Error { line, what: what.into(), mend: mend.into() }
    }

    /// A mistake that has no line: a generator's parameter.
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
