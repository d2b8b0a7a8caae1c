//! The communication manager as a value.

use std::collections::{BTreeMap, VecDeque};

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::Instant;

use super::comm_id::{CommIds, ConnId};
use super::event::Event;
use super::param::CaInfo;
use super::stats::CmStats;

/// Every connection of a host, its listeners and timers.
#[derive(Debug)]
pub struct Cm {
    pub(super) ids: CommIds,
    pub(super) devices: BTreeMap<u32, CaInfo>,
    pub(super) events: VecDeque<Event>,
    pub(super) transmit: VecDeque<(GmpAddress, MadBytes)>,
    pub(super) timers: BTreeMap<Instant, ConnId>,
    pub(super) stats: CmStats,
}

impl Cm {
    /// A communication manager without devices. `seed` must not be predictable: communication ids and transaction ids
    /// come from it.
    pub fn new(seed: u64) -> Cm {
        Cm {
            ids: CommIds::new(seed),
            devices: BTreeMap::new(),
            events: VecDeque::new(),
            transmit: VecDeque::new(),
            timers: BTreeMap::new(),
            stats: CmStats::default(),
        }
    }

    /// A device is new or has changed. Datagrams of a device that is not known are dropped.
    pub fn set_device(&mut self, device: u32, info: CaInfo) {
        self.devices.insert(device, info);
    }

    /// A device is gone. Its connections stay until their owner destroys them, and send nothing any more.
    pub fn remove_device(&mut self, device: u32) {
        self.devices.remove(&device);
    }

    /// A datagram came to queue pair 1. Whatever it is, it is dealt with; what is wrong with it is counted.
    pub fn handle_mad(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        let _ = (now, from, mad);
    }

    /// Lets everything happen that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When [`Cm::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(at, _)| *at)
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(GmpAddress, MadBytes)> {
        self.transmit.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The counters.
    pub fn stats(&self) -> &CmStats {
        &self.stats
    }
}
