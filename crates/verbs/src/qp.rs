//! Types and states of queue pairs.

/// `enum ibv_qp_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// Initiator side of an extended reliable connection.
    XrcSend = 9,
    /// Target side of an extended reliable connection.
    XrcRecv = 10,
}

impl QpType {
    /// Converts from the enum value.
    pub fn from_enum(value: u32) -> Option<QpType> {
        Some(match value {
            2 => QpType::Rc,
            3 => QpType::Uc,
            4 => QpType::Ud,
            9 => QpType::XrcSend,
            10 => QpType::XrcRecv,
            _ => return None,
        })
    }

    /// Whether the service acknowledges (RC and both halves of XRC).
    pub const fn is_reliable(self) -> bool {
        matches!(self, QpType::Rc | QpType::XrcSend | QpType::XrcRecv)
    }

    /// Whether the queue pair has a peer (everything but UD).
    pub const fn is_connected(self) -> bool {
        !matches!(self, QpType::Ud)
    }

    /// Whether work can be posted to a send queue.
    pub fn has_send_queue(self) -> bool {
        self != QpType::XrcRecv
    }

    /// Whether the queue pair has a receive queue of its own (or an SRQ in its place).
    pub fn has_recv_queue(self) -> bool {
        matches!(self, QpType::Rc | QpType::Uc | QpType::Ud)
    }
}

/// `enum ibv_qp_state`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum QpState {
    /// Newly created; nothing may be posted.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue drained: in-flight work finishes, new work waits.
    Sqd = 4,
    /// Send queue error (UC and UD): sends are flushed, receives continue.
    Sqe = 5,
    /// Error: all work is flushed.
    Err = 6,
}

impl QpState {
    /// Converts from the enum value.
    pub fn from_enum(value: u32) -> Option<QpState> {
        use QpState::*;
        [Reset, Init, Rtr, Rts, Sqd, Sqe, Err].get(value as usize).copied()
    }
}
