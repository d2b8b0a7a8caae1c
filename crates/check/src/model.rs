//! The objects of one process, their outstanding requests, and the rules in force.
//!
//! The library in front of libibverbs reports every call as plain values: handles are addresses, stacks are numbers that the
//! library can turn into names. [`Model::take_findings`] returns the breaches that a call brought up. A call that has an
//! effect in the model is reported before the library makes it, if another thread could see the effect first, and is taken
//! back if it fails.

mod attributes;
mod completion;
mod events;
mod finding;
mod lifetime;
pub mod limits;
mod memory;
mod naming;
mod objects;
mod receive;
mod region;
mod request;
mod send;
mod spans;
mod transition;
mod window;

pub use attributes::{AddressVector, QpAttributes};
pub use completion::Completion;
pub use events::AsyncEvent;
pub use finding::{CURRENT_STACK, Finding, Site, StackId};
pub use lifetime::Removed;
pub use objects::{
    Ah, Channel, Context, Cq, DeviceLimits, Handle, Kind, Mr, Mw, Pd, PortInfo, Qp, QpCap, QpKind, QpState, RegionKey,
    Srq,
};
pub use region::{Release, Reregistration};
pub use request::{Binding, Opcode, ReceiveRequest, SendFlags, SendRequest, Sge};

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use lifetime::Grave;
use objects::Objects;
use request::SinkLog;
use spans::RegionSpans;

/// Access to the program's memory.
pub trait Memory {
    /// A digest of the bytes in these ranges of address and length, or `None` if they cannot be read. `is_steady`: the program
    /// has taken none of this memory away since it registered it.
    fn digest(&mut self, ranges: &[(u64, u64)], is_steady: bool) -> Option<u64>;
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
    contexts: Objects<Context>,
    pds: Objects<Pd>,
    mrs: Objects<Mr>,
    mws: Objects<Mw>,
    channels: Objects<Channel>,
    cqs: Objects<Cq>,
    srqs: Objects<Srq>,
    qps: Objects<Qp>,
    ahs: Objects<Ah>,
    graves: FxHashMap<(Kind, Handle), Grave>,
    grave_order: VecDeque<(Kind, Handle)>,
    qp_numbers: FxHashMap<(Handle, u32), Handle>,
    keys: FxHashMap<(Handle, u32), RegionKey>,
    /// Objects that a library keeps until the process ends.
    unowned: FxHashSet<(Kind, Handle)>,
    /// Whether a region is registered that the model had no room for.
    untracked_regions: bool,
    spans: RegionSpans,
    sinks: SinkLog,
    findings: Vec<Finding>,
    counters: Counters,
    /// Numbers given to objects, for their names.
    serial: u32,
    /// Counts posts and completions, to order them.
    clock: u64,
    /// The thread of the call in progress.
    thread: u64,
    snapshot_bytes_max: u64,
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
            graves: FxHashMap::default(),
            grave_order: VecDeque::new(),
            qp_numbers: FxHashMap::default(),
            keys: FxHashMap::default(),
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

    /// Whether a call brought up a breach.
    pub fn has_findings(&self) -> bool {
        !self.findings.is_empty()
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

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn device_of(&self, context: Handle) -> &str {
        self.contexts.get(&context).map_or("unknown device", |c| &c.device)
    }
}
