//! Bytes that a target's loop copies itself in one turn, so that many hosts do not keep events and timers waiting.

use crate::limits::AT_ONCE_BYTES_PER_TURN;

/// The bytes that are left.
#[derive(Debug)]
pub struct TurnBudget(usize);

impl Default for TurnBudget {
    fn default() -> TurnBudget {
        TurnBudget(AT_ONCE_BYTES_PER_TURN)
    }
}

impl TurnBudget {
    /// Whether so many bytes may be copied now.
    pub fn allows(&self, bytes: usize) -> bool {
        bytes <= self.0
    }

    /// Counts bytes that were copied.
    pub fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_an_end() {
        let mut budget = TurnBudget::default();
        assert!(!budget.allows(AT_ONCE_BYTES_PER_TURN + 1));
        assert!(budget.allows(AT_ONCE_BYTES_PER_TURN));
        budget.spend(AT_ONCE_BYTES_PER_TURN - 1);
        assert!(budget.allows(1) && !budget.allows(2));
    }
}
