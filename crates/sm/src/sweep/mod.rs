//! Sweeps: discovery by directed routes, assignment of LIDs, configuration of ports, forwarding tables.
//!
//! ```text
//!  light: SwitchInfo of every switch ──> anything changed? ──no──> done
//!                                              │
//!  heavy, or the ports of what changed:        v
//!  discover ──> managers ──> configure, arm ──> tables of new switches ──> activate between switches
//!                 │              └─ routing meanwhile ─┘                          │
//!                 v                                                               v
//!              stand by              done <── activate ends <── multicast <── tables of the others
//!                 └────────> names <─────┘
//! ```
//!
//! Data never reaches a switch without tables: a switch gets its table before its links go active, links between
//! switches go active before tables lead over them, and hosts come last. Names are for people, and nothing waits for
//! them: the manager asks for node descriptions once the subnet carries data.

pub(crate) mod ask;
mod configure;
mod discovery;
mod download;
mod lanes;
mod multicast;
mod names;
mod partial;
mod partitions;
mod phase;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use weft_verbs::Instant;

use crate::subnet::{NodeIx, PortIx};

pub(crate) use ask::{Ask, What};
pub(crate) use wire::{Silence, Wire};
pub use wire::{WIRE_SMPS_MAX, WireCounts};

/// Phase of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Light,
    Discover,
    Managers,
    Configure,
    FreshTables,
    ActivateLinks,
    Tables,
    Multicast,
    ActivateEnds,
    /// Multicast tables, outside of a sweep, because the members of groups changed.
    Groups,
    /// Descriptions of discovered nodes, after their sweep.
    Names,
}

impl Phase {
    pub fn text(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Light => "light sweep",
            Phase::Discover => "discovering",
            Phase::Managers => "asking other managers",
            Phase::Configure => "configuring ports",
            Phase::FreshTables | Phase::Tables => "writing tables",
            Phase::ActivateLinks | Phase::ActivateEnds => "activating links",
            Phase::Multicast | Phase::Groups => "writing multicast tables",
            Phase::Names => "asking for names",
        }
    }
}

/// Request for the next sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub heavy: bool,
    pub light: bool,
    /// Switches that report a change.
    pub switches: BTreeSet<NodeIx>,
    /// End ports that report a change.
    pub ports: BTreeSet<PortIx>,
}

/// State of a node during a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Value of [`Sweep::look`] when the manager last read the node.
    pub read: u64,
    /// Ports whose cables this sweep has seen, a bit each.
    pub linked: [u64; 4],
    /// A switch without tables yet.
    pub fresh: bool,
}

impl Mark {
    pub fn is_linked(&self, port: u8) -> bool {
        self.linked[usize::from(port / 64)] >> (port % 64) & 1 != 0
    }

    pub fn set_linked(&mut self, port: u8) {
        self.linked[usize::from(port / 64)] |= 1 << (port % 64);
    }
}

/// Reason why a port is unused although its link is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolated {
    /// The far end does not answer.
    Silent,
    /// The node at the far end reports the GUID of another node.
    Duplicate,
}

/// Two cables that seem to lead to the same port of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Doubt {
    pub guid: u64,
    /// The port that both seem to lead to.
    pub seems: PortIx,
    pub first: PortIx,
    pub second: PortIx,
}

/// State of the present, past and next sweeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    pub phase: Phase,
    pub wanted: Wanted,
    /// No sweep begins until [`crate::manager::Manager::set_sweeping`] allows it.
    pub halted: bool,
    /// Time at which the next sweep begins by itself.
    pub next: Option<Instant>,
    pub count: u64,
    /// Number of sweeps so far that read ports, all or some.
    pub look: u64,
    pub heavy_count: u64,
    /// Whether the present sweep reads everything.
    pub heavy: bool,
    pub marks: Vec<Mark>,
    /// Something differs from what the tables were computed for.
    pub reroute: bool,
    /// Compute tables as if there were no previous ones.
    pub anew: bool,
    /// End ports that were configured since they were last read: their links may have fallen back meanwhile.
    pub risen: BTreeSet<PortIx>,
    /// First of the things that this sweep left undone.
    pub incomplete: Option<String>,
    /// Consecutive sweeps that left something undone.
    pub failures: u32,
    pub is_up: bool,
    /// Whether this manager has completed a sweep since it became master.
    pub mastered: bool,
    pub isolated: BTreeMap<PortIx, Isolated>,
    pub doubts: Vec<Doubt>,
    /// Number of leading blocks of each switch's multicast table whose whole content is known. A newly found switch has
    /// 0: what another manager wrote is cleared when a block is first used.
    pub cleared: BTreeMap<NodeIx, u32>,
    /// Multicast tables were written since trees were last computed.
    pub mfts_written: bool,
    /// Ports that did not take their settings: a hash of the wanted and the reported settings, which other content
    /// hardly shares. They are not set the same way again.
    pub stubborn: BTreeMap<PortIx, u64>,
    /// Hash of the VL tables written to a port.
    pub lanes: BTreeMap<PortIx, u64>,
    /// Forwarding table blocks sent, but not acknowledged by the switch.
    pub unsure: BTreeSet<(NodeIx, u32)>,
    /// Switches that a partial sweep has yet to read, the nearest last.
    pub later: Vec<NodeIx>,
    /// Switches whose route is being checked before they are read.
    pub nearing: Vec<NodeIx>,
    /// Discovered nodes not yet asked for their descriptions.
    pub nameless: BTreeSet<NodeIx>,
    /// The next sweep comes before their descriptions.
    pub names_put_off: bool,
    /// Number of timeouts when the manager began to ask for descriptions.
    pub unanswered: u64,
    /// SMPs sent before the present sweep.
    pub sent_before: u64,
    pub came: u32,
    pub gone: u32,
    pub lft_blocks: u32,
    /// Another manager configured ports: the next sweep reads everything again.
    pub usurped: bool,
    /// The next sweep is heavy, since the last one left something undone.
    pub again: bool,
    /// Something was written since the subnet was last reported up.
    pub written: bool,
}

impl Sweep {
    pub fn mark(&mut self, node: NodeIx) -> &mut Mark {
        let place = node.0 as usize;
        if place >= self.marks.len() {
            self.marks.resize(place + 1, Mark::default());
        }
        &mut self.marks[place]
    }

    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        self.incomplete.get_or_insert_with(what);
    }
}
