//! Remarks on a configuration file: where, what, and how to fix it.

use std::fmt;

/// Remarks kept per file; further ones are only counted.
pub const REMARKS_MAX: usize = 500;

/// Severity of a remark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Applied, but perhaps not what was meant.
    Warning,
    /// Not applied.
    Error,
}

/// A remark on a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Its severity.
    pub level: Level,
    /// The file.
    pub file: String,
    /// Line from 1; 0 for the whole file.
    pub line: u32,
    /// Column from 1; 0 for the whole line.
    pub column: u32,
    /// The problem, and its consequence.
    pub what: String,
    /// The fix; empty if none is needed.
    pub mend: String,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for place in [self.line, self.column] {
            if place != 0 {
                write!(f, ":{place}")?;
            }
        }
        write!(f, ": {}: {}", self.level, self.what)?;
        if self.mend.is_empty() { Ok(()) } else { write!(f, "; {}", self.mend) }
    }
}

/// Collects remarks on one file, at most [`REMARKS_MAX`].
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    file: String,
    list: Vec<Remark>,
    more: usize,
}

impl Remarks {
    /// Returns an empty collection for a file.
    pub fn of(file: &str) -> Remarks {
        Remarks { file: file.to_owned(), ..Remarks::default() }
    }

    /// Adds a remark on a setting that was not applied.
    pub fn error(&mut self, at: (u32, u32), what: impl Into<String>, mend: impl Into<String>) {
        self.push(Level::Error, at, what.into(), mend.into());
    }

    /// Adds a remark on a setting that was applied, but perhaps not meant.
    pub fn warning(&mut self, at: (u32, u32), what: impl Into<String>, mend: impl Into<String>) {
        self.push(Level::Warning, at, what.into(), mend.into());
    }

    /// Adds a remark worth knowing.
    pub fn note(&mut self, at: (u32, u32), what: impl Into<String>, mend: impl Into<String>) {
        self.push(Level::Note, at, what.into(), mend.into());
    }

    /// Whether further remarks are only counted, so that the caller need not search for their fixes.
    pub fn is_full(&self) -> bool {
        self.list.len() >= REMARKS_MAX
    }

    /// Whether some setting was not applied.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|remark| remark.level == Level::Error)
    }

    /// Returns the remarks, sorted by line.
    pub fn into_list(mut self) -> Vec<Remark> {
        self.list.sort_by_key(|remark| (remark.line, remark.column));
        if self.more > 0 {
            let what = format!("{} more remarks are left out", self.more);
            let (level, mend) = (Level::Note, "fix these first".to_owned());
            self.list.push(Remark { level, file: self.file, line: 0, column: 0, what, mend });
        }
        self.list
    }

    fn push(&mut self, level: Level, (line, column): (u32, u32), what: String, mend: String) {
        if !self.is_full() {
            self.list.push(Remark { level, file: self.file.clone(), line, column, what, mend });
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_says_where_what_and_how_to_mend_it() {
        let mut remarks = Remarks::of("partitions.conf");
        remarks.error((3, 7), "no such membership: fulll", "write full, limited or both");
        remarks.note((0, 0), "no Default rule", "");
        let said: Vec<_> = remarks.into_list().iter().map(ToString::to_string).collect();
        assert_eq!(said[0], "partitions.conf: note: no Default rule");
        assert_eq!(said[1], "partitions.conf:3:7: error: no such membership: fulll; write full, limited or both");
    }

    #[test]
    fn remarks_are_bounded() {
        let mut remarks = Remarks::of("f");
        (0..REMARKS_MAX + 3).for_each(|_| remarks.note((1, 1), "again", ""));
        let list = remarks.into_list();
        assert_eq!((list.len(), list[REMARKS_MAX].what.as_str()), (REMARKS_MAX + 1, "3 more remarks are left out"));
    }
}
