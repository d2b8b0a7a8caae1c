//! The one table of opcodes (IBA Table 38 and the memory placement extensions of IBA 1.5): the extended headers after
//! the BTH, and a packet's position in its message. All other properties of an opcode derive from it.

use std::fmt;

/// A BTH opcode, as on the wire; unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

/// Transport service: the upper three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram (never sent here).
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification (RoCE v2).
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
}

/// Type of a packet: the lower five bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The names are those of IBA Table 38.
pub enum Kind {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastImm,
    SendOnly,
    SendOnlyImm,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastImm,
    WriteOnly,
    WriteOnlyImm,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    SendLastInv,
    SendOnlyInv,
    Flush,
    AtomicWrite,
    CongestionNotification,
}

/// Extended headers that may follow the BTH, in the order of [`ORDER`].
pub mod header {
    /// Length of the BTH itself.
    pub(crate) const BTH_LEN: usize = 12;

    /// XRCETH, 4 bytes.
    pub const XRCETH: u16 = 1;
    /// RDETH, 4 bytes.
    pub const RDETH: u16 = 1 << 1;
    /// DETH, 8 bytes.
    pub const DETH: u16 = 1 << 2;
    /// FETH, 4 bytes.
    pub const FETH: u16 = 1 << 3;
    /// RETH, 16 bytes.
    pub const RETH: u16 = 1 << 4;
    /// AtomicETH, 28 bytes.
    pub const ATOMIC: u16 = 1 << 5;
    /// AETH, 4 bytes.
    pub const AETH: u16 = 1 << 6;
    /// AtomicAckETH, 8 bytes.
    pub const ATOMIC_ACK: u16 = 1 << 7;
    /// ImmDt, 4 bytes.
    pub const IMM: u16 = 1 << 8;
    /// IETH, 4 bytes.
    pub const IETH: u16 = 1 << 9;

    /// Headers in wire order, with their lengths.
    pub const ORDER: [(u16, usize); 10] = [
        (XRCETH, 4),
        (RDETH, 4),
        (DETH, 8),
        (FETH, 4),
        (RETH, 16),
        (ATOMIC, 28),
        (AETH, 4),
        (ATOMIC_ACK, 8),
        (IMM, 4),
        (IETH, 4),
    ];

    /// Returns the length of a set of headers in bytes.
    pub const fn length(set: u16) -> usize {
        let mut sum = 0;
        let mut i = 0;
        while i < ORDER.len() {
            if set & ORDER[i].0 != 0 {
                sum += ORDER[i].1;
            }
            i += 1;
        }
        sum
    }
}

/// Position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// First of several packets.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several packets.
    Last,
    /// The whole message.
    Only,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name.
    pub name: &'static str,
    /// Service.
    pub service: Service,
    /// Type of packet.
    pub kind: Kind,
    /// Position in its message.
    pub place: Place,
    /// Set of extended headers ([`header`]).
    pub headers: u16,
    /// Length of BTH and extended headers together.
    pub header_len: usize,
    /// Whether payload may follow.
    pub payload: bool,
}

struct Row(u8, &'static str, Kind, Place, u16, bool);

use Place::*;
use header::*;

/// Rows shared by RC and XRC (which adds an XRCETH to requests): the low five bits, name, kind, place, headers,
/// payload.
const CONNECTED: &[Row] = &[
    Row(0x00, "SEND First", Kind::SendFirst, First, 0, true),
    Row(0x01, "SEND Middle", Kind::SendMiddle, Middle, 0, true),
    Row(0x02, "SEND Last", Kind::SendLast, Last, 0, true),
    Row(0x03, "SEND Last with Immediate", Kind::SendLastImm, Last, IMM, true),
    Row(0x04, "SEND Only", Kind::SendOnly, Only, 0, true),
    Row(0x05, "SEND Only with Immediate", Kind::SendOnlyImm, Only, IMM, true),
    Row(0x06, "RDMA WRITE First", Kind::WriteFirst, First, RETH, true),
    Row(0x07, "RDMA WRITE Middle", Kind::WriteMiddle, Middle, 0, true),
    Row(0x08, "RDMA WRITE Last", Kind::WriteLast, Last, 0, true),
    Row(0x09, "RDMA WRITE Last with Immediate", Kind::WriteLastImm, Last, IMM, true),
    Row(0x0a, "RDMA WRITE Only", Kind::WriteOnly, Only, RETH, true),
    Row(0x0b, "RDMA WRITE Only with Immediate", Kind::WriteOnlyImm, Only, RETH | IMM, true),
    Row(0x0c, "RDMA READ Request", Kind::ReadRequest, Only, RETH, false),
    Row(0x0d, "RDMA READ response First", Kind::ReadResponseFirst, First, AETH, true),
    Row(0x0e, "RDMA READ response Middle", Kind::ReadResponseMiddle, Middle, 0, true),
    Row(0x0f, "RDMA READ response Last", Kind::ReadResponseLast, Last, AETH, true),
    Row(0x10, "RDMA READ response Only", Kind::ReadResponseOnly, Only, AETH, true),
    Row(0x11, "Acknowledge", Kind::Acknowledge, Only, AETH, false),
    Row(0x12, "ATOMIC Acknowledge", Kind::AtomicAcknowledge, Only, AETH | ATOMIC_ACK, false),
    Row(0x13, "CmpSwap", Kind::CompareSwap, Only, ATOMIC, false),
    Row(0x14, "FetchAdd", Kind::FetchAdd, Only, ATOMIC, false),
    Row(0x16, "SEND Last with Invalidate", Kind::SendLastInv, Last, IETH, true),
    Row(0x17, "SEND Only with Invalidate", Kind::SendOnlyInv, Only, IETH, true),
    Row(0x1c, "FLUSH", Kind::Flush, Only, FETH | RETH, false),
    Row(0x1d, "ATOMIC WRITE", Kind::AtomicWrite, Only, RETH, true),
];

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = Kind::CongestionNotification as usize + 1;

    /// Whether a responder sends it.
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Kind::ReadResponseFirst
                | Kind::ReadResponseMiddle
                | Kind::ReadResponseLast
                | Kind::ReadResponseOnly
                | Kind::Acknowledge
                | Kind::AtomicAcknowledge
        )
    }

    /// Whether it belongs to a SEND.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Kind::SendFirst
                | Kind::SendMiddle
                | Kind::SendLast
                | Kind::SendLastImm
                | Kind::SendLastInv
                | Kind::SendOnly
                | Kind::SendOnlyImm
                | Kind::SendOnlyInv
        )
    }

    /// Whether it belongs to an RDMA WRITE.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Kind::WriteFirst
                | Kind::WriteMiddle
                | Kind::WriteLast
                | Kind::WriteLastImm
                | Kind::WriteOnly
                | Kind::WriteOnlyImm
        )
    }
}

