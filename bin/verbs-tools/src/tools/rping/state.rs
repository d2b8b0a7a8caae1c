//! The states of a connection, with the numbers in the original's messages.

/// The last event of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
pub enum State {
    Idle = 1,
    ConnectRequest = 2,
    AddrResolved = 3,
    RouteResolved = 4,
    Connected = 5,
    ReadAdv = 6,
    ReadComplete = 7,
    WriteAdv = 8,
    WriteComplete = 9,
    Disconnected = 10,
    Error = 11,
}

impl State {
    /// Its number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Prints an error unless the state is `wanted`.
    pub fn expect(self, wanted: State) -> Result<(), i32> {
        let name = match wanted {
            State::Idle => "IDLE",
            State::ConnectRequest => "CONNECT_REQUEST",
            State::AddrResolved => "ADDR_RESOLVED",
            State::RouteResolved => "ROUTE_RESOLVED",
            State::Connected => "CONNECTED",
            State::ReadAdv => "RDMA_READ_ADV",
            State::ReadComplete => "RDMA_READ_COMPLETE",
            State::WriteAdv => "RDMA_WRITE_ADV",
            State::WriteComplete => "RDMA_WRITE_COMPLETE",
            State::Disconnected => "DISCONNECTED",
            State::Error => "ERROR",
        };
        if self == wanted {
            return Ok(());
        }
        crate::errln!("wait for {name} state {}", self.number());
        Err(-1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_guides() {
        // "wait for RDMA_READ_ADV state 10"
        assert_eq!(State::Disconnected.number(), 10);
        assert!(State::Connected < State::ReadAdv);
        assert_eq!(State::Disconnected.expect(State::ReadAdv), Err(-1));
    }
}
