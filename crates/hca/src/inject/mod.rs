//! Injected failures ([`weft_verbs::injection`]): calls that fail, requests that complete with an error, asynchronous events.
//! Without any, each place that could fail tests one pointer for null.
//!
//! [`progress`] decides by numbers, times and random numbers whether a failure strikes, [`injector`] holds the failures of the
//! process, and [`events`] raises events and lets their subjects fail.

mod events;
mod injector;
mod outage;
mod post;
mod progress;
mod report;
#[cfg(test)]
mod tests;

use weft_verbs::injection::{Call, CmFailure, Injection};
use weft_verbs::{DeviceId, Instant, QpId, Qpn, SrqId, VerbsError};

use crate::context::HcaContext;
use crate::{Hca, HostInterface};
pub(crate) use injector::Injector;
pub use report::InjectedFailure;

impl<H: HostInterface> HcaContext<H> {
    /// Refuses the call if an injected failure strikes it; `qp` is its queue pair, if it has one.
    #[inline]
    pub(crate) fn may_call(&mut self, device: DeviceId, call: Call, qp: Option<(QpId, Qpn)>) -> Result<(), VerbsError> {
        if self.injector.is_none() { Ok(()) } else { self.ask_injector(device, call, qp) }
    }

    #[cold]
    fn ask_injector(&mut self, device: DeviceId, call: Call, qp: Option<(QpId, Qpn)>) -> Result<(), VerbsError> {
        let (Some(injector), Some(device)) = (&mut self.injector, self.devices.get(&device)) else { return Ok(()) };
        injector.on_call(self.now, Some(&device.attr.name), call, qp)
    }
}

impl<H: HostInterface> Hca<H> {
    /// Adds a failure to inject from now on. The caller chooses its number.
    pub fn inject(&mut self, now: Instant, number: u32, injection: Injection) {
        self.set_time(now);
        self.context.injector.get_or_insert_default().add(now, number, injection);
    }

    /// Removes a failure, and ends the outages that it caused.
    pub fn end_injection(&mut self, now: Instant, number: u32) {
        let Some(injector) = &mut self.context.injector else { return };
        let ended = injector.remove(number);
        self.drop_empty_injector();
        self.set_time(now);
        ended.into_iter().for_each(|outage| self.end_outage(&outage));
    }

    /// Whether there are failures to inject. Then the caller passes in exact times.
    #[inline]
    pub fn injects(&self) -> bool {
        self.context.injector.is_some()
    }

    /// Passes in the time of a call that has no parameter for it.
    pub fn set_time(&mut self, now: Instant) {
        self.context.now = self.context.now.max(now);
    }

    /// Whether a report waits.
    #[inline]
    pub fn has_injected(&self) -> bool {
        self.context.injector.as_ref().is_some_and(|injector| !injector.reports.is_empty())
    }

    /// Takes the reports since the last call.
    pub fn take_injected(&mut self) -> Vec<InjectedFailure> {
        let reports = self.context.injector.as_mut().map(|injector| std::mem::take(&mut injector.reports));
        self.drop_empty_injector();
        reports.unwrap_or_default()
    }

    /// Gives up the injector once nothing is left to inject or to report: then calls test a null pointer again.
    fn drop_empty_injector(&mut self) {
        if self.context.injector.as_ref().is_some_and(|injector| injector.is_empty()) {
            self.context.injector = None;
        }
    }

    /// Returns how often each failure has struck, by its number.
    pub fn strikes(&self) -> Vec<(u32, u64)> {
        self.context.injector.as_ref().map(|injector| injector.strikes().collect()).unwrap_or_default()
    }

    /// Refuses the call if an injected failure strikes it.
    pub fn may_call(&mut self, device: DeviceId, call: Call) -> Result<(), VerbsError> {
        self.context.may_call(device, call, None)
    }

    /// Refuses a call of the RDMA connection manager if an injected failure strikes it, or returns the event by which its work
    /// is to fail. `device` is that of the identifier, if it has one.
    pub fn may_connect(&mut self, device: Option<DeviceId>, call: Call) -> Result<Option<CmFailure>, VerbsError> {
        let context = &mut self.context;
        let Some(injector) = &mut context.injector else { return Ok(None) };
        let device = device.and_then(|device| context.devices.get(&device)).map(|device| device.attr.name.as_str());
        injector.on_call(context.now, device, call, None)?;
        Ok(injector.on_connecting(context.now, device, call))
    }

    /// Refuses a post to a shared receive queue if an injected failure strikes it.
    #[inline]
    pub fn may_post_srq_recv(&mut self, id: SrqId) -> Result<(), VerbsError> {
        if self.context.injector.is_none() {
            return Ok(());
        }
        let device = self.context.srqs.get(id)?.device;
        self.context.may_call(device, Call::PostSrqRecv, None)
    }

    /// Refuses the call of a queue pair if an injected failure strikes it.
    #[inline]
    pub fn may_call_for_qp(&mut self, id: QpId, call: Call) -> Result<(), VerbsError> {
        if self.context.injector.is_none() {
            return Ok(());
        }
        let entry = self.qps.get(id)?;
        self.context.may_call(entry.device, call, Some((id, entry.qp.qpn())))
    }
}
