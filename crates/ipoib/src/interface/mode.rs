//! Mode of an interface.

use weft_wire::ipoib::LinkAddress;

/// Mode of an interface, as in `/sys/class/net/ib0/mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Every packet is a datagram.
    #[default]
    Datagram,
    /// It accepts connections, and opens one to each neighbour that does.
    Connected,
}

impl Mode {
    /// Returns the flags of a link-layer address in this mode.
    pub fn flags(self) -> u8 {
        match self {
            Mode::Datagram => 0,
            Mode::Connected => LinkAddress::RC,
        }
    }
}
