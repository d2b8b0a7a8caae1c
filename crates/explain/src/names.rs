//! Names of codes, as the specification and libibverbs have them.

use std::borrow::Cow;

use weft_record::Operation;
use weft_wire::aeth::{NakCode, Syndrome, rnr_delay_us};
use weft_wire::{Kind, Opcode};

/// `IBV_WC_*` statuses by value.
const STATUSES: [&str; 22] = [
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
];

/// `IBV_WC_*` opcodes of sends by value.
const WC_OPCODES: [&str; 10] = [
    "SEND",
    "RDMA_WRITE",
    "RDMA_READ",
    "COMP_SWAP",
    "FETCH_ADD",
    "BIND_MW",
    "LOCAL_INV",
    "TSO",
    "FLUSH",
    "ATOMIC_WRITE",
];

const STATES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

const EVENTS: [&str; 19] = [
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "PATH_MIG",
    "PATH_MIG_ERR",
    "DEVICE_FATAL",
    "PORT_ACTIVE",
    "PORT_ERR",
    "LID_CHANGE",
    "PKEY_CHANGE",
    "SM_CHANGE",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER",
    "GID_CHANGE",
];

const CM_EVENTS: [&str; 18] = [
    "ADDR_RESOLVED",
    "ADDR_ERROR",
    "ROUTE_RESOLVED",
    "ROUTE_ERROR",
    "CONNECT_REQUEST",
    "CONNECT_RESPONSE",
    "CONNECT_ERROR",
    "UNREACHABLE",
    "REJECTED",
    "ESTABLISHED",
    "DISCONNECTED",
    "DEVICE_REMOVAL",
    "MULTICAST_JOIN",
    "MULTICAST_ERROR",
    "ADDR_CHANGE",
    "TIMEWAIT_EXIT",
    "ADDRINFO_RESOLVED",
    "ADDRINFO_ERROR",
];

fn named(prefix: &str, names: &[&str], value: u8) -> String {
    names.get(usize::from(value)).map_or_else(|| format!("{prefix}{value}"), |name| format!("{prefix}{name}"))
}

/// Returns the name of a completion status.
pub fn status(value: u8) -> String {
    named("IBV_WC_", &STATUSES, value)
}

/// Returns the name of a completion's opcode.
pub fn wc_opcode(value: u8) -> String {
    match value {
        0x80 => "IBV_WC_RECV".to_owned(),
        0x81 => "IBV_WC_RECV_RDMA_WITH_IMM".to_owned(),
        value => named("IBV_WC_", &WC_OPCODES, value),
    }
}

/// Returns the name of a state.
pub fn state(value: u8) -> String {
    named("", &STATES, value)
}

/// Returns the name of an asynchronous event.
pub fn async_event(value: u8) -> String {
    named("IBV_EVENT_", &EVENTS, value)
}

/// Returns the name of an event of the connection manager.
pub fn cm_event(value: u8) -> String {
    named("RDMA_CM_EVENT_", &CM_EVENTS, value)
}

/// Returns the name of a work request's operation.
pub fn operation(operation: Operation) -> Cow<'static, str> {
    let name = match operation {
        Operation::RDMA_WRITE => "IBV_WR_RDMA_WRITE",
        Operation::RDMA_WRITE_WITH_IMM => "IBV_WR_RDMA_WRITE_WITH_IMM",
        Operation::SEND => "IBV_WR_SEND",
        Operation::SEND_WITH_IMM => "IBV_WR_SEND_WITH_IMM",
        Operation::RDMA_READ => "IBV_WR_RDMA_READ",
        Operation::ATOMIC_CMP_AND_SWP => "IBV_WR_ATOMIC_CMP_AND_SWP",
        Operation::ATOMIC_FETCH_AND_ADD => "IBV_WR_ATOMIC_FETCH_AND_ADD",
        Operation::LOCAL_INV => "IBV_WR_LOCAL_INV",
        Operation::BIND_MW => "IBV_WR_BIND_MW",
        Operation::SEND_WITH_INV => "IBV_WR_SEND_WITH_INV",
        Operation::FLUSH => "IBV_WR_FLUSH",
        Operation::ATOMIC_WRITE => "IBV_WR_ATOMIC_WRITE",
        Operation::RECEIVE => "a receive",
        Operation(other) => return format!("operation {other}").into(),
    };
    name.into()
}

