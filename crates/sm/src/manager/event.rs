//! Events that the manager reports: structured for programs, as text for logs in the words of OpenSM's logs.

use weft_wire::mad::notice::Notice;
use weft_wire::mad::subn::SmState;

/// Severity of an event: a bit each, as in `log_flags`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A failure: 0x01.
    Error,
    /// Information for the administrator: 0x02.
    Info,
    /// Details: 0x04.
    Verbose,
    /// A message that also goes to the system log: 0x80.
    System,
}

impl Level {
    /// Returns the bit in `log_flags`.
    pub fn bit(self) -> u8 {
        match self {
            Level::Error => 0x01,
            Level::Info => 0x02,
            Level::Verbose => 0x04,
            Level::System => 0x80,
        }
    }
}

/// Results of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepCounts {
    /// Whether the sweep was heavy.
    pub heavy: bool,
    /// Known switches.
    pub switches: u32,
    /// Known ports of adapters and routers.
    pub ends: u32,
    /// SMPs sent.
    pub smps: u64,
    /// Nodes that appeared.
    pub came: u32,
    /// Nodes that left.
    pub gone: u32,
    /// Forwarding table blocks written.
    pub lft_blocks: u32,
}

/// An event.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The manager changed its state.
    State(SmState),
    /// A sweep began.
    SweepBegan {
        /// Whether the sweep is heavy.
        heavy: bool,
    },
    /// A sweep ended.
    SweepEnded(SweepCounts),
    /// Every known port is fully configured.
    SubnetUp,
    /// A sweep left something undone; another sweep tries it again.
    Incomplete {
        /// The unfinished work.
        what: String,
    },
    /// Tables were computed.
    Routed {
        /// The engine that computed them.
        engine: &'static str,
    },
    /// An engine cannot route this fabric.
    EngineFailed {
        /// The engine.
        engine: &'static str,
        /// The reason, and the remedy.
        why: String,
    },
    /// No engine can route this fabric: the tables stay as they are.
    NoRouting,
    /// A node was found.
    Appeared {
        /// NodeGUID.
        guid: u64,
        /// Name.
        name: String,
    },
    /// A node left.
    Gone {
        /// NodeGUID.
        guid: u64,
        /// Name.
        name: String,
        /// Base LID of its first end port.
        lid: u16,
    },
    /// A trap arrived and was repressed.
    Trap {
        /// The trap's notice.
        notice: Notice,
        /// LID of the sender.
        from: u16,
    },
    /// Two nodes have one GUID; the cable at `second` is not used.
    DuplicateGuid {
        /// The GUID.
        guid: u64,
        /// Name and port where the GUID was found first.
        first: String,
        /// Name and port where the GUID was found again.
        second: String,
    },
    /// The link of a port is up, but its peer does not answer; the cable is not used.
    Silent {
        /// The port: name and number.
        at: String,
    },
    /// A node answers, but not to NodeDescription.
    Nameless {
        /// The node, by its GUID.
        at: String,
    },
    /// A node answered with an error.
    Refused {
        /// The node.
        at: String,
        /// The attribute of the request.
        what: &'static str,
        /// The status of its answer.
        status: u16,
    },
    /// A port that kept sending traps was disabled.
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
    /// Another manager left.
    ManagerGone {
        /// PortGUID.
        guid: u64,
        /// Name of its node.
        name: String,
        /// The manager stopped answering without giving notice.
        silent: bool,
    },
    /// The master that this standby polls does not answer.
    MasterSilent {
        /// Its PortGUID.
        guid: u64,
    },
    /// LID assignments changed; the caller should save [`super::Manager::guid2lid`].
    LidsChanged,
    /// M_Keys of ports changed; the caller should save [`super::Manager::guid2mkey`].
    KeysChanged,
    /// The SA database changed: see [`super::Manager::sa_db`].
    DataBaseChanged,
    /// A line of the SA database cannot be parsed.
    BadDataBase {
        /// The line, and the reason.
        what: String,
    },
    /// No LID is left.
    NoLids {
        /// The port without a LID.
        guid: u64,
    },
}

impl Event {
    /// Returns the name for programs.
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

    /// Returns the source file of OpenSM that logs such events; `per_module_logging_file` selects events by it.
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

    /// Returns the severity.
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
            Event::Silent { at } => write!(f, "{at}: the link is up but its peer does not answer; wrong m_key?"),
            Event::Nameless { at } => {
                write!(f, "{at} does not answer NodeDescription; the next heavy sweep asks again")
            }
            Event::Refused { at, what, status } => write!(f, "{at} answered {what} with status 0x{status:04x}"),
            Event::Babbling { at } => write!(f, "{at} keeps sending traps: disabled"),
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
            Event::KeysChanged => f.write_str("M_Keys of ports changed"),
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
