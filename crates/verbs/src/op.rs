//! The one table of operations, above the wire's table of opcodes: all that a queue pair must know about each operation,
//! so that requester, target and the C interface ask it instead of naming operations themselves.
//!
//! ```text
//!   SendOp (a work request's parameters) ── op() ──▶ Op ── info() ──▶ OpInfo ── packets ──▶ wire's opcodes
//!                                            ▲                           │
//!                    packet, frame ──────────┘                           └──▶ action at the target, response, completion
//! ```
//!
//! Immediate data and invalidation are parts of a message (SEND or WRITE), not operations of their own.

use weft_wire::Kind;

use crate::{Access, MwBind, QpType, RemoteTarget};

/// An operation. A request has this number in frames between processes of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Op {
    /// SEND.
    Send = 1,
    /// RDMA WRITE.
    Write = 2,
    /// RDMA READ.
    Read = 3,
    /// Compare and swap of 8 bytes.
    CompareSwap = 4,
    /// Fetch and add on 8 bytes.
    FetchAdd = 5,
    /// ATOMIC WRITE of 8 bytes.
    AtomicWrite = 6,
    /// FLUSH of earlier writes.
    Flush = 7,
    /// Bind of a memory window.
    BindMw = 8,
    /// Invalidation of a local key.
    LocalInv = 9,
}

/// The operation of a send work request, with its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with 32 bits of immediate data (network order as given).
    SendImm(u32),
    /// SEND that invalidates an R_Key at the peer.
    SendInv(u32),
    /// RDMA WRITE.
    Write(RemoteTarget),
    /// RDMA WRITE that consumes a receive at the peer.
    WriteImm(RemoteTarget, u32),
    /// RDMA READ.
    Read(RemoteTarget),
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// Where.
        target: RemoteTarget,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Fetch and add on 8 bytes.
    FetchAdd {
        /// Where.
        target: RemoteTarget,
        /// Addend.
        add: u64,
    },
    /// ATOMIC WRITE of 8 bytes (taken from the first SGE or given inline).
    AtomicWrite(RemoteTarget),
    /// FLUSH earlier writes.
    Flush {
        /// First byte of the range.
        target: RemoteTarget,
        /// Bytes of the range.
        length: u32,
        /// Placement type bits: 1 = global visibility, 2 = persistence.
        placement: u8,
        /// Selectivity level: 0 = range, 1 = whole region.
        level: u8,
    },
    /// Bind a memory window.
    BindMw(MwBind),
    /// Invalidate a local key.
    LocalInv(u32),
}

/// `enum ibv_wc_opcode`: the operation that a completion reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
#[allow(missing_docs)] // The names are verbs.h's.
pub enum WcOpcode {
    #[default]
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompSwap = 3,
    FetchAdd = 4,
    BindMw = 5,
    LocalInv = 6,
    Tso = 7,
    Flush = 8,
    AtomicWrite = 9,
    Recv = 1 << 7,
    RecvRdmaWithImm = (1 << 7) + 1,
}

/// Services that carry an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carriers {
    /// Every service.
    All,
    /// Connections, reliable or not.
    Connections,
    /// Connections with acknowledgements: RC and XRC.
    Reliable,
}

impl Carriers {
    /// Returns whether queue pairs of a type are among them.
    pub const fn include(self, qp_type: QpType) -> bool {
        match self {
            Carriers::All => true,
            Carriers::Connections => qp_type.is_connected(),
            Carriers::Reliable => qp_type.is_reliable(),
        }
    }
}

/// Effect of a request at its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetAction {
    /// A message fills a receive.
    Receive,
    /// A message is written to memory that it names.
    Write,
    /// Memory is read.
    Read,
    /// Eight bytes, at a multiple of eight, are accessed atomically.
    Word,
    /// Memory is flushed.
    Flush,
    /// None: the requester's own adapter does all.
    Local,
}

/// Use of a work request's list of local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListUse {
    /// Its bytes are sent; they may be inline.
    Sent,
    /// The response fills it; each element needs [`Access::LOCAL_WRITE`].
    Filled,
    /// It is ignored.
    Ignored,
}

/// Response of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseKind {
    /// An acknowledgement, which may cover several requests; none for local operations.
    Acknowledgement,
    /// The bytes that were read.
    Data,
    /// The eight bytes before the change.
    Value,
    /// A response without data.
    Done,
}

impl ResponseKind {
    /// Returns whether it is the request's own: such requests count against the limit on outstanding READs and atomics
    /// (max_rd_atomic, IBA C9-115).
    #[inline]
    pub const fn is_own(self) -> bool {
        !matches!(self, ResponseKind::Acknowledgement)
    }
}

/// Addition to a message, in its last packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// None.
    None,
    /// Immediate data.
    Imm,
    /// A key to invalidate.
    Inv,
}

/// Packets of a request: for each [`Extra`], the middle, last, first and only one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packets([[Kind; 4]; 3]);

impl Packets {
    /// A request that is always one packet.
    const fn one(kind: Kind) -> Packets {
        Packets([[kind; 4]; 3])
    }

