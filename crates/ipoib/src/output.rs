//! Results of an interface's work, for its driver.

use weft_wire::ipoib::{ConnectedData, LinkAddress};
use weft_wire::mad::sa::PathRecord;

use crate::frame::Frame;

/// Destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// GID of a group; `None` within the subnet.
    pub group: Option<[u8; 16]>,
    /// Destination queue pair.
    pub qpn: u32,
    /// Q_Key of the link.
    pub qkey: u32,
}

/// One of an interface's connections. Each carries packets in one direction, so two interfaces have two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Connection {
    /// For sending; the interface numbers them.
    Outgoing(u32),
    /// For receiving; the driver numbers them.
    Incoming(u32),
}

/// An action for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Join a group through the subnet administration, as a full member or to send only.
    Join {
        /// Its GID.
        mgid: [u8; 16],
        /// Full member: it receives.
        full: bool,
    },
    /// Leave a group.
    Leave {
        /// Its GID.
        mgid: [u8; 16],
    },
    /// Query the path to a port.
    ResolvePath {
        /// Its GID.
        dgid: [u8; 16],
    },
    /// Send a datagram.
    Send {
        /// Destination.
        to: Destination,
        /// Encapsulation header and packet.
        frame: Frame,
    },
    /// Open a connection for sending. [`Interface::handle_connected`] or [`Interface::handle_refused`] follows.
    ///
    /// [`Interface::handle_connected`]: crate::Interface::handle_connected
    /// [`Interface::handle_refused`]: crate::Interface::handle_refused
    Connect {
        /// Number of the connection.
        connection: u32,
        /// Link-layer address of the peer, whose service is [`weft_wire::ipoib::service_id`] of its queue pair.
        to: LinkAddress,
        /// Path to the peer.
        path: Box<PathRecord>,
        /// Private data of the request.
        data: ConnectedData,
    },
    /// Send a message over a connection.
    SendMessage {
        /// Number of the connection.
        connection: u32,
        /// Encapsulation header and packet.
        frame: Frame,
    },
    /// End a connection, or give its request up.
    Disconnect(Connection),
    /// Give a frame's IP packet to the kernel.
    Deliver(Frame),
    /// The link came up with this MTU, or changed it.
    Up {
        /// Largest IP packet.
        mtu: u32,
    },
    /// The link went down.
    Down,
}
