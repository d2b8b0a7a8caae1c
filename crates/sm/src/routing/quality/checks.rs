//! Options of a check.

/// Default limit on the number of shift permutations to test.
pub const SHIFTS_MAX: usize = 512;

/// Options of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Maximum number of shift permutations to test, evenly chosen; 0: none.
    pub shifts: usize,
    /// Indices of end ports in shift order. If empty: on a tree, by switch in the order of a walk along the cables;
    /// otherwise in GUID order. An index that no end port has is a gap and sends nothing.
    pub order: Vec<u32>,
    /// Whether to include paths to switches in the credit loop check.
    pub to_switches: bool,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { shifts: SHIFTS_MAX, order: Vec::new(), to_switches: true }
    }
}
