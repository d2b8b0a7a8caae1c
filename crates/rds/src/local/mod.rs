//! Messages between a program's library and the service of its user. Each RDS socket of a program is a connected Unix socket
//! (SOCK_SEQPACKET), so that the kernel's own poll, epoll, fork and close work on it; a message is one record of it: a head,
//! and the data behind it, or in a file that accompanies the record. The program's page file may accompany it, too (`rdma`).
//!
//! ```text
//!  0 kind   1 version   2 flags   3 reserved   4 address   8 port   10 code   12 length of the data   16 value
//! ```

mod rdma;

use std::net::SocketAddrV4;

use crate::limits::{MESSAGE_BYTES_MAX, RDMA_BYTES_MAX, RDMA_PIECES_MAX};
use crate::rdma::RdmaStatus;
pub use rdma::{LocalOperation, LocalPiece, OPERATION_LEN, OfferedRegion, PAGE_FILE_BYTES};

/// Bytes of a head.
pub const HEAD_LEN: usize = 24;
/// Longest data behind a head, in bytes; longer data is in a file, because the kernel's buffers hold no longer record.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the longest answer to [`Operation::Info`].
pub const INFO_BYTES_MAX: usize = 1 << 20;

/// Bytes of the longest data of a program: an operation, its data and a datagram.
pub const SEND_BYTES_MAX: usize = OPERATION_LEN + 16 * RDMA_PIECES_MAX + RDMA_BYTES_MAX + MESSAGE_BYTES_MAX;

/// Version of the messages.
const VERSION: u8 = 2;
/// Flag: the data is in the file that accompanies the record.
const IN_FILE: u8 = 1;
/// Flag: the data begins with an operation.
const WITH_OPERATION: u8 = 2;

/// Returns the name of the service's socket in the abstract namespace, which belongs to the network namespace.
pub fn service_name(user: u32) -> String {
    format!("weft-rds-{user}")
}

/// Call of a program about its socket. A socket for the answer accompanies the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Give the socket this address; the answer has the one that it got.
    Bind,
    /// Set the size of the send buffer.
    SendBuffer,
    /// Set the size of the receive buffer.
    ReceiveBuffer,
    /// Forget what has not been sent to this address.
    Cancel,
    /// Return a list of this kind ([`InfoKind`](crate::InfoKind)); the value is its number.
    Info,
    /// End the service.
    Stop,
    /// Offer a region to peers; the data describes it ([`OfferedRegion`]). The answer has its key.
    Offer,
    /// End the region of this key; key 0: none.
    Withdraw,
    /// Succeed if the socket offers a region of this key.
    Check,
}

impl Operation {
    const ALL: [Operation; 9] = [
        Operation::Bind,
        Operation::SendBuffer,
        Operation::ReceiveBuffer,
        Operation::Cancel,
        Operation::Info,
        Operation::Stop,
        Operation::Offer,
        Operation::Withdraw,
        Operation::Check,
    ];

    fn code(self) -> u16 {
        Operation::ALL.iter().position(|operation| *operation == self).unwrap_or(0) as u16
    }
}

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Datagram of the program, to the address. The value is the cookie for the peer, or 0.
    Send,
    /// Call of the program.
    Call(Operation),
    /// Datagram for the program, from the address. The value is the peer's cookie, or 0.
    Datagram,
    /// Result of an operation. The value is the program's number.
    Notification(RdmaStatus),
    /// Answer to a call: an errno value, or 0.
    Reply(u16),
}

/// Head of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Kind.
    pub kind: Kind,
    /// Address, of the peer or of a bind.
    pub address: SocketAddrV4,
    /// Bytes of the data.
    pub length: u32,
    /// Whether the data is in a file.
    pub is_in_file: bool,
    /// Whether the data begins with an operation.
    pub has_operation: bool,
    /// Value of the operation or the answer.
    pub value: u64,
}

impl Message {
    /// Returns a message with data; [`Message::is_in_file`] says where that goes.
    pub fn with_data(kind: Kind, address: SocketAddrV4, length: usize) -> Message {
        let is_in_file = length > INLINE_BYTES_MAX;
        Message { kind, address, length: length as u32, is_in_file, has_operation: false, value: 0 }
    }

    /// Returns a call.
    pub fn call(operation: Operation, address: SocketAddrV4, value: u64) -> Message {
        Message { value, ..Message::with_data(Kind::Call(operation), address, 0) }
    }

    /// Reads a head. Returns it with what is behind it.
    pub fn parse(bytes: &[u8]) -> Option<(Message, &[u8])> {
        let (head, data) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let [kind, VERSION, flags, _, a, b, c, d, port0, port1, code0, code1, l0, l1, l2, l3, value @ ..] = *head
        else {
            return None;
        };
        let code = u16::from_be_bytes([code0, code1]);
        let kind = match kind {
            1 => Kind::Send,
            2 => Kind::Call(*Operation::ALL.get(usize::from(code))?),
            3 => Kind::Datagram,
            4 => Kind::Reply(code),
            5 => Kind::Notification(RdmaStatus::of(code)?),
            _ => return None,
        };
        let address = SocketAddrV4::new([a, b, c, d].into(), u16::from_be_bytes([port0, port1]));
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let value = u64::from_be_bytes(value);
        let (is_in_file, has_operation) = (flags & IN_FILE != 0, flags & WITH_OPERATION != 0);
        Some((Message { kind, address, length, is_in_file, has_operation, value }, data))
    }

    /// Returns the bytes of the head.
    pub fn to_bytes(&self) -> [u8; HEAD_LEN] {
        let (kind, code) = match self.kind {
            Kind::Send => (1, 0),
            Kind::Call(operation) => (2, operation.code()),
            Kind::Datagram => (3, 0),
            Kind::Reply(errno) => (4, errno),
            Kind::Notification(status) => (5, status as u16),
        };
        let mut out = [0; HEAD_LEN];
        let flags = if self.is_in_file { IN_FILE } else { 0 } | if self.has_operation { WITH_OPERATION } else { 0 };
        let fields: [&[u8]; 6] = [
            &[kind, VERSION, flags, 0],
            &self.address.ip().octets(),
            &self.address.port().to_be_bytes(),
            &u16::to_be_bytes(code),
            &self.length.to_be_bytes(),
            &self.value.to_be_bytes(),
        ];
        for (to, from) in out.iter_mut().zip(fields.concat()) {
            *to = from;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_their_bytes() {
        let address = SocketAddrV4::new([10, 1, 2, 3].into(), 4000);
        let kinds = [Kind::Send, Kind::Datagram, Kind::Reply(98), Kind::Notification(RdmaStatus::Dropped)];
        let calls = Operation::ALL.map(Kind::Call);
        for kind in kinds.into_iter().chain(calls) {
            let message = Message { value: 1 << 40, has_operation: true, ..Message::with_data(kind, address, 70_000) };
            assert!(message.is_in_file);
            let bytes = [&message.to_bytes()[..], b"rest"].concat();
            assert_eq!(Message::parse(&bytes), Some((message, &b"rest"[..])));
        }
        assert_eq!(Message::parse(&[1; HEAD_LEN - 1]), None);
        assert_eq!(Message::parse(&[9; HEAD_LEN]), None);
    }
}
