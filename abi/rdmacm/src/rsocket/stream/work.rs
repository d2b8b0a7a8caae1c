//! The purpose of a completion, encoded in the 64 bits of a work request ID.

use crate::rsocket::proto::message::Control;

/// A stream's work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A receive.
    Receive,
    /// Data; its completion frees this many bytes of the send buffer.
    Data(u32),
    /// An entry of the peer's I/O map; likewise.
    IoMap(u32),
    /// Credits for the peer.
    Credits,
    /// A control message.
    Control(Control),
    /// A write whose message follows in a request of its own, which counts for both.
    Placed,
}

const KIND_SHIFT: u32 = 32;

impl Work {
    /// Encodes as a `wr_id`.
    pub(crate) fn id(self) -> u64 {
        let (kind, value) = match self {
            Work::Receive => (0, 0),
            Work::Data(bytes) => (1, bytes),
            Work::IoMap(bytes) => (2, bytes),
            Work::Credits => (3, 0),
            Work::Control(control) => (4, control.number()),
            Work::Placed => (5, 0),
        };
        kind << KIND_SHIFT | u64::from(value)
    }

    /// Decodes one of our own `wr_id`s.
    pub(crate) fn of(id: u64) -> Work {
        let value = id as u32;
        match id >> KIND_SHIFT {
            0 => Work::Receive,
            1 => Work::Data(value),
            2 => Work::IoMap(value),
            3 => Work::Credits,
            5 => Work::Placed,
            _ => Work::Control(match value {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                _ => Control::Shutdown,
            }),
        }
    }
}
