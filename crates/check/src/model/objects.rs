//! The objects of verbs as the model knows them.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::ids::{Handle, StackId};
use super::request::Outstanding;

pub(super) type Objects<T> = FxHashMap<Handle, T>;

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Address handle.
    Ah,
    /// Queue pair.
    Qp,
    /// Shared receive queue.
    Srq,
    /// Completion queue.
    Cq,
    /// Completion channel.
    Channel,
    /// Memory window.
    Mw,
    /// Memory region.
    Mr,
    /// Protection domain.
    Pd,
    /// Open device.
    Context,
}

impl Kind {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Ah => "address handle",
            Kind::Qp => "queue pair",
            Kind::Srq => "shared receive queue",
            Kind::Cq => "completion queue",
            Kind::Channel => "completion channel",
            Kind::Mw => "memory window",
            Kind::Mr => "memory region",
            Kind::Pd => "protection domain",
            Kind::Context => "open device",
        }
    }

    /// Its name with an article.
    pub(super) fn with_article(self) -> String {
        let article = if matches!(self, Kind::Ah | Kind::Context) { "an" } else { "a" };
        format!("{article} {}", self.as_str())
    }
}

/// Maxima of a device; 0 is unknown.
#[derive(Clone, Copy, Default, Debug)]
pub struct DeviceLimits {
    /// Requests of a work queue.
    pub qp_wr_max: u32,
    /// Buffers of a request.
    pub sge_max: u32,
}

/// A port's state that requests depend on.
#[derive(Clone, Debug, Default)]
pub struct PortInfo {
    /// Active MTU in bytes; 0 is unknown.
    pub mtu_bytes: u32,
}

/// An open device.
#[derive(Clone, Debug)]
pub struct Context {
    /// Name of the device.
    pub device: String,
    /// Maxima of the device.
    pub limits: DeviceLimits,
    /// Whether all objects and keys of this device come from calls that the library sees. Vendors' direct verbs create
    /// others.
    pub is_complete: bool,
    /// Whether it speaks iWARP: the connection manager of the kernel moves its queue pairs.
    pub is_iwarp: bool,
    /// Its ports by number.
    pub ports: BTreeMap<u8, PortInfo>,
    /// Where it was opened.
    pub created: StackId,
}

/// A protection domain.
#[derive(Clone, Debug)]
pub struct Pd {
    /// Its device.
    pub context: Handle,
    /// The protection domain that a parent domain stands for.
    pub parent: Option<Handle>,
    /// Where it was allocated.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}

/// A memory region.
#[derive(Clone, Debug)]
pub struct Mr {
    /// Its device.
    pub context: Handle,
    /// Its protection domain.
    pub pd: Handle,
    /// Address of the program's memory; `None` for device memory and descriptors.
    pub address: Option<u64>,
    /// Address in requests.
    pub iova: u64,
    /// Its length.
    pub length: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
    /// Local key.
    pub lkey: u32,
    /// Whether a library that registered it follows the address space itself.
    pub is_cached: bool,
    /// Where it was registered.
    pub created: StackId,
}

/// The region that a key belongs to, or belonged to.
#[derive(Clone, Debug)]
pub struct RegionKey {
    /// The region, if it is registered.
    pub region: Option<Handle>,
    /// Its name.
    pub name: String,
    /// Where it was registered.
    pub created: StackId,
    /// Where it was deregistered.
    pub destroyed: StackId,
}

/// A memory window.
#[derive(Clone, Debug)]
pub struct Mw {
    /// Its device.
    pub context: Handle,
    /// Its protection domain.
    pub pd: Handle,
    /// Where it was allocated.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}

/// A completion channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its device.
    pub context: Handle,
    /// Where it was created.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    /// Its device.
    pub context: Handle,
    /// Its channel, if it has one.
    pub channel: Option<Handle>,
    /// Entries.
    pub capacity: u32,
    /// Completions that outstanding requests can still produce.
    pub(super) expected: u32,
    /// Whether `ibv_req_notify_cq` was called since the last event.
    pub(super) armed: Option<Armed>,
    /// Completion events read and not acknowledged.
    pub(super) events_unacknowledged: Unacknowledged,
    /// Asynchronous events read and not acknowledged.
    pub(super) async_unacknowledged: Unacknowledged,
    /// Whether overruns do no harm (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    pub ignores_overrun: bool,
    /// Whether the program polls it in place.
    pub is_extended: bool,
    /// Whether its completions do not say to which queue pair they belong: requests that complete there are not followed.
    pub hides_qp_numbers: bool,
    /// Where it was created.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}

impl Cq {
    /// A new queue of this many entries.
    pub fn new(context: Handle, channel: Option<Handle>, capacity: u32) -> Cq {
        Cq {
            context,
            channel,
            capacity,
            expected: 0,
            armed: None,
            events_unacknowledged: Unacknowledged::default(),
            async_unacknowledged: Unacknowledged::default(),
            ignores_overrun: false,
            is_extended: false,
            hides_qp_numbers: false,
            created: 0,
            serial: 0,
        }
    }
}

/// Events that the program has read and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unacknowledged {
    count: u64,
    /// The thread that read the last one.
    reader: u64,
}

impl Unacknowledged {
    pub(super) fn read(&mut self, thread: u64) {
        *self = Unacknowledged { count: self.count.saturating_add(1), reader: thread };
    }

    /// Returns how many of these events were not read.
    pub(super) fn acknowledge(&mut self, count: u64) -> u64 {
        let excess = count.saturating_sub(self.count);
        self.count = self.count.saturating_sub(count);
        excess
    }

