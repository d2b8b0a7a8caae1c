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
//! Data never goes where no table is: a switch has its table before its links carry data, links between switches carry
//! data before tables lead over them, and hosts come last. Names are for people, and nothing waits for them: what a node is
//! called is asked when the subnet carries data.

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

/// What a sweep is at.
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
    /// Multicast tables, without a sweep: groups have other members.
    Groups,
    /// Names of nodes that were found, after their sweep.
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

/// What is to be swept next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub heavy: bool,
    pub light: bool,
    /// Switches that say that something changed.
    pub switches: BTreeSet<NodeIx>,
    /// End ports that say so.
    pub ports: BTreeSet<PortIx>,
}

/// What is known of a node for the time of a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The look, by its number, that was the last at it.
    pub read: u64,
    /// Ports whose cables were seen in the present sweep, a bit each.
    pub linked: [u64; 4],
    /// A switch whose tables nobody wrote yet.
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

/// Why a port is not used though its link is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolated {
    /// Nobody answers behind it.
    Silent,
    /// Who answers has a GUID that somebody else has.
    Duplicate,
}

/// Two places where one port of one node seems to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Doubt {
    pub guid: u64,
    /// The port that both say that they lead to.
    pub seems: PortIx,
    pub first: PortIx,
    pub second: PortIx,
}

/// Sweeps, past, present and to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    pub phase: Phase,
    pub wanted: Wanted,
    /// No sweep begins until somebody says so.
    pub halted: bool,
    /// When the next begins by itself.
    pub next: Option<Instant>,
    pub count: u64,
    /// How often ports were looked at, at all or some.
    pub look: u64,
    pub heavy_count: u64,
    /// Whether the present one looks at all.
    pub heavy: bool,
    pub marks: Vec<Mark>,
    /// Something is not as the tables know it.
    pub reroute: bool,
    /// Tables are to be computed as if there had been none.
    pub anew: bool,
    /// End ports that were configured since they were looked at last: their links may have fallen back meanwhile.
    pub risen: BTreeSet<PortIx>,
    /// Something was not done: first what.
    pub incomplete: Option<String>,
    /// Sweeps in a row that left something undone.
    pub failures: u32,
    pub is_up: bool,
    /// Whether this manager wrote tables since it became master.
    pub mastered: bool,
    pub isolated: BTreeMap<PortIx, Isolated>,
    pub doubts: Vec<Doubt>,
    /// Blocks of switches' multicast tables that have nothing that is not known, from the first on. There are none that a
    /// switch was found with: what another manager wrote goes when a block is used.
    pub cleared: BTreeMap<NodeIx, u32>,
    /// Multicast tables were written since trees were last looked at.
    pub mfts_written: bool,
    /// Ports that did not become what they were set to: what that was and what they said, as a number that another content
    /// would hardly have. They are not set so again.
    pub stubborn: BTreeMap<PortIx, u64>,
    /// What lanes a port was given, as a number that another content would hardly have.
    pub lanes: BTreeMap<PortIx, u64>,
    /// Blocks of tables that nobody said to have.
    pub unsure: BTreeSet<(NodeIx, u32)>,
    /// Switches that a sweep of some is still to look at, the nearest last.
    pub later: Vec<NodeIx>,
    /// Those whose way is being looked at before they are.
    pub nearing: Vec<NodeIx>,
    /// Nodes that were found and are still to be asked what they are called.
    pub nameless: BTreeSet<NodeIx>,
    /// What is wanted comes before their names.
    pub names_put_off: bool,
    /// Tries that nobody had answered when names were asked.
    pub unanswered: u64,
    /// SMPs that were sent before the present sweep.
    pub sent_before: u64,
    pub came: u32,
    pub gone: u32,
    pub lft_blocks: u32,
    /// Somebody else configured ports: all is looked at once more.
    pub usurped: bool,
    /// The next sweep looks at all, since the last left something undone.
    pub again: bool,
    /// Something was written since the subnet was last told to be up.
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
