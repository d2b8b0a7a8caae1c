//! Status of the manager, for people and monitors.

use weft_wire::mad::subn::SmState;

use super::{Manager, WireCounts};

/// Status of the manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its state.
    pub state: SmState,
    /// Its priority.
    pub priority: u8,
    /// LID of its port.
    pub lid: u16,
    /// PortGUID and priority of the master, if known.
    pub master: Option<(u64, u8)>,
    /// Its present activity.
    pub busy: &'static str,
    /// Requests of the sweep that are queued or in flight.
    pub left: u64,
    /// Sweeps so far.
    pub sweeps: u64,
    /// Heavy ones among them.
    pub heavy_sweeps: u64,
    /// Whether the last heavy sweep left nothing undone.
    pub is_up: bool,
    /// SMPs.
    pub wire: WireCounts,
    /// The engine whose tables are in force; empty before the first tables.
    pub engine: &'static str,
    /// Traps received.
    pub traps: u64,
}

impl Manager {
    /// Returns the status.
    pub fn status(&self) -> Status {
        let master = match self.state {
            SmState::MASTER => Some((self.setup.own_guid, self.setup.sm_priority)),
            _ => self.peers.master().map(|peer| (peer.guid, peer.priority)),
        };
        Status {
            state: self.state,
            priority: self.setup.sm_priority,
            lid: self.seen_lid(),
            master,
            busy: self.sweep.phase.text(),
            left: self.wire.left() as u64,
            sweeps: self.sweep.count,
            heavy_sweeps: self.sweep.heavy_count,
            is_up: self.sweep.is_up,
            wire: self.wire.counts,
            engine: self.tables.engine,
            traps: self.traps.count,
        }
    }

    /// Returns the LID of the own port, whichever manager assigned it.
    fn seen_lid(&self) -> u16 {
        let own = self.subnet.own.and_then(|own| self.subnet.port(own));
        own.map_or(0, |port| if port.lid == 0 { port.info.lid } else { port.lid })
    }

    pub(crate) fn own_lid(&self) -> u16 {
        self.subnet.own.and_then(|own| self.subnet.port(own)).map_or(0, |port| port.lid)
    }
}