    /// The events that wait for this thread. Another thread may still acknowledge what it has read.
    pub(super) fn pending_on(&self, thread: u64) -> u64 {
        if self.reader == thread { self.count } else { 0 }
    }
}

/// An armed completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Armed {
    /// Whether only solicited completions raise an event.
    pub solicited_only: bool,
    /// Where it was armed.
    pub stack: StackId,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    /// Its device.
    pub context: Handle,
    /// Its protection domain.
    pub pd: Handle,
    /// Receives that it holds.
    pub wr_max: u32,
    /// Buffers of a receive.
    pub sge_max: u32,
    /// Whether its receives complete in ways that the model does not follow: XRC, tags, queue pairs of direct verbs.
    pub is_untracked: bool,
    /// Posted receives.
    pub(super) receives: VecDeque<Outstanding>,
    /// Whether a queue pair has gone that may have fetched receives: they never complete.
    pub(super) may_have_lost: bool,
    /// Asynchronous events read and not acknowledged.
    pub(super) async_unacknowledged: Unacknowledged,
    /// Where it was created.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}

impl Srq {
    /// A new queue.
    pub fn new(context: Handle, pd: Handle, wr_max: u32, sge_max: u32, is_untracked: bool) -> Srq {
        let (receives, created, serial) = (VecDeque::new(), 0, 0);
        Srq {
            context,
            pd,
            wr_max,
            sge_max,
            is_untracked,
            receives,
            may_have_lost: false,
            async_unacknowledged: Unacknowledged::default(),
            created,
            serial,
        }
    }
}

/// Types of queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Ethernet frames.
    RawPacket,
    /// Initiator of an extended reliable connection.
    XrcSend,
    /// Target of an extended reliable connection.
    XrcReceive,
    /// A vendor's own type.
    Driver,
}

impl QpKind {
    /// From `enum ibv_qp_type`.
    pub const fn from_verbs(kind: u32) -> QpKind {
        match kind {
            2 => QpKind::Rc,
            3 => QpKind::Uc,
            4 => QpKind::Ud,
            8 => QpKind::RawPacket,
            9 => QpKind::XrcSend,
            10 => QpKind::XrcReceive,
            _ => QpKind::Driver,
        }
    }

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            QpKind::Rc => "RC",
            QpKind::Uc => "UC",
            QpKind::Ud => "UD",
            QpKind::RawPacket => "raw packet",
            QpKind::XrcSend => "XRC INI",
            QpKind::XrcReceive => "XRC TGT",
            QpKind::Driver => "driver type",
        }
    }
}

/// States of queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QpState {
    /// Just created.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained.
    Sqd,
    /// Send queue in error.
    Sqe,
    /// Error.
    Err,
    /// Not known.
    Unknown,
}

impl QpState {
    /// From `enum ibv_qp_state`.
    pub const fn from_verbs(state: u32) -> QpState {
        match state {
            0 => QpState::Reset,
            1 => QpState::Init,
            2 => QpState::Rtr,
            3 => QpState::Rts,
            4 => QpState::Sqd,
            5 => QpState::Sqe,
            6 => QpState::Err,
            _ => QpState::Unknown,
        }
    }

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
            QpState::Unknown => "an unknown state",
        }
    }
}

/// Capacities of a queue pair.
#[derive(Clone, Copy, Default, Debug)]
pub struct QpCap {
    /// Requests of the send queue.
    pub send_wr_max: u32,
    /// Requests of the receive queue.
    pub receive_wr_max: u32,
    /// Buffers of a send.
    pub send_sge_max: u32,
    /// Buffers of a receive.
    pub receive_sge_max: u32,
    /// Bytes of an inline request.
    pub inline_max: u32,
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    /// Its device.
    pub context: Handle,
    /// Its protection domain.
    pub pd: Handle,
    /// Its number.
    pub number: u32,
    /// Its type.
    pub kind: QpKind,
    /// Completion queue of its send queue.
    pub send_cq: Option<Handle>,
    /// Completion queue of its receive queue.
    pub receive_cq: Option<Handle>,
    /// Its shared receive queue.
    pub srq: Option<Handle>,
    /// Capacities.
    pub cap: QpCap,
    /// Whether every request is signaled (`sq_sig_all`).
    pub signals_all: bool,
    /// Its state, by the calls seen and completions polled.
    pub state: QpState,
    /// READs and atomics that it may have outstanding; `None` before it is set.
    pub(super) read_limit: Option<u8>,
    /// The port that it is bound to.
    pub(super) port: Option<u8>,
    pub(super) sends: VecDeque<Outstanding>,
    pub(super) receives: VecDeque<Outstanding>,
    /// READs and atomics among its requests.
    pub(super) sinks_outstanding: usize,
    pub(super) access: u32,
    pub(super) async_unacknowledged: Unacknowledged,
    /// Where it was created.
    pub created: StackId,
}

impl Qp {
    /// A new queue pair of this type. The caller fills in the rest.
    pub fn new(context: Handle, pd: Handle, number: u32, kind: QpKind, cap: QpCap) -> Qp {
        Qp {
            context,
            pd,
            number,
            kind,
            send_cq: None,
            receive_cq: None,
            srq: None,
            cap,
            signals_all: false,
            state: QpState::Reset,
            read_limit: None,
            port: None,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            sinks_outstanding: 0,
            access: 0,
            async_unacknowledged: Unacknowledged::default(),
            created: 0,
        }
    }

    /// Whether the device may still touch buffers of its requests.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state, QpState::Reset | QpState::Err)
    }
}

/// An address handle.
#[derive(Clone, Debug)]
pub struct Ah {
    /// Its device.
    pub context: Handle,
    /// Its protection domain.
    pub pd: Handle,
    /// Whether a library that caches registrations created it.
    pub is_cached: bool,
    /// Where it was created.
    pub created: StackId,
    /// Number for its name.
    pub serial: u32,
}
