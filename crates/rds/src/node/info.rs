//! Lists for rds-info, as `<linux/rds.h>` has them (`struct rds_info_*`): native byte order, addresses and ports as on the wire.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{Node, Pair};
use crate::connection::{Connection, ConnectionState, QueuedMessage};

/// Kind of a list: the socket option that returns it (`RDS_INFO_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InfoKind {
    /// Counters.
    Counters = 10_000,
    /// Connections.
    Connections = 10_001,
    /// Messages to send.
    SendMessages = 10_003,
    /// Messages without acknowledgement.
    UnacknowledgedMessages = 10_004,
    /// Messages that wait for programs.
    ReceivedMessages = 10_005,
    /// Sockets.
    Sockets = 10_006,
}

impl InfoKind {
    /// All kinds.
    pub const ALL: [InfoKind; 6] = [
        InfoKind::Counters,
        InfoKind::Connections,
        InfoKind::SendMessages,
        InfoKind::UnacknowledgedMessages,
        InfoKind::ReceivedMessages,
        InfoKind::Sockets,
    ];

    /// Returns the kind with a number.
    pub fn of(number: u64) -> Option<InfoKind> {
        InfoKind::ALL.into_iter().find(|kind| *kind as u64 == number)
    }

    /// Bytes of one entry.
    pub fn entry_bytes(self) -> usize {
        match self {
            InfoKind::Counters => 40,
            InfoKind::Connections => 42,
            InfoKind::SendMessages | InfoKind::UnacknowledgedMessages | InfoKind::ReceivedMessages => 26,
            InfoKind::Sockets => 28,
        }
    }
}

/// A list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InfoTable {
    /// Bytes of one entry.
    pub entry_bytes: usize,
    /// All entries.
    pub bytes: Vec<u8>,
}

/// Flag of a connection: it is being made.
const CONNECTING: u8 = 0x02;
/// Flag of a connection: it is up.
const CONNECTED: u8 = 0x04;

impl Node {
    /// Returns a list.
    pub fn info(&self, kind: InfoKind) -> InfoTable {
        let mut bytes = Vec::new();
        match kind {
            InfoKind::Counters => {
                for (name, value) in self.counters().named() {
                    let mut field = [0; 32];
                    for (to, from) in field.iter_mut().zip(name.bytes()) {
                        *to = from;
                    }
                    bytes.extend([&field[..], &value.to_ne_bytes()].concat());
                }
            }
            InfoKind::Connections => {
                self.connections().for_each(|(pair, connection)| bytes.extend(connection_entry(pair, connection)));
            }
            InfoKind::SendMessages => self.connections().for_each(|(pair, connection)| {
                connection.queued().0.for_each(|message| bytes.extend(queued_entry(pair, &message)));
            }),
            InfoKind::UnacknowledgedMessages => self.connections().for_each(|(pair, connection)| {
                connection.queued().1.for_each(|message| bytes.extend(queued_entry(pair, &message)));
            }),
            InfoKind::ReceivedMessages => self.received_entries(&mut bytes),
            InfoKind::Sockets => {
                for (key, options) in self.sockets() {
                    let bound = options.bound.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
                    let fields: [&[u8]; 7] = [
                        &options.send_buffer.to_ne_bytes(),
                        &bound.ip().octets(),
                        &[0; 4],
                        &bound.port().to_be_bytes(),
                        &[0; 2],
                        &options.receive_buffer.to_ne_bytes(),
                        &key.to_ne_bytes(),
                    ];
                    bytes.extend(fields.concat());
                }
            }
        }
        InfoTable { entry_bytes: kind.entry_bytes(), bytes }
    }

    fn received_entries(&self, bytes: &mut Vec<u8>) {
        for (_, socket) in self.sockets.iter() {
            let Some(bound) = socket.options.bound else { continue };
            for datagram in &socket.received {
                bytes.extend(message_entry(0, datagram.payload.len(), datagram.from, bound));
            }
        }
    }
}

fn connection_entry(pair: Pair, connection: &Connection) -> Vec<u8> {
    let numbers = connection.sequence_numbers();
    let mut transport = [0; 16];
    transport[..2].copy_from_slice(b"ib");
    let flags = match connection.state() {
        ConnectionState::Up => CONNECTED,
        ConnectionState::Connecting | ConnectionState::Accepting => CONNECTING,
        ConnectionState::Down | ConnectionState::Waiting => 0,
    };
    let fields: [&[u8]; 6] = [
        &numbers.next_sent.to_ne_bytes(),
        &numbers.next_received.to_ne_bytes(),
        &pair.local.octets(),
        &pair.peer.octets(),
        &transport,
        &[flags, 0],
    ];
    fields.concat()
}

fn queued_entry(pair: Pair, message: &QueuedMessage) -> Vec<u8> {
    let from = SocketAddrV4::new(pair.local, message.source_port);
    message_entry(message.sequence, message.bytes, from, SocketAddrV4::new(pair.peer, message.destination_port))
}

fn message_entry(sequence: u64, length: usize, from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let fields: [&[u8]; 7] = [
        &sequence.to_ne_bytes(),
        &(length as u32).to_ne_bytes(),
        &from.ip().octets(),
        &to.ip().octets(),
        &from.port().to_be_bytes(),
        &to.port().to_be_bytes(),
        &[0; 2],
    ];
    fields.concat()
}
