//! Unit attention conditions of one I_T nexus: each logical unit reports a change once (SAM-5 §5.14).

use std::collections::BTreeMap;

use super::{Lun, Sense};

/// Conditions that wait, one for each logical unit: the latest replaces an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Attentions(BTreeMap<Lun, Sense>);

impl Attentions {
    /// Establishes a condition.
    pub fn establish(&mut self, lun: Lun, sense: Sense) {
        self.0.insert(lun, sense);
    }

    /// Takes the condition of a logical unit, which is reported with it.
    pub fn take(&mut self, lun: Lun) -> Option<Sense> {
        self.0.remove(&lun)
    }
}
