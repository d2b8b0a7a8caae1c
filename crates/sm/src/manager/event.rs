//! What the manager tells of: structured for programs, as text for logs in the words that OpenSM's logs have.

use weft_wire::mad::notice::Notice;
use weft_wire::mad::subn::SmState;

/// How grave an event is: a bit each, as `log_flags` has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something does not work: 0x01.
    Error,
    /// What an administrator wants to know: 0x02.
    Info,
    /// Beyond that: 0x04.
    Verbose,
    /// What belongs into the system's log too: 0x80.
    System,
}

impl Level {
    /// Its bit in `log_flags`.
    pub fn bit(self) -> u8 {
        match self {
            Level::Error => 0x01,
            Level::Info => 0x02,
            Level::Verbose => 0x04,
            Level::System => 0x80,
        }
    }
}

/// What a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepCounts {
    /// Whether all was looked at.
    pub heavy: bool,
    /// Switches that are known.
    pub switches: u32,
    /// Ports of adapters and routers that are known.
    pub ends: u32,
    /// SMPs that it took.
    pub smps: u64,
    /// Nodes that came.
    pub came: u32,
    /// Nodes that went.
    pub gone: u32,
    /// Blocks of forwarding tables that were written.
    pub lft_blocks: u32,
}

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The manager is in another state.
    State(SmState),
    /// A sweep began.
    SweepBegan {
        /// Whether it looks at all.
        heavy: bool,
    },
    /// A sweep ended.
    SweepEnded(SweepCounts),
    /// Every port that is known has all that it needs.
    SubnetUp,
    /// Something was not done, and is tried again by another sweep.
    Incomplete {
        /// What.
        what: String,
    },
    /// Tables were computed.
    Routed {
        /// By this engine.
        engine: &'static str,
    },
    /// An engine has no tables for this fabric.
    EngineFailed {
        /// The engine.
        engine: &'static str,
        /// Why, and what to do.
        why: String,
    },
    /// No engine has: the tables stay as they are.
    NoRouting,
    /// A node was found.
    Appeared {
        /// NodeGUID.
        guid: u64,
        /// Name.
        name: String,
    },
    /// A node is not found any more.
    Gone {
        /// NodeGUID.
        guid: u64,
        /// Name.
        name: String,
        /// Base LID of its first end port.
        lid: u16,
    },
    /// A trap came and was repressed.
    Trap {
        /// What it says.
        notice: Notice,
        /// LID that it came from.
        from: u16,
    },
    /// Two nodes have one GUID; the cable at `second` is not used.
    DuplicateGuid {
        /// The GUID.
        guid: u64,
        /// Where it was found first: name and port.
        first: String,
        /// Where it was found again.
        second: String,
    },
    /// A port whose link is up leads to nobody who answers; its cable is not used.
    Silent {
        /// The port: name and number.
        at: String,
    },
    /// A node answers, and does not say what it is called.
    Nameless {
        /// Who: its GUID.
        at: String,
    },
    /// A node answered with an error.
    Refused {
        /// Who.
        at: String,
        /// What was asked.
        what: &'static str,
        /// The status of its answer.
        status: u16,
    },
    /// A port that does not stop to send traps was disabled.
    Babbling {
        /// The port.
        at: String,
    },
    /// Another manager is on this subnet.
    OtherManager {
        /// PortGUID.
        guid: u64,
        /// Name of its node.
        name: String,
        /// Its priority.
        priority: u8,
        /// Its state.
        state: SmState,
    },
    /// A manager that was known is none any more.
    ManagerGone {
        /// PortGUID.
        guid: u64,
        /// Name of its node.
        name: String,
        /// It did not say so: nobody answers.
        silent: bool,
    },
    /// The master that this manager asks does not answer.
    MasterSilent {
        /// Its PortGUID.
        guid: u64,
    },
    /// LIDs were given: they are to be kept, see [`super::Manager::guid2lid`].
    LidsChanged,
    /// Ports have other M_Keys than before: they are to be kept, see [`super::Manager::guid2mkey`].
    KeysChanged,
    /// The administrator's data base is not what it was: see [`super::Manager::sa_db`].
    DataBaseChanged,
    /// A line of the administrator's data base says nothing that can be.
    BadDataBase {
        /// Which, and why.
        what: String,
    },
    /// No LID is left.
    NoLids {
        /// The port that has none.
        guid: u64,
    },
}

