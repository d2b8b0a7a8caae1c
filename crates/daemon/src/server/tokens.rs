//! Tokens of what epoll watches: a kind in the upper bits, a number in the lower ones.

pub(super) const LISTENER: u64 = 0;
pub(super) const ROUTES: u64 = 1;
/// Tokens of a client: this plus twice its number for its socket, one more for its process.
pub(super) const CLIENTS: u64 = 2;

/// Sockets of queue pair 1.
pub(super) const GSI: u64 = 1 << 62;
/// Packet channels of programs: this, with the client's number.
pub(super) const PACKET_CHANNELS: u64 = 1 << 60;
/// Sockets of ports for management datagrams: this, with the port's handle.
pub(super) const UMAD: u64 = 1 << 61;
/// An event channel that is full: this, with its number.
pub(super) const CHANNELS: u64 = 1 << 63;

/// An interface of a virtual host: this, the network's number times 64, and the interface's.
pub(super) const TUN: u64 = 1 << 59;
/// The listener in a virtual host's network: this, with the network's number.
pub(super) const NETWORK_LISTENER: u64 = 1 << 58;
/// Changes of a virtual host's interfaces: this, with the network's number.
pub(super) const NETWORK_ROUTES: u64 = 1 << 57;

/// The end of a process that networks of hosts depend on: this, and one more for the shaper.
pub(super) const HELPERS: u64 = 1 << 55;

/// A capture whose socket is full: this, with the client's number.
pub(super) const CAPTURES: u64 = 1 << 56;

/// Sockets of iWARP connections: this, with the connection's number.
pub(super) const STREAMS: u64 = 1 << 53;
/// Listeners for them: this, with the listener's number.
pub(super) const STREAM_LISTENERS: u64 = 1 << 54;
