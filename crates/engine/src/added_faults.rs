//! Faults that a user added while the program runs, by their numbers.

use std::collections::BTreeMap;

use weft_link::{FaultPlan, Stack};
use weft_verbs::Instant;

use crate::adapter::Adapter;
use crate::trace::{self, Kind};

/// The faults, and how often each had struck at the last report to the daemon.
#[derive(Debug, Default)]
pub struct AddedFaults {
    reported: BTreeMap<u32, u64>,
}

impl AddedFaults {
    /// Adds a fault. The daemon has checked its specification; one of a newer daemon may still be unknown here.
    pub fn add(&mut self, now: Instant, number: u32, spec: &str, hca: &mut Adapter, stack: &mut Stack) {
        let mut plan = FaultPlan::default();
        if let Err(error) = plan.add(number, spec) {
            return crate::log::note(&format!("fault {number} is not injected: {error}"));
        }
        self.reported.insert(number, 0);
        plan.packets.into_iter().for_each(|(number, packets)| stack.add_fault(number, packets));
        plan.injections.into_iter().for_each(|(number, injection)| hca.inject(now, number, injection));
        if trace::on() {
            trace::note(now, Kind::Fault, None, format_args!("fault={number} added \"{spec}\""));
        }
    }

    /// Removes a fault.
    pub fn end(&mut self, now: Instant, number: u32, hca: &mut Adapter, stack: &mut Stack) {
        if self.reported.remove(&number).is_none() {
            return;
        }
        stack.remove_fault(number);
        hca.end_injection(now, number);
        if trace::on() {
            trace::note(now, Kind::Fault, None, format_args!("fault={number} removed"));
        }
    }

    /// Removes all: the daemon that kept them is gone.
    pub fn end_all(&mut self, now: Instant, hca: &mut Adapter, stack: &mut Stack) {
        let numbers: Vec<u32> = self.reported.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end(now, number, hca, stack));
    }

    /// Returns how often each has struck, if any has since the last call.
    pub fn take_strikes(&mut self, hca: &Adapter, stack: &Stack) -> Option<Vec<(u32, u64)>> {
        if self.reported.is_empty() {
            return None;
        }
        let (mut all, mut has_changed) = (Vec::new(), false);
        for (number, struck) in hca.strikes().into_iter().chain(stack.fault_strikes()) {
            if let Some(reported) = self.reported.get_mut(&number) {
                has_changed |= std::mem::replace(reported, struck) != struck;
                all.push((number, struck));
            }
        }
        has_changed.then_some(all)
    }
}
