//! Bytes of the wire: headers, extensions, private data of the connection manager, congestion maps.

mod congestion_map;
mod extension;
mod header;
mod private_data;

pub use congestion_map::{CONGESTION_MAP_BYTES, CongestionMap};
pub use extension::{Extension, Extensions};
pub use header::{Flags, HEADER_LEN, Header, HeaderError};
pub use private_data::{PRIVATE_DATA_LEN, PrivateData, Version, VersionError};

/// Port of RDMA CM on which hosts listen for IPv4 connections (`RDS_PORT`).
pub const RDS_PORT: u16 = 18634;
