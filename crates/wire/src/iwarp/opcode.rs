//! The one table of RDMAP opcodes (RFC 5040 Figure 2, RFC 7306 §4): name, buffer model, queue, and bytes of header.

/// Opcode of an RDMAP message; unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RdmapOpcode(pub u8);

/// Queue of untagged buffers; unknown values survive (RFC 5040 §5.1, RFC 7306 §5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue(pub u32);

impl Queue {
    /// SEND messages and Immediate Data.
    pub const SEND: Queue = Queue(0);
    /// Read Requests and Atomic Requests.
    pub const READ_REQUEST: Queue = Queue(1);
    /// TERMINATE.
    pub const TERMINATE: Queue = Queue(2);
    /// Atomic Responses.
    pub const ATOMIC_RESPONSE: Queue = Queue(3);
}

#[allow(missing_docs)] // The names are those of RFC 5040 and RFC 7306.
impl RdmapOpcode {
    pub const WRITE: RdmapOpcode = RdmapOpcode(0x0);
    pub const READ_REQUEST: RdmapOpcode = RdmapOpcode(0x1);
    pub const READ_RESPONSE: RdmapOpcode = RdmapOpcode(0x2);
    pub const SEND: RdmapOpcode = RdmapOpcode(0x3);
    pub const SEND_INV: RdmapOpcode = RdmapOpcode(0x4);
    pub const SEND_SE: RdmapOpcode = RdmapOpcode(0x5);
    pub const SEND_SE_INV: RdmapOpcode = RdmapOpcode(0x6);
    pub const TERMINATE: RdmapOpcode = RdmapOpcode(0x7);
    pub const IMMEDIATE: RdmapOpcode = RdmapOpcode(0x8);
    pub const IMMEDIATE_SE: RdmapOpcode = RdmapOpcode(0x9);
    pub const ATOMIC_REQUEST: RdmapOpcode = RdmapOpcode(0xa);
    pub const ATOMIC_RESPONSE: RdmapOpcode = RdmapOpcode(0xb);
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RdmapOpcodeInfo {
    /// The opcode.
    pub opcode: RdmapOpcode,
    /// Its name.
    pub name: &'static str,
    /// Queue of its untagged buffer; `None`: its segments name a tagged buffer.
    pub queue: Option<Queue>,
    /// Bytes that RDMAP adds to DDP's header; [`RdmapOpcodeInfo::carries_payload`] tells whether payload follows.
    pub extra: u8,
    /// Whether the peers must have agreed on RFC 7306.
    pub is_extension: bool,
}

/// A row in the order of its columns.
macro_rules! row {
    ($op:ident, $name:literal, $queue:expr, $extra:literal, $extension:literal) => {
        RdmapOpcodeInfo {
            opcode: RdmapOpcode::$op,
            name: $name,
            queue: $queue,
            extra: $extra,
            is_extension: $extension,
        }
    };
}

const SEND_QUEUE: Option<Queue> = Some(Queue::SEND);

/// The table, in the order of the opcodes.
#[rustfmt::skip]
static TABLE: [RdmapOpcodeInfo; 12] = [
    row!(WRITE,           "RDMA Write",                    None,                         0,  false),
    row!(READ_REQUEST,    "RDMA Read Request",             Some(Queue::READ_REQUEST),    28, false),
    row!(READ_RESPONSE,   "RDMA Read Response",            None,                         0,  false),
    row!(SEND,            "Send",                          SEND_QUEUE,                   0,  false),
    row!(SEND_INV,        "Send with Invalidate",          SEND_QUEUE,                   0,  false),
    row!(SEND_SE,         "Send with SE",                  SEND_QUEUE,                   0,  false),
    row!(SEND_SE_INV,     "Send with SE and Invalidate",   SEND_QUEUE,                   0,  false),
    row!(TERMINATE,       "Terminate",                     Some(Queue::TERMINATE),       4,  false),
    row!(IMMEDIATE,       "Immediate Data",                SEND_QUEUE,                   8,  true),
    row!(IMMEDIATE_SE,    "Immediate Data with SE",        SEND_QUEUE,                   8,  true),
    row!(ATOMIC_REQUEST,  "Atomic Request",                Some(Queue::READ_REQUEST),    52, true),
    row!(ATOMIC_RESPONSE, "Atomic Response",               Some(Queue::ATOMIC_RESPONSE), 12, true),
];

impl RdmapOpcodeInfo {
    /// Whether payload follows the header. Other messages are one segment of their header alone.
    pub fn carries_payload(&self) -> bool {
        self.extra == 0
    }

    /// Bytes of a segment before its payload.
    pub fn header_len(&self) -> usize {
        let ddp = if self.queue.is_none() { 14 } else { 18 };
        ddp + usize::from(self.extra)
    }
}

impl RdmapOpcode {
    /// Returns its row; `None` if the opcode is unknown.
    pub fn info(self) -> Option<&'static RdmapOpcodeInfo> {
        TABLE.get(usize::from(self.0))
    }

    /// Returns the table.
    pub fn all() -> impl Iterator<Item = &'static RdmapOpcodeInfo> {
        TABLE.iter()
    }

    /// Returns the SEND with these properties.
    pub fn send(solicited: bool, invalidates: bool) -> RdmapOpcode {
        match (solicited, invalidates) {
            (false, false) => Self::SEND,
            (false, true) => Self::SEND_INV,
            (true, false) => Self::SEND_SE,
            (true, true) => Self::SEND_SE_INV,
        }
    }

    /// Whether it is a SEND of any kind.
    pub fn is_send(self) -> bool {
        (Self::SEND.0..=Self::SEND_SE_INV.0).contains(&self.0)
    }

    /// Whether the message asks for a solicited event at its receiver.
    pub fn is_solicited(self) -> bool {
        matches!(self, Self::SEND_SE | Self::SEND_SE_INV | Self::IMMEDIATE_SE)
    }

    /// Whether the message invalidates an STag at its receiver.
    pub fn invalidates(self) -> bool {
        matches!(self, Self::SEND_INV | Self::SEND_SE_INV)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_gives_the_sizes_of_the_specifications() {
        assert!(RdmapOpcode::all().enumerate().all(|(at, row)| usize::from(row.opcode.0) == at));
        let len = |opcode: RdmapOpcode| opcode.info().map(RdmapOpcodeInfo::header_len);
        assert_eq!(len(RdmapOpcode::WRITE), Some(14));
        assert_eq!(len(RdmapOpcode::SEND), Some(18));
        assert_eq!(len(RdmapOpcode::READ_REQUEST), Some(46));
        assert_eq!(len(RdmapOpcode(12)), None);
    }
}
