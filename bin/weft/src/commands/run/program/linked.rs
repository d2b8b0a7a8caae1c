//! How a program is linked.

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linked {
    /// Dynamically: the loader takes Weft's libraries.
    Dynamically,
    /// Statically with verbs inside the program, which Weft cannot replace.
    StaticallyWithVerbs,
    /// Statically without verbs: for example a shell, which starts other programs.
    Statically,
}
