//! Events of the connection manager, and its requests to the owner of the sockets.

use std::net::SocketAddr;

use weft_iwarp::StreamParams;
use weft_verbs::Errno;

use super::ConnId;

/// Progress of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer asks for a connection: accept or reject it.
    Requested {
        /// Local address of the TCP connection.
        local: SocketAddr,
        /// Peer's address.
        peer: SocketAddr,
        /// READs that the peer answers at a time.
        ird: u8,
        /// READs that the peer wants outstanding.
        ord: u8,
        /// Private data of the peer.
        private_data: Vec<u8>,
    },
    /// The connection is established: its stream is on its way to the process with the queue pair.
    Established {
        /// Local address of the TCP connection, if this side connected.
        local: Option<SocketAddr>,
        /// READs of the peer that this side answers at a time.
        ird: u8,
        /// READs that this side may have outstanding.
        ord: u8,
        /// Private data of the peer's reply.
        private_data: Vec<u8>,
    },
    /// The connection did not come about, for the reason of this errno: ECONNRESET if the peer rejected it, perhaps with
    /// private data, or left; ECONNREFUSED if it does not listen; ETIMEDOUT if it is silent. The connection is gone.
    Failed {
        /// Reason.
        errno: Errno,
        /// Private data of a rejection.
        private_data: Vec<u8>,
    },
    /// The stream ended. The connection is gone.
    Closed,
}

/// Requests to the owner of the sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SocketRequest {
    /// Connect a new socket; [`Cm::handle_connected`] or [`Cm::handle_closed`] follows.
    ///
    /// [`Cm::handle_connected`]: super::Cm::handle_connected
    /// [`Cm::handle_closed`]: super::Cm::handle_closed
    Connect {
        /// The connection.
        conn: ConnId,
        /// Address to bind; another port will do if the port is taken.
        local: SocketAddr,
        /// Address to connect to.
        peer: SocketAddr,
    },
    /// Send these bytes. They fit an idle connection's buffer; if the socket does not take them all, it fails
    /// ([`Cm::handle_closed`](super::Cm::handle_closed)).
    Send {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Give the socket to the process with this queue pair. If there is none, its stream has ended
    /// ([`Cm::handle_stream_ended`](super::Cm::handle_stream_ended)).
    HandOver {
        /// The connection.
        conn: ConnId,
        /// Number of the queue pair.
        qp_num: u32,
        /// Agreement of both ends.
        params: StreamParams,
    },
    /// Close the socket.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// Have the process with this queue pair close its stream. If there is none, the stream has ended.
    CloseStream {
        /// Number of the queue pair.
        qp_num: u32,
    },
}