/// Returns the operation that a packet belongs to; `None` for an acknowledgement, which may be of any.
pub fn operation_of_packet(opcode: u8) -> Option<Operation> {
    let kind = Opcode(opcode).info()?.kind;
    Some(match kind {
        Kind::SendLastImm | Kind::SendOnlyImm => Operation::SEND_WITH_IMM,
        Kind::SendLastInv | Kind::SendOnlyInv => Operation::SEND_WITH_INV,
        _ if kind.is_send() => Operation::SEND,
        Kind::WriteLastImm | Kind::WriteOnlyImm => Operation::RDMA_WRITE_WITH_IMM,
        _ if kind.is_write() => Operation::RDMA_WRITE,
        Kind::ReadRequest
        | Kind::ReadResponseFirst
        | Kind::ReadResponseMiddle
        | Kind::ReadResponseLast
        | Kind::ReadResponseOnly => Operation::RDMA_READ,
        Kind::CompareSwap => Operation::ATOMIC_CMP_AND_SWP,
        Kind::FetchAdd => Operation::ATOMIC_FETCH_AND_ADD,
        Kind::Flush => Operation::FLUSH,
        Kind::AtomicWrite => Operation::ATOMIC_WRITE,
        _ => return None,
    })
}

/// Whether a responder sends packets with this opcode.
pub fn is_response(opcode: u8) -> bool {
    Opcode(opcode).info().is_some_and(|info| info.kind.is_response())
}

/// Returns the names of a work request's flags.
pub fn send_flags(flags: u8) -> impl Iterator<Item = &'static str> {
    const FLAGS: [&str; 5] = ["fence", "signaled", "solicited", "inline", "checksum"];
    FLAGS.into_iter().enumerate().filter(move |(bit, _)| flags >> bit & 1 != 0).map(|(_, name)| name)
}

/// Returns the name of a type of queue pair.
pub fn qp_type(value: u8) -> &'static str {
    match value {
        2 => "RC",
        3 => "UC",
        4 => "UD",
        8 => "RAW",
        9 => "XRC_SEND",
        10 => "XRC_RECV",
        0xff => "DRIVER",
        _ => "QP",
    }
}

/// Returns the name of an opcode.
pub fn opcode(value: u8) -> Cow<'static, str> {
    Opcode(value).info().map_or_else(|| format!("opcode 0x{value:02x}").into(), |info| info.name.into())
}

/// Returns the meaning of an AETH's syndrome.
pub fn syndrome(byte: u8) -> String {
    match Syndrome::from_byte(byte) {
        Syndrome::Ack(_) => "ACK".to_owned(),
        Syndrome::RnrNak(code) => format!("RNR NAK, wait {} ms", f64::from(rnr_delay_us(code)) / 1000.0),
        Syndrome::Nak(NakCode::PSN_SEQUENCE) => "NAK: PSN sequence error".to_owned(),
        Syndrome::Nak(NakCode::INVALID_REQUEST) => "NAK: invalid request".to_owned(),
        Syndrome::Nak(NakCode::REMOTE_ACCESS) => "NAK: remote access error".to_owned(),
        Syndrome::Nak(NakCode::REMOTE_OPERATIONAL) => "NAK: remote operational error".to_owned(),
        Syndrome::Nak(code) => format!("NAK {}", code.0),
        Syndrome::Reserved(byte) => format!("reserved syndrome 0x{byte:02x}"),
    }
}

/// Error numbers of Linux that sendmsg(2) and connect(2) return for packets.
pub mod errno {
    /// A firewall refused the packet.
    pub const EPERM: u32 = 1;
    /// As [`EPERM`], by ICMP.
    pub const EACCES: u32 = 13;
    /// The device is gone.
    pub const ENODEV: u32 = 19;
    /// The source address is not this host's any more.
    pub const EINVAL: u32 = 22;
    /// The packet is longer than the MTU.
    pub const EMSGSIZE: u32 = 90;
    /// As [`EINVAL`].
    pub const EADDRNOTAVAIL: u32 = 99;
    /// The interface is down.
    pub const ENETDOWN: u32 = 100;
    /// There is no route.
    pub const ENETUNREACH: u32 = 101;
    /// No process has the port open.
    pub const ECONNREFUSED: u32 = 111;
    /// No host has the address, or a router said so.
    pub const EHOSTUNREACH: u32 = 113;

    /// Returns the name and meaning.
    pub fn text(errno: u32) -> String {
        let text = match errno {
            EPERM => "EPERM: a packet filter of this host refused it",
            EACCES => "EACCES: a router's packet filter refused it",
            ENODEV => "ENODEV: the interface is gone",
            EINVAL => "EINVAL: the source address is not this host's",
            EMSGSIZE => "EMSGSIZE: longer than the path's MTU",
            EADDRNOTAVAIL => "EADDRNOTAVAIL: the source address is not this host's",
            ENETDOWN => "ENETDOWN: the interface is down",
            ENETUNREACH => "ENETUNREACH: no route",
            ECONNREFUSED => "ECONNREFUSED: no process has the peer's UDP port open",
            EHOSTUNREACH => "EHOSTUNREACH: no host answers for the address",
            0 => "no error number",
            other => return format!("error number {other}"),
        };
        text.to_owned()
    }
}
