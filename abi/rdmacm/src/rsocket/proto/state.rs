//! States of a stream between its creation and its end.
//!
//! ```text
//! Init -> Bound -> Listening
//!   \       \
//!    +-------+-> Opening (address, route, connection; or accepting) -> Connected -> Disconnected
//!                    \                                                     \
//!                     +-> Failed                                            +-> Broken
//! ```

use super::message::Control;

/// The step in progress while a connection is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// Resolution of the device and the peer's address.
    Address,
    /// Resolution of the path.
    Route,
    /// The peer's reply.
    Answer,
    /// The last message of a connection that the peer requested.
    Accepting,
}

/// The state of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Without address or peer.
    Init,
    /// Bound to an address.
    Bound,
    /// Listening for connections.
    Listening,
    /// Being connected.
    Opening(Opening),
    /// Connected; each direction may be shut.
    Connected {
        /// The peer may send more data.
        readable: bool,
        /// The program may send more data.
        writable: bool,
    },
    /// The connection attempt failed.
    Failed,
    /// Either side ended the connection in good order.
    Disconnected,
    /// The connection broke.
    Broken,
}

impl State {
    /// Connected with both directions open.
    pub const OPEN: State = State::Connected { readable: true, writable: true };

    /// Whether the stream is connected, in whichever direction.
    pub fn connected(self) -> bool {
        matches!(self, State::Connected { .. })
    }

    /// Whether the stream is being connected.
    pub fn opening(self) -> bool {
        matches!(self, State::Opening(_))
    }

    /// Whether more data may arrive.
    pub fn readable(self) -> bool {
        matches!(self, State::Connected { readable: true, .. })
    }

    /// Whether data may be sent.
    pub fn writable(self) -> bool {
        matches!(self, State::Connected { writable: true, .. })
    }

    /// Whether the stream was connected and no longer is.
    pub fn over(self) -> bool {
        matches!(self, State::Disconnected | State::Broken)
    }

    /// Returns the state after a control message of the peer.
    pub fn on_control(self, control: Control) -> State {
        match (self, control) {
            (State::Connected { .. }, Control::Disconnect) => State::Disconnected,
            (State::Connected { writable: true, .. }, Control::Shutdown) => {
                State::Connected { readable: false, writable: true }
            }
            (State::Connected { .. }, Control::Shutdown) => State::Disconnected,
            (state, _) => state,
        }
    }

    /// Returns the state after the program shut the direction `how`, and the control message for the peer.
    pub fn on_shutdown(self, how: Direction) -> (State, Option<Control>) {
        let State::Connected { readable, writable } = self else { return (self, None) };
        let (readable, writable) = match how {
            Direction::Read => (false, writable),
            Direction::Write => (readable, false),
            Direction::Both => (false, false),
        };
        let told = match (how, readable, writable) {
            (Direction::Read, _, true) => None,
            (Direction::Write, true, _) => Some(Control::Shutdown),
            _ => Some(Control::Disconnect),
        };
        (State::Connected { readable, writable }, told)
    }
}

/// A direction to shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Receiving.
    Read,
    /// Sending.
    Write,
    /// Everything.
    Both,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_READ: State = State::Connected { readable: true, writable: false };
    const HALF_WRITE: State = State::Connected { readable: false, writable: true };
    const SHUT: State = State::Connected { readable: false, writable: false };

    #[test]
    fn every_state_times_every_control_message() {
        let connected = [
            (State::OPEN, [State::Disconnected, State::OPEN, HALF_WRITE]),
            (HALF_READ, [State::Disconnected, HALF_READ, State::Disconnected]),
            (HALF_WRITE, [State::Disconnected, HALF_WRITE, HALF_WRITE]),
            (SHUT, [State::Disconnected, SHUT, State::Disconnected]),
        ];
        for (state, after) in connected {
            for (control, after) in [Control::Disconnect, Control::KeepAlive, Control::Shutdown].into_iter().zip(after)
            {
                assert_eq!(state.on_control(control), after, "{state:?} {control:?}");
            }
        }
        let others = [State::Init, State::Bound, State::Listening, State::Failed, State::Disconnected, State::Broken];
        for state in others.into_iter().chain([State::Opening(Opening::Address)]) {
            for control in [Control::Disconnect, Control::KeepAlive, Control::Shutdown] {
                assert_eq!(state.on_control(control), state);
            }
        }
    }

    #[test]
    fn every_state_times_every_shutdown() {
        let cases = [
            (State::OPEN, Direction::Read, HALF_WRITE, None),
            (State::OPEN, Direction::Write, HALF_READ, Some(Control::Shutdown)),
            (State::OPEN, Direction::Both, SHUT, Some(Control::Disconnect)),
            (HALF_READ, Direction::Read, SHUT, Some(Control::Disconnect)),
            (HALF_READ, Direction::Both, SHUT, Some(Control::Disconnect)),
            (HALF_WRITE, Direction::Write, SHUT, Some(Control::Disconnect)),
            (HALF_WRITE, Direction::Both, SHUT, Some(Control::Disconnect)),
            (State::Disconnected, Direction::Both, State::Disconnected, None),
            (State::Init, Direction::Both, State::Init, None),
        ];
        for (state, how, after, told) in cases {
            assert_eq!(state.on_shutdown(how), (after, told), "{state:?} {how:?}");
        }
    }
}