impl Event {
    /// Its name, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Event::State(_) => "state",
            Event::SweepBegan { .. } => "sweep-began",
            Event::SweepEnded(_) => "sweep-ended",
            Event::SubnetUp => "subnet-up",
            Event::Incomplete { .. } => "incomplete",
            Event::Routed { .. } => "routed",
            Event::EngineFailed { .. } => "engine-failed",
            Event::NoRouting => "no-routing",
            Event::Appeared { .. } => "appeared",
            Event::Gone { .. } => "gone",
            Event::Trap { .. } => "trap",
            Event::DuplicateGuid { .. } => "duplicate-guid",
            Event::Silent { .. } => "silent",
            Event::Nameless { .. } => "nameless",
            Event::Refused { .. } => "refused",
            Event::Babbling { .. } => "babbling",
            Event::OtherManager { .. } => "other-manager",
            Event::ManagerGone { .. } => "manager-gone",
            Event::MasterSilent { .. } => "master-silent",
            Event::LidsChanged => "lids-changed",
            Event::KeysChanged => "keys-changed",
            Event::DataBaseChanged => "data-base-changed",
            Event::BadDataBase { .. } => "bad-data-base",
            Event::NoLids { .. } => "no-lids",
        }
    }

    /// The source file of OpenSM that tells of such things, by which `per_module_logging_file` names them.
    pub fn module(&self) -> &'static str {
        match self {
            Event::State(_) | Event::SweepBegan { .. } | Event::SweepEnded(_) => "osm_state_mgr.c",
            Event::SubnetUp | Event::Incomplete { .. } => "osm_state_mgr.c",
            Event::Routed { .. } | Event::EngineFailed { .. } | Event::NoRouting => "osm_ucast_mgr.c",
            Event::Appeared { .. } | Event::DuplicateGuid { .. } => "osm_node_info_rcv.c",
            Event::Gone { .. } => "osm_drop_mgr.c",
            Event::Trap { .. } | Event::Babbling { .. } => "osm_trap_rcv.c",
            Event::Silent { .. } | Event::Nameless { .. } | Event::Refused { .. } => "osm_sm_mad_ctrl.c",
            Event::OtherManager { .. } | Event::ManagerGone { .. } => "osm_sm_state_mgr.c",
            Event::MasterSilent { .. } => "osm_sm_state_mgr.c",
            Event::LidsChanged | Event::KeysChanged | Event::NoLids { .. } => "osm_lid_mgr.c",
            Event::DataBaseChanged | Event::BadDataBase { .. } => "osm_sa.c",
        }
    }

    /// How grave it is.
    pub fn level(&self) -> Level {
        match self {
            Event::State(_) => Level::System,
            Event::SubnetUp | Event::Routed { .. } | Event::Appeared { .. } | Event::Gone { .. } => Level::Info,
            Event::OtherManager { .. } | Event::ManagerGone { .. } | Event::MasterSilent { .. } => Level::Info,
            Event::Trap { .. } => Level::Info,
            Event::SweepBegan { .. } | Event::SweepEnded(_) => Level::Verbose,
            Event::LidsChanged | Event::KeysChanged | Event::DataBaseChanged => Level::Verbose,
            Event::Incomplete { .. } | Event::EngineFailed { .. } | Event::NoRouting => Level::Error,
            Event::DuplicateGuid { .. } | Event::Silent { .. } | Event::Refused { .. } => Level::Error,
            Event::Babbling { .. } | Event::NoLids { .. } | Event::BadDataBase { .. } => Level::Error,
            Event::Nameless { .. } => Level::Error,
        }
    }
}

