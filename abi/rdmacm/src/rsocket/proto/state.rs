//! Where a stream stands between its creation and its end.
//!
//! ```text
//! Init -> Bound -> Listening
//!   \       \
//!    +-------+-> Opening (address, route, connection; or accepting) -> Connected -> Disconnected
//!                    \                                                     \
//!                     +-> Failed                                            +-> Broken
//! ```

use super::message::Control;

/// What is being waited for while a connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// The device and address by which the peer is reached.
    Address,
    /// The path to it.
    Route,
    /// Its answer.
    Answer,
    /// The last message of a connection that it asked for.
    Accepting,
}

/// The state of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Neither address nor peer.
    Init,
    /// It has an address.
    Bound,
    /// It takes connections.
    Listening,
    /// It is being connected.
    Opening(Opening),
    /// Connected; each direction may be shut.
    Connected {
        /// More may come.
        readable: bool,
        /// More may be sent.
        writable: bool,
    },
    /// It could not be connected.
    Failed,
    /// The connection was ended in good order by either side.
    Disconnected,
    /// The connection broke.
    Broken,
}

impl State {
    /// Connected with both directions open.
    pub const OPEN: State = State::Connected { readable: true, writable: true };

    /// The connection stands, in whichever direction.
    pub fn connected(self) -> bool {
        matches!(self, State::Connected { .. })
    }

    /// It is being connected.
    pub fn opening(self) -> bool {
        matches!(self, State::Opening(_))
    }

    /// More data may come.
    pub fn readable(self) -> bool {
        matches!(self, State::Connected { readable: true, .. })
    }

    /// Data may be sent.
    pub fn writable(self) -> bool {
        matches!(self, State::Connected { writable: true, .. })
    }

    /// The connection was there and is over.
    pub fn over(self) -> bool {
        matches!(self, State::Disconnected | State::Broken)
    }

    /// After a control message of the peer.
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

    /// After the program shut the direction `how`: the new state, and what the peer is to be told.
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

/// What is shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// What comes.
    Read,
    /// What goes.
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
