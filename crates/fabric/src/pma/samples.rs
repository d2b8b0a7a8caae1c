//! PortSamplesControl and PortSamplesResult (IBA 16.1.3.2 and 16.1.3.4): count for an interval, then read. Every agent
//! has one sampling mechanism for all its ports; while it runs, it accepts no other request.

use super::bank::answer;
use super::sampling::{COUNTERS, Sampling};
use crate::Fabric;
use crate::counters::{Counter, TICK_NS};
use crate::flight::Timer;
use weft_verbs::Duration;
use weft_wire::mad::perf::{PortSamplesControl, PortSamplesResult, SampleStatus};
use weft_wire::mad::{Attribute, Status};

/// A tick in units of four nanoseconds, as reported.
const TICK: u8 = (TICK_NS / 4) as u8;

/// CounterWidth of 32 bits.
const WIDTH_32: u8 = 4;

/// CounterMask of counters that accept any selection, 3 bits each.
const ANY: u32 = 0o111_111_111;

/// Counters that CounterSelect names, from 1 on.
const SELECTABLE: [Counter; 5] =
    [Counter::XmitData, Counter::RcvData, Counter::XmitPackets, Counter::RcvPackets, Counter::XmitWait];

fn selected(select: u16) -> Option<Counter> {
    SELECTABLE.get(usize::from(select).checked_sub(1)?).copied()
}

impl Fabric {
    pub(super) fn serve_samples_control(&mut self, at: u32, data: &mut [u8], set: bool) -> Result<(), Status> {
        let asked = PortSamplesControl::read(data).ok_or(Status::INVALID_FIELD)?;
        let node = &self.nodes[self.ports[at as usize].node as usize];
        let place = node.place(asked.port_select).ok_or(Status::INVALID_FIELD)?;
        let idle = self.samplings.get(&at).is_none_or(|sampling| sampling.status == SampleStatus::DONE);
        if set && idle {
            self.begin_sampling(at, place, asked);
        }
        let sampling = self.samplings.get(&at).filter(|sampling| sampling.place == place);
        let order = sampling.map(|sampling| sampling.order).unwrap_or_default();
        let control = PortSamplesControl {
            port_select: asked.port_select,
            tick: TICK,
            counter_width: WIDTH_32,
            counter_mask0: (ANY & 7) as u8,
            counter_masks1_to_9: ANY,
            counter_masks10_to_14: (ANY & 0o77777) as u16,
            sample_status: sampling.map_or(SampleStatus::DONE, |sampling| sampling.status),
            sample_start: order.sample_start,
            sample_interval: order.sample_interval,
            tag: order.tag,
            counter_select: order.counter_select.map(|select| if selected(select).is_some() { select } else { 0 }),
            ..PortSamplesControl::default()
        };
        answer(data, &control)
    }

    pub(super) fn serve_samples_result(&self, at: u32, data: &mut [u8]) -> Result<(), Status> {
        let result = self.samplings.get(&at).map_or_else(PortSamplesResult::default, |sampling| PortSamplesResult {
            tag: sampling.order.tag,
            sample_status: sampling.status,
            counters: self.sampled(sampling).map(|count| count.min(0xffff_ffff) as u32),
        });
        answer(data, &result)
    }

    /// Returns the counts of a sampling so far.
    fn sampled(&self, sampling: &Sampling) -> [u64; COUNTERS] {
        match sampling.status {
            SampleStatus::DONE => sampling.counts,
            SampleStatus::RUNNING => self.grown(sampling),
            _ => [0; COUNTERS],
        }
    }

    fn grown(&self, sampling: &Sampling) -> [u64; COUNTERS] {
        let now = self.totals(sampling);
        // The counters of a port that lost power meanwhile restarted from 0.
        std::array::from_fn(|at| now[at].saturating_sub(sampling.counts[at]))
    }

    fn totals(&self, sampling: &Sampling) -> [u64; COUNTERS] {
        let counters = &self.ports[sampling.place as usize].counters;
        sampling.order.counter_select.map(|select| selected(select).map_or(0, |counter| counters.total(counter)))
    }

    fn begin_sampling(&mut self, at: u32, place: u32, order: PortSamplesControl) {
        let due = self.now + Duration::from_nanos(u64::from(order.sample_start) * TICK_NS);
        let status = SampleStatus::STARTED;
        self.samplings.insert(at, Sampling { order, place, status, due, counts: [0; COUNTERS] });
        match order.sample_start {
            0 => self.on_sampling(at),
            _ => self.timers.set(due, Timer::Sample(at)),
        }
    }

    /// Takes the next step of an agent's sampling, if it is due.
    pub(crate) fn on_sampling(&mut self, at: u32) {
        let Some(mut sampling) = self.samplings.remove(&at) else { return };
        if sampling.due <= self.now && sampling.status == SampleStatus::STARTED {
            sampling.status = SampleStatus::RUNNING;
            sampling.counts = self.totals(&sampling);
            sampling.due = self.now + Duration::from_nanos(u64::from(sampling.order.sample_interval) * TICK_NS);
            self.timers.set(sampling.due, Timer::Sample(at));
        } else if sampling.due <= self.now && sampling.status == SampleStatus::RUNNING {
            sampling.counts = self.grown(&sampling);
            sampling.status = SampleStatus::DONE;
        }
        self.samplings.insert(at, sampling);
    }
}
