//! Limits of a host, its sockets and connections.

use std::time::Duration;

/// Bytes of a frame's data; only the last frame of a message is shorter (`RDS_FRAG_SIZE`).
pub const FRAGMENT_BYTES: usize = 4096;
/// Bytes of the longest message (`RDS_MAX_MSG_SIZE`).
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Messages that are sent between two that ask for an acknowledgement (`max_unacked_packets`).
pub const UNACKED_MESSAGES_MAX: u32 = 8;
/// Receives that stay posted on a connection (`RDS_IB_DEFAULT_RECV_WR`).
pub const RECEIVES: usize = 1024;

/// Bytes of a socket's send buffer unless the program sets it: datagrams that the peer has not acknowledged.
pub const SEND_BUFFER_BYTES: u32 = 106_496;
/// Bytes of a socket's receive buffer unless the program sets it. Its port is congested beyond that.
pub const RECEIVE_BUFFER_BYTES: u32 = 106_496;
/// Largest buffer that a program may set, in bytes.
pub const BUFFER_BYTES_MAX: u32 = 16 << 20;
/// Smallest buffer that a program may set, in bytes.
pub const BUFFER_BYTES_MIN: u32 = 2048;
/// Bytes that each datagram occupies in a buffer besides its data, so that empty datagrams are bounded too.
pub const DATAGRAM_OVERHEAD_BYTES: usize = 64;

/// Bytes of the longest RDMA operation (`RDS_MAX_MSG_SIZE`).
pub const RDMA_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// Pieces of local memory of one operation (`UIO_MAXIOV`).
pub const RDMA_PIECES_MAX: usize = 1024;
/// Operations of a socket that have not completed; further datagrams wait as for the send buffer.
pub const OPERATIONS_PER_SOCKET_MAX: usize = 256;
/// Bytes of a socket's operations that have not completed, likewise.
pub const OPERATION_BYTES_PER_SOCKET_MAX: usize = 16 << 20;
/// Results of operations that wait for a socket's program, likewise.
pub const NOTIFICATIONS_PER_SOCKET_MAX: usize = 1024;
/// Bytes of the largest region that a program may offer.
pub const REGION_BYTES_MAX: u64 = 1 << 30;
/// Regions of a host.
pub const REGIONS_MAX: usize = 8192;
/// Bytes of all regions of a host.
pub const REGIONS_BYTES_MAX: u64 = 64 << 30;

/// Sockets of a host.
pub const SOCKETS_MAX: usize = 4096;
/// Connections of a host.
pub const CONNECTIONS_MAX: usize = 1024;
/// Bytes that wait for programs on all sockets; beyond that the host takes no more frames until programs have received some.
pub const RECEIVED_BYTES_MAX: usize = 256 << 20;
/// Answers to pings that wait on a connection; further pings are not answered.
pub const PONGS_WAITING_MAX: usize = 64;

/// Time after which a lost connection is made again: at first, and at most (`reconnect_min_delay_ms`,
/// `reconnect_max_delay_ms`).
pub const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(1);
/// See [`RECONNECT_DELAY_MIN`].
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(1000);
