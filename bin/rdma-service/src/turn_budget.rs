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
    /// Whether these bytes may be copied now; they are counted then.
    pub fn allows(&mut self, bytes: u32) -> bool {
        let left = self.0.checked_sub(bytes as usize);
        left.inspect(|left| self.0 = *left).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_an_end() {
        let mut budget = TurnBudget::default();
        assert!(!budget.allows(AT_ONCE_BYTES_PER_TURN as u32 + 1));
        assert!(budget.allows(AT_ONCE_BYTES_PER_TURN as u32) && budget.allows(0));
        assert!(!budget.allows(1));
    }
}
