//! The state of the model: objects, keys, findings, counts.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::finding::{Excess, Finding};
use super::ids::{Handle, Site, StackId};
use super::limits::{FINDINGS_MAX, HISTORY_MAX};
use super::objects::{Ah, Channel, Context, Cq, Kind, Mr, Mw, Objects, Pd, Qp, RegionKey, Srq};
use super::request::SinkLog;
use super::spans::RegionSpans;
use super::tombstone::Tombstone;
use crate::rule::{Rule, Severity};
use crate::rules;

/// Access to the program's memory.
pub trait Memory {
    /// A digest of the bytes in these ranges of address and length, or `None` if they cannot be read.
    fn digest(&mut self, ranges: &[(u64, u64)]) -> Option<u64>;
}

/// Counts for the last line of a process's reports.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Work requests posted.
    pub requests: u64,
    /// Completions polled.
    pub completions: u64,
    /// Send buffers compared at completion.
    pub buffers_compared: u64,
    /// Send buffers too long for it.
    pub buffers_skipped: u64,
    /// Objects and requests beyond the limits.
    pub untracked: u64,
}

/// The model of one process.
#[derive(Debug)]
pub struct Model {
    pub(super) contexts: Objects<Context>,
    pub(super) pds: Objects<Pd>,
    pub(super) mrs: Objects<Mr>,
    pub(super) mws: Objects<Mw>,
    pub(super) channels: Objects<Channel>,
    pub(super) cqs: Objects<Cq>,
    pub(super) srqs: Objects<Srq>,
    pub(super) qps: Objects<Qp>,
    pub(super) ahs: Objects<Ah>,
    pub(super) tombstones: FxHashMap<(Kind, Handle), Tombstone>,
    pub(super) tombstone_order: VecDeque<(Kind, Handle)>,
    pub(super) qp_numbers: FxHashMap<(Handle, u32), Handle>,
    pub(super) keys: FxHashMap<(Handle, u32), RegionKey>,
    /// Objects whose destruction has begun and not returned: it waits for acknowledgements.
    pub(super) destroying: FxHashSet<(Kind, Handle)>,
    /// Objects that a library keeps until the process ends.
    pub(super) unowned: FxHashSet<(Kind, Handle)>,
    /// Whether a region is registered that the model had no room for.
    pub(super) untracked_regions: bool,
    pub(super) spans: RegionSpans,
    pub(super) sinks: SinkLog,
    pub(super) findings: Vec<Finding>,
    pub(super) counters: Counters,
    /// Numbers given to objects, for their names.
    pub(super) serial: u32,
    /// Counts posts and completions, to order them.
    pub(super) clock: u64,
    /// The thread of the call in progress.
    pub(super) thread: u64,
    pub(super) snapshot_bytes_max: u64,
}

impl Model {
    /// An empty process. Send buffers of at most `snapshot_bytes_max` bytes are compared at completion.
    pub fn new(snapshot_bytes_max: u64) -> Model {
        Model {
            contexts: Objects::default(),
            pds: Objects::default(),
            mrs: Objects::default(),
            mws: Objects::default(),
            channels: Objects::default(),
            cqs: Objects::default(),
            srqs: Objects::default(),
            qps: Objects::default(),
            ahs: Objects::default(),
            tombstones: FxHashMap::default(),
            tombstone_order: VecDeque::new(),
            qp_numbers: FxHashMap::default(),
            keys: FxHashMap::default(),
            destroying: FxHashSet::default(),
            unowned: FxHashSet::default(),
            untracked_regions: false,
            spans: RegionSpans::default(),
            sinks: SinkLog::default(),
            findings: Vec::new(),
            counters: Counters::default(),
            serial: 0,
            clock: 0,
            thread: 0,
            snapshot_bytes_max,
        }
    }

    /// Returns the breaches since the last time.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// The next call is one of this thread.
    pub fn set_thread(&mut self, thread: u64) {
        self.thread = thread;
    }

    /// The open devices.
    pub fn open_contexts(&self) -> Vec<Handle> {
        let mut contexts: Vec<_> = self.contexts.keys().copied().collect();
        contexts.sort_unstable();
        contexts
    }

    /// Whether this device is open.
    pub fn is_open(&self, context: Handle) -> bool {
        self.contexts.contains_key(&context)
    }

    /// Whether this is a live completion queue that `ibv_poll_cq` empties.
    pub fn is_plain_cq(&self, cq: Handle) -> bool {
        self.cqs.get(&cq).is_some_and(|cq| !cq.is_extended)
    }

    /// Returns the counts.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn device_of(&self, context: Handle) -> &str {
        self.contexts.get(&context).map_or("unknown device", |c| &c.device)
    }
}

impl Model {
    pub(super) fn find(&mut self, rule: &'static Rule, site: Site, object: String, message: String) {
        self.find_with(rule, site, object, message, Vec::new());
    }

    pub(super) fn find_with(
        &mut self,
        rule: &'static Rule,
        site: Site,
        object: String,
        message: String,
        history: Vec<(String, StackId)>,
    ) {
        self.push_finding(Finding { rule, severity: rule.severity, message, object, site, history });
    }

    pub(super) fn push_finding(&mut self, mut finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            finding.history.truncate(HISTORY_MAX);
            self.findings.push(finding);
        }
    }

    /// The library has answered a request beyond the capacity of its queue. It is an error if the library accepts it, and a
    /// warning if it finds the queue full, which the program may expect. A queue that no completion frees is an error.
    pub fn report_excess(&mut self, excess: Excess, is_accepted: bool) {
        let mut finding = excess.finding;
        if is_accepted && !excess.is_certain {
            return;
        }
        if !is_accepted && finding.rule != &rules::NEVER_SIGNALED {
            finding.severity = Severity::Warning;
        }
        self.push_finding(finding);
    }
}
