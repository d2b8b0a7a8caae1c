//! Encoding and decoding of packets: the link, network and transport headers of InfiniBand and RoCE, one table of
//! opcodes, both CRCs, management datagrams with the attributes of every class, the frames of iWARP, and capture files.
//! This crate never allocates in the packet path, reads no clock and knows no sockets.
#![forbid(unsafe_code)]

pub mod aeth;
pub mod bth;
pub mod cm;
pub mod ethernet;
pub mod ext;
#[doc(hidden)]
pub mod fuzzing;
pub mod grh;
pub mod icrc;
pub mod ipoib;
pub mod iwarp;
mod layout;
pub mod link_packet;
pub mod lrh;
pub mod mad;
pub mod opcode;
pub mod packet;
pub mod pcapng;
pub mod psn;
pub mod roce;
pub mod span;
pub mod vcrc;

pub use aeth::{Aeth, NakCode, Syndrome};
pub use bth::Bth;
pub use opcode::{Kind, Opcode, OpcodeInfo, Service};
pub use packet::{Headers, Packet, WireError};
pub use psn::Psn;

/// UDP port of RoCE v2 (IANA "rocev2"; IBA A17.3.1.2).
pub const ROCE_V2_PORT: u16 = 4791;
/// Ethertype of RoCE v1 (IBA A16).
pub const ROCE_V1_ETHERTYPE: u16 = 0x8915;
/// Destination queue pair number of a multicast packet (IBA 9.2.2).
pub const MULTICAST_QPN: u32 = 0xff_ffff;
