//! Actions of the broker for the server.

use weft_cm::iw::ConnId;

use crate::slots::ClientId;

/// An action for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send to a client.
    Send {
        /// Recipient.
        client: ClientId,
        /// Message.
        bytes: Vec<u8>,
        /// Descriptors to attach.
        attach: Attach,
        /// Device that this event describes: a newer event about it replaces this one while it still waits.
        about: Option<u32>,
    },
    /// Close a client's connection after sending everything queued before, and confirm by [`Broker::disconnect`].
    ///
    /// [`Broker::disconnect`]: super::Broker::disconnect
    Close {
        /// The client.
        client: ClientId,
    },
    /// End the daemon after sending everything queued before.
    Stop,
}

/// Descriptors attached to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attach {
    /// The sockets of this slot.
    pub sockets_of: Option<u32>,
    /// The anchor.
    pub anchor: bool,
    /// The program's end of this event channel.
    pub channel: Option<u32>,
    /// The program's end of this port for management datagrams.
    pub umad: Option<u32>,
    /// The ledger of this client.
    pub ledger_of: Option<ClientId>,
    /// The program's end of this client's packet channel.
    pub packet_channel: Option<ClientId>,
    /// The reader's end of this client's capture.
    pub capture: Option<ClientId>,
    /// Namespaces of this host's network.
    pub network: Option<u32>,
    /// A new Unix socket of the daemon's network namespace.
    pub machine_socket: bool,
    /// The socket of this iWARP connection.
    pub stream: Option<ConnId>,
    /// Publication of this slot's process: doorbell, key directory, arena.
    pub published: Option<u32>,
    /// Descriptors for the process of the first slot to reach the process of the second.
    pub meeting: Option<(u32, u32)>,
}
