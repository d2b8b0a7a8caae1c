//! Private data of RDMA CM (RDMA Transport 1.0 §7.3): the host announces a queue, and the target takes or refuses it.
//!
//! ```text
//! REQ | format 0 | queue identifier | host's receives | host's sends, less one | controller | reserved (22 bytes) |
//! REP | format 0 | target's receives | reserved (28 bytes) |
//! REJ | format 0 | status |
//! ```

use crate::limits::{IO_QUEUES_MAX, QUEUE_ENTRIES_MAX, QUEUE_ENTRIES_MIN};

/// Bytes of a request's private data.
const REQUEST_LEN: usize = 32;
/// Bytes of an answer's private data.
const ACCEPT_LEN: usize = 32;
/// Bytes of a refusal's private data.
pub const REJECT_LEN: usize = 4;

/// Status of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RejectStatus(pub u16);

/// Reason why a target refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The private data is too short.
    #[error("invalid private data length")]
    Length,
    /// The format is unknown.
    #[error("invalid record format")]
    Format,
    /// No controller has as many queues.
    #[error("invalid queue identifier")]
    QueueId,
    /// The host's send queue is too short or too long.
    #[error("invalid host send queue size")]
    SendSize,
    /// The host's receive queue is shorter than its send queue.
    #[error("invalid host receive queue size")]
    ReceiveSize,
    /// There is no room.
    #[error("no resources")]
    Resources,
}

impl RequestError {
    /// Returns the status on the wire.
    pub fn status(self) -> RejectStatus {
        RejectStatus(match self {
            RequestError::Length => 1,
            RequestError::Format => 2,
            RequestError::QueueId => 3,
            RequestError::SendSize => 4,
            RequestError::ReceiveSize => 5,
            RequestError::Resources => 6,
        })
    }

    /// Reads a target's refusal. `None`: it gives no reason that the specification knows.
    pub fn parse(bytes: &[u8]) -> Option<RequestError> {
        let status = u16::from_le_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let all = [
            RequestError::Length,
            RequestError::Format,
            RequestError::QueueId,
            RequestError::SendSize,
            RequestError::ReceiveSize,
            RequestError::Resources,
        ];
        all.into_iter().find(|error| error.status().0 == status)
    }

    /// Returns the private data of the refusal.
    pub fn to_bytes(self) -> [u8; REJECT_LEN] {
        let [low, high] = self.status().0.to_le_bytes();
        [0, 0, low, high]
    }
}

/// Private data of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectRequest {
    /// Queue identifier; 0 is the admin queue.
    pub queue_id: u16,
    /// Receives that the host posts.
    pub host_receives: u16,
    /// Commands that the host sends at a time.
    pub host_sends: u16,
    /// Controller of an I/O queue.
    pub controller: u16,
}

impl ConnectRequest {
    /// Reads and checks the private data. Connection managers may have appended zeros.
    ///
    /// # Errors
    /// The reason to refuse the connection.
    pub fn parse(bytes: &[u8]) -> Result<ConnectRequest, RequestError> {
        let bytes = bytes.get(..REQUEST_LEN).ok_or(RequestError::Length)?;
        let field = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if field(0) != 0 {
            return Err(RequestError::Format);
        }
        let request = ConnectRequest {
            queue_id: field(2),
            host_receives: field(4),
            host_sends: field(6).checked_add(1).ok_or(RequestError::SendSize)?,
            controller: field(8),
        };
        if request.queue_id > IO_QUEUES_MAX {
            return Err(RequestError::QueueId);
        }
        if !(QUEUE_ENTRIES_MIN..=QUEUE_ENTRIES_MAX).contains(&request.host_sends) {
            return Err(RequestError::SendSize);
        }
        // The size is a number of entries, or one less: hosts differ.
        if request.host_receives < request.host_sends - 1 {
            return Err(RequestError::ReceiveSize);
        }
        Ok(request)
    }

    /// Returns the bytes.
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        let fields = [0, self.queue_id, self.host_receives, self.host_sends.saturating_sub(1), self.controller];
        for (to, field) in bytes.chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

/// Private data of an acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptData {
    /// Receives that the target posts.
    pub receives: u16,
}

impl AcceptData {
    /// Returns the bytes.
    pub fn to_bytes(self) -> [u8; ACCEPT_LEN] {
        let mut bytes = [0; ACCEPT_LEN];
        bytes[2..4].copy_from_slice(&self.receives.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux's host sends it for the admin queue: 32 receives, 32 sends less one.
    const LINUX_ADMIN: [u8; 10] = [0, 0, 0, 0, 32, 0, 31, 0, 0, 0];

    fn padded(fields: &[u8]) -> Vec<u8> {
        let mut bytes = fields.to_vec();
        bytes.resize(56, 0);
        bytes
    }

    #[test]
    fn linux_announces_an_admin_queue_of_32_entries() {
        let request = ConnectRequest { queue_id: 0, host_receives: 32, host_sends: 32, controller: 0 };
        assert_eq!(ConnectRequest::parse(&padded(&LINUX_ADMIN)), Ok(request));
        assert_eq!(request.to_bytes()[..10], LINUX_ADMIN);
        assert_eq!(AcceptData { receives: 0x0180 }.to_bytes()[..5], [0, 0, 0x80, 1, 0]);
    }

    #[test]
    fn each_field_is_checked() {
        let with = |at: usize, value: u16| {
            let mut bytes = padded(&LINUX_ADMIN);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
            ConnectRequest::parse(&bytes)
        };
        assert_eq!(ConnectRequest::parse(&LINUX_ADMIN), Err(RequestError::Length));
        assert_eq!(with(0, 1), Err(RequestError::Format));
        assert_eq!(with(2, IO_QUEUES_MAX + 1), Err(RequestError::QueueId));
        for size in [0, QUEUE_ENTRIES_MAX, 0xffff] {
            assert_eq!(with(6, size), Err(RequestError::SendSize), "{size}");
        }
        assert_eq!(with(4, 30), Err(RequestError::ReceiveSize));
        assert_eq!(RequestError::Resources.to_bytes(), [0, 0, 6, 0]);
        assert_eq!(RequestError::parse(&[0, 0, 6, 0, 0]), Some(RequestError::Resources));
        assert_eq!((RequestError::parse(&[0; 4]), RequestError::parse(&[])), (None, None));
    }
}
