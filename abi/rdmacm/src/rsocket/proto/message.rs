//! Immediate data of messages: three bits of operation, 29 of value, which announce the message to the receiver.

/// Operation numbers, in the upper three bits.
mod op {
    pub const DATA: u32 = 0;
    pub const SGL: u32 = 4;
    pub const IOMAP_SGL: u32 = 6;
    pub const CTRL: u32 = 7;
}

const VALUE_BITS: u32 = 29;
const VALUE_MASK: u32 = (1 << VALUE_BITS) - 1;

/// A message of one stream to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// This many bytes were written into the receive buffer.
    Data(u32),
    /// The receiver of this message may send up to this sequence number; the target SGL may have a new entry.
    Credits(u16),
    /// The entry of this index of the I/O map was written.
    IoMap(u16),
    /// A message about the connection.
    Control(Control),
    /// A message that this version of the protocol does not define; it is ignored.
    Unknown(u32),
}

/// Content of a control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// The sender sends no more data, and accepts none.
    Disconnect,
    /// The sender is alive.
    KeepAlive,
    /// The sender sends no more data, but still accepts some.
    Shutdown,
}

impl Control {
    /// Returns the number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Control::Disconnect => 0,
            Control::KeepAlive => 1,
            Control::Shutdown => 2,
        }
    }
}

impl Message {
    /// Encodes the immediate, in host order.
    pub fn encode(self) -> u32 {
        let (op, value) = match self {
            Message::Data(length) => (op::DATA, length),
            Message::Credits(limit) => (op::SGL, limit.into()),
            Message::IoMap(index) => (op::IOMAP_SGL, index.into()),
            Message::Control(control) => (op::CTRL, control.number()),
            Message::Unknown(immediate) => return immediate,
        };
        op << VALUE_BITS | value & VALUE_MASK
    }

    /// Decodes an immediate in host order. Sequence numbers and indices count modulo 2^16; the bits above are ignored.
    pub fn decode(immediate: u32) -> Message {
        let value = immediate & VALUE_MASK;
        match immediate >> VALUE_BITS {
            op::DATA => Message::Data(value),
            op::SGL => Message::Credits(value as u16),
            op::IOMAP_SGL => Message::IoMap(value as u16),
            op::CTRL => match value {
                0 => Message::Control(Control::Disconnect),
                1 => Message::Control(Control::KeepAlive),
                2 => Message::Control(Control::Shutdown),
                _ => Message::Unknown(immediate),
            },
            _ => Message::Unknown(immediate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        for message in [
            Message::Data(0),
            Message::Data(65536),
            Message::Credits(0xffff),
            Message::IoMap(127),
            Message::Control(Control::Disconnect),
            Message::Control(Control::KeepAlive),
            Message::Control(Control::Shutdown),
        ] {
            assert_eq!(Message::decode(message.encode()), message);
        }
    }

    #[test]
    fn the_numbers_are_those_of_linux_peers() {
        assert_eq!(Message::Data(5).encode(), 5);
        assert_eq!(Message::Credits(384).encode(), 0x8000_0180);
        assert_eq!(Message::IoMap(1).encode(), 0xc000_0001);
        assert_eq!(Message::Control(Control::Disconnect).encode(), 0xe000_0000);
        assert_eq!(Message::Control(Control::Shutdown).encode(), 0xe000_0002);
    }

    #[test]
    fn the_undefined_means_nothing() {
        for immediate in [0x2000_0001, 0x4000_0001, 0x6000_0000, 0xa000_0000, 0xe000_0003, 0xffff_ffff] {
            assert_eq!(Message::decode(immediate), Message::Unknown(immediate));
        }
    }

    #[test]
    fn a_credit_counts_modulo_two_to_the_sixteen() {
        // A peer that adds its queue's size to a 16-bit counter may send the carry as well.
        assert_eq!(Message::decode(0x8001_0003), Message::Credits(3));
    }
}