fn state_name(state: SmState) -> &'static str {
    match state {
        SmState::DISCOVERING => "DISCOVERING",
        SmState::STANDBY => "STANDBY",
        SmState::MASTER => "MASTER",
        _ => "NOT-ACTIVE",
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::State(state) => write!(f, "Entering {} state", state_name(*state)),
            Event::SweepBegan { heavy } => write!(f, "{} SWEEP INITIATED", if *heavy { "HEAVY" } else { "LIGHT" }),
            Event::SweepEnded(counts) => write!(
                f,
                "{} SWEEP COMPLETE: {} switches, {} end ports, {} SMPs, {} nodes came, {} went, {} blocks of tables",
                if counts.heavy { "HEAVY" } else { "LIGHT" },
                counts.switches,
                counts.ends,
                counts.smps,
                counts.came,
                counts.gone,
                counts.lft_blocks
            ),
            Event::SubnetUp => f.write_str("SUBNET UP"),
            Event::Incomplete { what } => write!(f, "Errors during initialization: {what}; sweeping again"),
            Event::Routed { engine } => write!(f, "{engine} tables configured on all switches"),
            Event::EngineFailed { engine, why } => write!(f, "{engine}: {why}"),
            Event::NoRouting => f.write_str("no routing engine has tables for this fabric: they stay as they are"),
            Event::Appeared { guid, name } => write!(f, "Discovered new node with GUID:0x{guid:016x} ({name})"),
            Event::Gone { guid, name, lid } => {
                write!(f, "Removed node with GUID:0x{guid:016x} LID {lid} of node:{name}")
            }
            Event::Trap { notice, from } => trap(f, notice, *from),
            Event::DuplicateGuid { guid, first, second } => write!(
                f,
                "duplicate GUID 0x{guid:016x}: found at {first} and at {second}; the second is not used until one of \
                 the nodes has another GUID"
            ),
            Event::Silent { at } => write!(f, "{at}: the link is up and nobody answers behind it; mis-set m_key?"),
            Event::Nameless { at } => {
                write!(f, "{at} does not say what it is called; the next heavy sweep asks again")
            }
            Event::Refused { at, what, status } => write!(f, "{at} answered {what} with status 0x{status:04x}"),
            Event::Babbling { at } => write!(f, "{at} does not stop to send traps: disabled"),
            Event::OtherManager { guid, name, priority, state } => write!(
                f,
                "another subnet manager: GUID 0x{guid:016x} ({name}), priority {priority}, {}",
                state_name(*state)
            ),
            Event::ManagerGone { guid, name, silent } => write!(
                f,
                "the subnet manager with GUID 0x{guid:016x} ({name}) {}",
                if *silent { "does not answer any more" } else { "has ended" }
            ),
            Event::MasterSilent { guid } => write!(f, "the master with GUID 0x{guid:016x} does not answer"),
            Event::LidsChanged => f.write_str("LIDs were assigned"),
            Event::KeysChanged => f.write_str("ports have other M_Keys than before"),
            Event::DataBaseChanged => f.write_str("the data base of subnet administration changed"),
            Event::BadDataBase { what } => write!(f, "the saved data base of subnet administration: {what}"),
            Event::NoLids { guid } => write!(f, "no LID is left for port 0x{guid:016x}"),
        }
    }
}

fn trap(f: &mut std::fmt::Formatter<'_>, notice: &Notice, from: u16) -> std::fmt::Result {
    write!(
        f,
        "Received {} Notice type:{} num:{} ({}) Producer:{} ({}) from LID:{from}",
        if notice.is_generic { "Generic" } else { "Vendor" },
        notice.notice_type.0,
        notice.trap_number.0,
        notice.trap_number.text().unwrap_or("unknown"),
        notice.producer_type.0,
        notice.producer_type.text().unwrap_or("unknown"),
    )
}
