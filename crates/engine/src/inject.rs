//! Faults at run time: a user adds them to the running program or removes them; reports of injected failures.

use weft_hca::InjectedFailure;
use weft_verbs::Instant;

use crate::pump::Pump;
use crate::trace::{self, Kind};

impl Pump {
    /// Adds a fault.
    pub(crate) fn add_fault(&mut self, now: Instant, number: u32, spec: &str) {
        self.faults.add(now, number, spec, &mut self.hca, &mut self.stack);
    }

    /// Removes a fault.
    pub(crate) fn end_fault(&mut self, now: Instant, number: u32) {
        self.faults.end(now, number, &mut self.hca, &mut self.stack);
    }

    /// Removes all faults that were added.
    pub(crate) fn end_all_faults(&mut self, now: Instant) {
        self.faults.end_all(now, &mut self.hca, &mut self.stack);
    }

    /// Returns how often each added fault has struck, if any has since the last call.
    pub(crate) fn take_strikes(&mut self) -> Option<Vec<(u32, u64)>> {
        self.faults.take_strikes(&self.hca, &self.stack)
    }
}

/// Reports failures that were injected, or that have no effect.
#[cold]
pub fn report(failures: Vec<InjectedFailure>) {
    for InjectedFailure { at, number, qpn, struck, text } in failures {
        if trace::on() {
            trace::note(at, Kind::Fault, qpn, format_args!("fault={number} {text}"));
        }
        if !struck {
            crate::log::note(&format!("fault {number}: {text}"));
        }
    }
}