    /// A message: first and middle, then last and only packet, without addition, with immediate data, with a key.
    const fn message(start: [Kind; 2], plain: [Kind; 2], imm: [Kind; 2], inv: [Kind; 2]) -> Packets {
        const fn of([first, middle]: [Kind; 2], [last, only]: [Kind; 2]) -> [Kind; 4] {
            [middle, last, first, only]
        }
        Packets([of(start, plain), of(start, imm), of(start, inv)])
    }

    /// Returns the packet at a place of the message.
    #[inline]
    pub const fn kind(&self, extra: Extra, first: bool, last: bool) -> Kind {
        self.0[extra as usize][first as usize * 2 + last as usize]
    }
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpInfo {
    /// The operation.
    pub op: Op,
    /// Its name.
    pub name: &'static str,
    /// Opcode of its completion at the requester.
    pub completion: WcOpcode,
    /// Services that carry it.
    pub carriers: Carriers,
    /// Its packets; `None` if it sends nothing.
    pub packets: Option<Packets>,
    /// Its effect at the target.
    pub action: TargetAction,
    /// Use of local memory.
    pub list: ListUse,
    /// Rights that the target's key and queue pair must grant; of the two for FLUSH, those of the placement asked for.
    pub need: Access,
    /// The response.
    pub response: ResponseKind,
}

const NONE: Access = Access::empty();
const FLUSHES: Access = Access::FLUSH_GLOBAL.union(Access::FLUSH_PERSISTENT);

#[rustfmt::skip]
const SEND: Packets = Packets::message(
    [Kind::SendFirst, Kind::SendMiddle],
    [Kind::SendLast, Kind::SendOnly],
    [Kind::SendLastImm, Kind::SendOnlyImm],
    [Kind::SendLastInv, Kind::SendOnlyInv],
);
// No WRITE invalidates a key.
#[rustfmt::skip]
const WRITE: Packets = Packets::message(
    [Kind::WriteFirst, Kind::WriteMiddle],
    [Kind::WriteLast, Kind::WriteOnly],
    [Kind::WriteLastImm, Kind::WriteOnlyImm],
    [Kind::WriteLast, Kind::WriteOnly],
);

const fn one(kind: Kind) -> Option<Packets> {
    Some(Packets::one(kind))
}

/// A row in the order of its columns: operation, name, completion, services, packets, action, list, rights, response.
macro_rules! row {
    ($op:ident, $name:literal, $completion:ident, $carriers:ident, $packets:expr, $action:ident, $list:ident, $need:expr,
        $response:ident) => {
        OpInfo {
            op: Op::$op,
            name: $name,
            completion: WcOpcode::$completion,
            carriers: Carriers::$carriers,
            packets: $packets,
            action: TargetAction::$action,
            list: ListUse::$list,
            need: $need,
            response: ResponseKind::$response,
        }
    };
}

/// The table, in the order of the operations' numbers.
#[rustfmt::skip]
const TABLE: [OpInfo; 9] = [
    row!(Send, "SEND", Send, All, Some(SEND), Receive, Sent, NONE, Acknowledgement),
    row!(Write, "RDMA WRITE", RdmaWrite, Connections, Some(WRITE), Write, Sent, Access::REMOTE_WRITE, Acknowledgement),
    row!(Read, "RDMA READ", RdmaRead, Reliable, one(Kind::ReadRequest), Read, Filled, Access::REMOTE_READ, Data),
    row!(CompareSwap, "CmpSwap", CompSwap, Reliable, one(Kind::CompareSwap), Word, Filled, Access::REMOTE_ATOMIC, Value),
    row!(FetchAdd, "FetchAdd", FetchAdd, Reliable, one(Kind::FetchAdd), Word, Filled, Access::REMOTE_ATOMIC, Value),
    row!(AtomicWrite, "ATOMIC WRITE", AtomicWrite, Reliable, one(Kind::AtomicWrite), Word, Sent, Access::REMOTE_WRITE, Done),
    row!(Flush, "FLUSH", Flush, Reliable, one(Kind::Flush), Flush, Ignored, FLUSHES, Done),
    row!(BindMw, "bind", BindMw, Connections, None, Local, Ignored, NONE, Acknowledgement),
    row!(LocalInv, "local invalidation", LocalInv, Connections, None, Local, Ignored, NONE, Acknowledgement),
];

static ROWS: [OpInfo; TABLE.len()] = TABLE;

/// The set of the operations whose row has a property: a test of it is one instruction, without a look at the table.
macro_rules! set_of {
    ($row:ident => $property:expr) => {{
        let mut set = 0u16;
        let mut at = 0;
        while at < TABLE.len() {
            let $row = &TABLE[at];
            assert!($row.op as usize == at + 1);
            if $property {
                set |= 1 << $row.op as u16;
            }
            at += 1;
        }
        set
    }};
}

const ANSWERED: u16 = set_of!(row => row.response.is_own());
const LOCAL: u16 = set_of!(row => matches!(row.action, TargetAction::Local));
const MESSAGES: u16 = set_of!(row => matches!(row.action, TargetAction::Receive | TargetAction::Write));
const FILLING: u16 = set_of!(row => matches!(row.list, ListUse::Filled));

/// Operation of each kind of packet, in the order of the kinds.
const OF_PACKET: [Option<Op>; Kind::COUNT] = {
    let mut of = [None; Kind::COUNT];
    let mut row = 0;
    while row < TABLE.len() {
        if let Some(Packets(kinds)) = TABLE[row].packets {
            let mut at = 0;
            while at < 12 {
                of[kinds[at / 4][at % 4] as usize] = Some(TABLE[row].op);
                at += 1;
            }
        }
        row += 1;
    }
    of
};

impl Op {
    /// Returns its row.
    #[inline]
    pub fn info(self) -> &'static OpInfo {
        &ROWS[self as usize - 1]
    }