const fn row(code: u8, service: Service, r: &Row, name: &'static str, headers: u16) -> OpcodeInfo {
    OpcodeInfo {
        opcode: Opcode(code),
        name,
        service,
        kind: r.2,
        place: r.3,
        headers,
        header_len: header::BTH_LEN + header::length(headers),
        payload: r.5,
    }
}

const fn build() -> [Option<OpcodeInfo>; 256] {
    let mut table = [None; 256];
    let mut i = 0;
    while i < CONNECTED.len() {
        let r = &CONNECTED[i];
        table[r.0 as usize] = Some(row(r.0, Service::Rc, r, r.1, r.4));
        // UC has SENDs and WRITEs, without invalidation.
        if r.0 <= 0x0b {
            let code = 0x20 | r.0;
            table[code as usize] = Some(row(code, Service::Uc, r, r.1, r.4));
        }
        // XRC requests name the SRQ; responses equal RC's (IBA A14).
        let code = 0xa0 | r.0;
        let extra = if r.2.is_response() { 0 } else { XRCETH };
        table[code as usize] = Some(row(code, Service::Xrc, r, r.1, r.4 | extra));
        // UD has two opcodes.
        if r.0 == 0x04 || r.0 == 0x05 {
            let code = 0x60 | r.0;
            table[code as usize] = Some(row(code, Service::Ud, r, r.1, r.4 | DETH));
        }
        i += 1;
    }
    let cnp = Row(0x81, "CNP", Kind::CongestionNotification, Only, 0, true);
    table[0x81] = Some(row(0x81, Service::Cnp, &cnp, "CNP", 0));
    table
}

static TABLE: [Option<OpcodeInfo>; 256] = build();

/// Low five bits of the opcode of each kind of packet, in the order of the kinds.
const LOW_BITS: [Option<u8>; Kind::COUNT] = {
    let mut bits = [None; Kind::COUNT];
    let mut i = 0;
    while i < CONNECTED.len() {
        bits[CONNECTED[i].2 as usize] = Some(CONNECTED[i].0);
        i += 1;
    }
    bits
};

impl Opcode {
    /// RoCE v2's congestion notification packet.
    pub const CNP: Opcode = Opcode(0x81);

    /// Returns its row of the table, if any.
    #[inline]
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        TABLE[usize::from(self.0)].as_ref()
    }

    /// Composes an opcode; `None` if the service has no such packet.
    #[inline]
    pub fn of(service: Service, kind: Kind) -> Option<Opcode> {
        let low = LOW_BITS[kind as usize]?;
        let code = Opcode((service as u8) << 5 | low);
        code.info().map(|i| i.opcode)
    }

    /// Iterates over every opcode of the table.
    pub fn all() -> impl Iterator<Item = &'static OpcodeInfo> {
        TABLE.iter().flatten()
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(i) => write!(f, "{:?} {}", i.service, i.name),
            None => write!(f, "opcode 0x{:02x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_from_headers() {
        let len = |code| Opcode(code).info().map(|i| i.header_len);
        assert_eq!(len(0x04), Some(12));
        assert_eq!(len(0x0b), Some(32));
        assert_eq!(len(0x13), Some(40));
        assert_eq!(len(0x12), Some(24));
        assert_eq!(len(0x64), Some(20));
        assert_eq!(len(0x65), Some(24));
        assert_eq!(len(0xaa), Some(32));
        assert_eq!(len(0xb1), Some(16));
        assert_eq!(len(0x1c), Some(32));
        assert_eq!(len(0x15), None);
        assert_eq!(len(0x36), None);
    }

    #[test]
    fn composing_finds_the_row() {
        assert_eq!(Opcode::of(Service::Uc, Kind::WriteOnlyImm), Some(Opcode(0x2b)));
        assert_eq!(Opcode::of(Service::Uc, Kind::ReadRequest), None);
        assert_eq!(Opcode::of(Service::Ud, Kind::SendOnly), Some(Opcode(0x64)));
        for info in Opcode::all().filter(|i| i.service != Service::Cnp) {
            assert_eq!(Opcode::of(info.service, info.kind), Some(info.opcode));
        }
    }
}
