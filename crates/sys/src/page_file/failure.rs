//! Reasons why pages stay where they are.

use std::io;

/// Kinds of pages that do not move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Immovable {
    /// No memory is there.
    Hole,
    /// The program may not write there.
    ReadOnly,
    /// The mapping is shared already, with a file or another process.
    Shared,
    /// A stack.
    Stack,
    /// Other threads run, and the kernel offers no way to let their writes wait.
    Threads,
}

impl std::fmt::Display for Immovable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Immovable::Hole => "no memory is mapped there",
            Immovable::ReadOnly => "the memory is read-only or executable",
            Immovable::Shared => "the memory is a shared mapping",
            Immovable::Stack => "the memory is a stack",
            Immovable::Threads => {
                "other threads run, and their writes cannot wait: userfaultfd(2) is forbidden, or the memory is a file's"
            }
        })
    }
}

/// Reason why pages do not move.
#[derive(Debug)]
pub enum MoveError {
    /// They are of a kind that does not.
    Immovable(Immovable),
    /// A call failed.
    System(io::Error),
}

impl From<io::Error> for MoveError {
    fn from(error: io::Error) -> MoveError {
        MoveError::System(error)
    }
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MoveError::Immovable(kind) => kind.fmt(f),
            MoveError::System(error) => error.fmt(f),
        }
    }
}

impl From<Immovable> for MoveError {
    fn from(kind: Immovable) -> MoveError {
        MoveError::Immovable(kind)
    }
}