    /// Returns the operation of a request's packet; `None` for a response.
    #[inline]
    pub const fn of_packet(kind: Kind) -> Option<Op> {
        OF_PACKET[kind as usize]
    }

    /// Converts the number.
    pub fn from_number(number: u8) -> Option<Op> {
        ROWS.get(usize::from(number).checked_sub(1)?).map(|row| row.op)
    }

    /// Iterates over the table.
    pub fn all() -> impl Iterator<Item = &'static OpInfo> {
        ROWS.iter()
    }

    #[inline]
    const fn is_in(self, set: u16) -> bool {
        set >> self as u16 & 1 != 0
    }

    /// Returns whether the target answers with more than an acknowledgement.
    #[inline]
    pub const fn has_response(self) -> bool {
        self.is_in(ANSWERED)
    }

    /// Returns whether it sends nothing.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.is_in(LOCAL)
    }

    /// Returns whether it is a message: a SEND or a WRITE, which may take several packets.
    #[inline]
    pub const fn is_message(self) -> bool {
        self.is_in(MESSAGES)
    }

    /// Returns whether the response is written to local memory.
    #[inline]
    pub const fn fills_list(self) -> bool {
        self.is_in(FILLING)
    }
}

/// Operands of an operation on eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operands {
    /// Expected value, if the operation compares.
    pub compare: u64,
    /// New value, or addend.
    pub value: u64,
}

impl SendOp {
    /// Returns the operation without its parameters.
    #[inline]
    pub const fn op(&self) -> Op {
        match self {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) => Op::Send,
            SendOp::Write(_) | SendOp::WriteImm(..) => Op::Write,
            SendOp::Read(_) => Op::Read,
            SendOp::CompareSwap { .. } => Op::CompareSwap,
            SendOp::FetchAdd { .. } => Op::FetchAdd,
            SendOp::AtomicWrite(_) => Op::AtomicWrite,
            SendOp::Flush { .. } => Op::Flush,
            SendOp::BindMw(_) => Op::BindMw,
            SendOp::LocalInv(_) => Op::LocalInv,
        }
    }

    /// Returns its row of the table.
    #[inline]
    pub fn info(&self) -> &'static OpInfo {
        self.op().info()
    }

    /// Returns whether queue pairs of a type carry it. A key is invalidated only by a message that arrives for certain.
    #[inline]
    pub fn is_carried_by(&self, qp_type: QpType) -> bool {
        let carriers = if self.invalidates().is_some() { Carriers::Reliable } else { self.info().carriers };
        carriers.include(qp_type)
    }

    /// Returns whether it uses up a receive at the peer.
    #[inline]
    pub const fn takes_receive(&self) -> bool {
        matches!(self, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::WriteImm(..))
    }

    /// Returns the memory that it names at the peer.
    #[inline]
    pub const fn target(&self) -> Option<RemoteTarget> {
        match *self {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::BindMw(_) | SendOp::LocalInv(_) => None,
            SendOp::Write(target)
            | SendOp::WriteImm(target, _)
            | SendOp::Read(target)
            | SendOp::CompareSwap { target, .. }
            | SendOp::FetchAdd { target, .. }
            | SendOp::AtomicWrite(target)
            | SendOp::Flush { target, .. } => Some(target),
        }
    }

    /// Returns its immediate data (network order as given).
    #[inline]
    pub const fn imm(&self) -> Option<u32> {
        match *self {
            SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => Some(imm),
            _ => None,
        }
    }

    /// Returns the R_Key that it invalidates at the peer.
    #[inline]
    pub const fn invalidates(&self) -> Option<u32> {
        match *self {
            SendOp::SendInv(key) => Some(key),
            _ => None,
        }
    }

    /// Returns its addition to the message.
    #[inline]
    pub const fn extra(&self) -> Extra {
        match self {
            SendOp::SendImm(_) | SendOp::WriteImm(..) => Extra::Imm,
            SendOp::SendInv(_) => Extra::Inv,
            _ => Extra::None,
        }
    }

    /// Returns the operands that the request itself holds; others are zero, or in its list.
    #[inline]
    pub const fn operands(&self) -> Operands {
        match *self {
            SendOp::CompareSwap { compare, swap, .. } => Operands { compare, value: swap },
            SendOp::FetchAdd { add, .. } => Operands { compare: 0, value: add },
            _ => Operands { compare: 0, value: 0 },
        }
    }
}

#[cfg(test)]
mod tests;
