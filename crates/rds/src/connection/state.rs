//! States of a connection.
//!
//! ```text
//!            Wanted               Established
//!   Down ------------> Connecting ----------> Up
//!    ^  \                ^     \  Lost        / \
//!    |   \ Accepted      |      v            /   \ Ended
//!    |    \      Elapsed +--- Waiting <-----+     v
//!    |     v                     |     Lost       Down
//!    |   Accepting <-------------+
//!    |     | Established         Accepted
//!    +-----+---> Up
//! ```

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ConnectionState {
    /// There is no queue pair, and no need for one.
    Down,
    /// This end's request is under way.
    Connecting,
    /// The peer's request is accepted.
    Accepting,
    /// Frames pass.
    Up,
    /// The connection was lost; a timer runs until this end connects again.
    Waiting,
}

/// Input of the table of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionInput {
    /// There is a message to send.
    Wanted,
    /// The peer's request is accepted; it replaces another queue pair.
    Accepted,
    /// The connection manager says that the connection is made.
    Established,
    /// The queue pair is lost, or the attempt failed, and messages wait.
    Lost,
    /// The same without messages.
    Ended,
    /// The timer has run out.
    Elapsed,
}

impl ConnectionState {
    /// All states.
    pub const ALL: [ConnectionState; 5] = [Self::Down, Self::Connecting, Self::Accepting, Self::Up, Self::Waiting];

    /// Returns the next state; `None`: the input has no meaning in this one.
    pub fn next(self, input: ConnectionInput) -> Option<ConnectionState> {
        use ConnectionInput as Input;
        Some(match (self, input) {
            (_, Input::Accepted) => Self::Accepting,
            (Self::Down, Input::Wanted) | (Self::Waiting, Input::Elapsed) => Self::Connecting,
            (Self::Connecting | Self::Accepting, Input::Established) => Self::Up,
            (Self::Connecting | Self::Accepting | Self::Up, Input::Lost) => Self::Waiting,
            (Self::Connecting | Self::Accepting | Self::Up | Self::Waiting, Input::Ended) => Self::Down,
            _ => return None,
        })
    }
}

impl ConnectionInput {
    /// All inputs.
    pub const ALL: [ConnectionInput; 6] =
        [Self::Wanted, Self::Accepted, Self::Established, Self::Lost, Self::Ended, Self::Elapsed];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let mut table = String::new();
        for state in ConnectionState::ALL {
            for input in ConnectionInput::ALL {
                if let Some(next) = state.next(input) {
                    table += &format!("{state:?} {input:?} {next:?}\n");
                }
            }
        }
        let expected = "Down Wanted Connecting\nDown Accepted Accepting\n\
            Connecting Accepted Accepting\nConnecting Established Up\nConnecting Lost Waiting\nConnecting Ended Down\n\
            Accepting Accepted Accepting\nAccepting Established Up\nAccepting Lost Waiting\nAccepting Ended Down\n\
            Up Accepted Accepting\nUp Lost Waiting\nUp Ended Down\n\
            Waiting Accepted Accepting\nWaiting Ended Down\nWaiting Elapsed Connecting\n";
        assert_eq!(table, expected);
    }
}
