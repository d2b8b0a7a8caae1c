//! Management datagrams (IBA 13.4): 256 bytes, a header of 24 and 232 of data, sent as unreliable datagrams. Those for
//! the general services interface, queue pair 1, are GMPs; [`gmp`] is a GMP as a packet.

mod attribute;
mod block;
mod class_port_info;
mod data_offset;
pub mod dev_mgt;
pub mod gmp;
mod header;
pub mod notice;
pub mod perf;
pub mod rmpp;
pub mod sa;
mod services;
mod speed;
pub mod subn;
pub mod vendor;

pub use attribute::Attribute;
pub use block::Block;
pub(crate) use class_port_info::round_trip;
pub use class_port_info::{COMMON_ATTRIBUTES, ClassPortInfo};
pub use gmp::Gmp;
pub use header::{AttrId, Class, MadHeader, Method, Status};
pub use notice::{InformInfo, Notice};
pub use services::ServiceMad;
pub use speed::{Rate, Speed, link_text};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of every management datagram in bytes.
pub const MAD_LEN: usize = 256;
/// Bytes after the header.
pub const DATA_LEN: usize = MAD_LEN - MadHeader::LEN;
/// Queue pair number of the subnet management interface.
pub const SMI_QPN: u32 = 0;
/// Queue pair number of the general services interface.
pub const GSI_QPN: u32 = 1;
/// The well-known Q_Key of the general services interface (IBA 10.2.5).
pub const GSI_QKEY: u32 = 0x8001_0000;

/// The data of a management datagram, in the class's format.
pub type MadData = [u8; 232];

/// A whole management datagram.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Mad {
    /// The common header.
    pub header: MadHeader,
    /// The data after the header.
    pub data: MadData,
}

const _: () = assert!(size_of::<Mad>() == MAD_LEN && size_of::<MadData>() == DATA_LEN);

impl Mad {
    /// Reads the datagram in a packet's payload; `None` unless the payload has exactly its length.
    pub fn parse(payload: &[u8]) -> Option<Mad> {
        Mad::read_from_bytes(payload).ok()
    }
}
