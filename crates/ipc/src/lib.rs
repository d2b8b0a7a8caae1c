//! The protocol between a program's library and the Weft daemon, and the library's end of it. Messages are typed
//! (serde, encoded by postcard), one in each packet of an abstract SOCK_SEQPACKET socket, and bounded by
//! [`MESSAGE_BYTES_MAX`]. The first message each way never changes its form, so that programs and daemons can detect
//! different versions. The client lives inside third-party programs: it has no threads, installs no handlers and leaves
//! no children.

#![forbid(unsafe_code)]

mod build;
mod capture;
mod client;
mod cm;
mod codec;
mod connect;
mod device;
mod error;
pub mod ethernet;
mod executable;
pub mod fabric;
mod faults;
pub mod fuzzing;
mod gid;
mod hello;
mod hops;
mod host_files;
mod infiniband;
mod ipoib;
mod limits;
mod losses;
mod message;
mod paths;
mod peers;
mod printable;
mod process;
pub mod stat;
mod status;
mod streams;
pub mod trust;
pub mod umad;
mod umad_client;
pub mod umad_ring;
pub mod umad_waiting;

pub use build::{BUILD_NOTE_NAME, Build, BuildNote};
pub use capture::{Capture, Captured};
pub use client::{Client, Reconnected, Slot, SlotFate, valid_module_name};
pub use cm::{CmClient, CmError, EventChannel};
pub use codec::{DecodeError, decode, encode};
pub use connect::{
    ConnectOptions, HOST_VARIABLE, Spawn, StoppingDaemon, VIEW_KEEPER, is_served, offer_anchor, request_stop,
    stop_daemon,
};
pub use device::{
    DEVICE_KIND_RXE, DEVICE_KIND_SIW, DeviceInfo, PhysState, PortState, active_mtu_bytes, iwarp_gid_of_mac,
    iwarp_mtu_bytes, node_guid_of_mac, valid_device_name, valid_netdev_name,
};
pub use error::{ConnectError, RequestError};
pub use faults::{FaultEntry, FaultLifetime, FaultReply, FaultRequest, FaultTarget};
pub use gid::{GidEntry, GidType};
pub use hello::{Hello, HelloReply, HelloStatus, Purpose};
pub use hops::HopsFds;
pub use host_files::HostFile;
pub use infiniband::{DEVICE_KIND_IB, EthernetLink, IB_DEVICE_INDEX_BASE, IbPort, InfiniBand};
pub use ipoib::{IpoibInterface, IpoibNeighbour, IpoibNeighbourState, LINK_ADDRESS_BYTES};
pub use limits::*;
pub use losses::{KeyViolation, LostPackets};
pub use message::{ClientFrame, DaemonFrame, Event, McastGroup, Refusal, Request, Response, SlotGrant};
pub use paths::{GroupMember, GroupReply, PathReply, PathRequest, PathTraffic};
pub use peers::{PeerGrant, PeerMet, Publication, PublishGrant, Published};
pub use status::{CmStatus, GsiStatus, PortHealth, ProcessInfo, StatusReport, Usage};
pub use streams::StreamGrant;
pub use umad_client::{OpenPort, Opened, UmadClient, UmadError};

/// Protocol version; it changes whenever a message changes its form.
pub const PROTOCOL_VERSION: u32 = 13;

/// Abstract name of the daemon's socket. Linux scopes it to the network namespace, so that every namespace has its own
/// daemon.
pub const SOCKET_NAME: &str = "weft-daemon-0";
