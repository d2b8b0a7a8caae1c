//! Diagnostics on a configuration file: where, what, and how to fix it.

use std::fmt;

/// Diagnostics kept per file; further ones are only counted.
pub const REMARKS_MAX: usize = 500;

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Applied, but perhaps not what was meant.
    Warning,
    /// Not applied.
    Error,
}

/// A diagnostic on a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
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
    pub fix: String,
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

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for place in [self.line, self.column] {
            if place != 0 {
                write!(f, ":{place}")?;
            }
        }
        write!(f, ": {}: {}", self.level, self.what)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, "; {}", self.fix) }
    }
}

/// Collects diagnostics on one file, at most [`REMARKS_MAX`].
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    file: String,
    list: Vec<Diagnostic>,
    more: usize,
}

impl Diagnostics {
    /// Returns an empty collection for a file.
    pub fn of(file: &str) -> Diagnostics {
        Diagnostics { file: file.to_owned(), ..Diagnostics::default() }
    }

    /// Adds a diagnostic on a setting that was not applied.
    pub fn error(&mut self, at: (u32, u32), what: impl Into<String>, fix: impl Into<String>) {
        self.push(Level::Error, at, what.into(), fix.into());
    }

    /// Adds a diagnostic on a setting that was applied, but perhaps not meant.
    pub fn warning(&mut self, at: (u32, u32), what: impl Into<String>, fix: impl Into<String>) {
        self.push(Level::Warning, at, what.into(), fix.into());
    }

    /// Adds a diagnostic worth knowing.
    pub fn note(&mut self, at: (u32, u32), what: impl Into<String>, fix: impl Into<String>) {
        self.push(Level::Note, at, what.into(), fix.into());
    }

    /// Whether further diagnostics are only counted, so that the caller need not search for their fixes.
    pub fn is_full(&self) -> bool {
        self.list.len() >= REMARKS_MAX
    }

    /// Whether some setting was not applied.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.level == Level::Error)
    }

    /// Returns the diagnostics, sorted by line.
    pub fn into_list(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        if self.more > 0 {
            let what = format!("{} more diagnostics are left out", self.more);
            let (level, fix) = (Level::Note, "fix these first".to_owned());
            self.list.push(Diagnostic { level, file: self.file, line: 0, column: 0, what, fix });
        }
        self.list
    }

    fn push(&mut self, level: Level, (line, column): (u32, u32), what: String, fix: String) {
        if !self.is_full() {
            self.list.push(Diagnostic { level, file: self.file.clone(), line, column, what, fix });
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_place_reason_and_fix() {
        let mut diagnostics = Diagnostics::of("partitions.conf");
        diagnostics.error((3, 7), "no such membership: fulll", "write full, limited or both");
        diagnostics.note((0, 0), "no Default rule", "");
        let said: Vec<_> = diagnostics.into_list().iter().map(ToString::to_string).collect();
        assert_eq!(said[0], "partitions.conf: note: no Default rule");
        assert_eq!(said[1], "partitions.conf:3:7: error: no such membership: fulll; write full, limited or both");
    }

    #[test]
    fn remarks_are_bounded() {
        let mut diagnostics = Diagnostics::of("f");
        (0..REMARKS_MAX + 3).for_each(|_| diagnostics.note((1, 1), "again", ""));
        let list = diagnostics.into_list();
        assert_eq!((list.len(), list[REMARKS_MAX].what.as_str()), (REMARKS_MAX + 1, "3 more diagnostics are left out"));
    }
}
