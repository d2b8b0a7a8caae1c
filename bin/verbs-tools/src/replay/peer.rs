//! The peer of a replay, as the user names it.

use weft_replay::{Connection, Role};

use super::args::{Exchange, ReplayArgs};
use crate::pingpong::{Dest, Message as _};

/// Port of librdmacm's tools.
const MANAGER_PORT: u16 = 7471;
/// TCP port of the pingpongs.
const PINGPONG_PORT: u16 = 18515;

/// The peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A host that listens with the connection manager.
    Host {
        /// Name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A peer that will connect with the connection manager.
    Listen {
        /// The port to listen on.
        port: u16,
    },
    /// A pingpong's server.
    Pingpong {
        /// Name or address.
        host: String,
        /// Its TCP port.
        port: u16,
    },
    /// A queue pair.
    QueuePair(Dest),
    /// A queue pair that standard input names.
    Input,
}

impl Peer {
    /// Reads the peer of a command line.
    pub fn of(args: &ReplayArgs) -> Result<Peer, String> {
        let text = match (&args.peer, args.listen) {
            (Some(text), false) => text.clone(),
            (None, true) if args.exchange.is_some() => {
                return Err("--listen is for the connection manager; --exchange is a client's".to_owned());
            }
            _ => return Ok(Peer::Listen { port: args.port.unwrap_or(MANAGER_PORT) }),
        };
        Ok(match args.exchange {
            Some(Exchange::Pingpong) => Peer::Pingpong { host: text, port: args.port.unwrap_or(PINGPONG_PORT) },
            None if text == "-" => Peer::Input,
            None => match Dest::decode(&text) {
                Some(dest) => Peer::QueuePair(dest),
                None => Peer::Host { host: text, port: args.port.unwrap_or(MANAGER_PORT) },
            },
        })
    }

    /// Checks that the peer can be reached as the recorded one was.
    ///
    /// # Errors
    /// The sentence to print.
    pub fn suits(&self, connection: Connection) -> Result<(), String> {
        let wanted = match (connection, self) {
            (Connection::Manager(Role::Active), Peer::Host { .. })
            | (Connection::Manager(Role::Passive), Peer::Listen { .. })
            | (Connection::Exchange, Peer::Pingpong { .. } | Peer::QueuePair(_) | Peer::Input) => return Ok(()),
            (Connection::Manager(Role::Active), _) => {
                "the recorded program connected by the RDMA connection manager: give the peer's host"
            }
            (Connection::Manager(Role::Passive), _) => {
                "the recorded program listened with the RDMA connection manager: give --listen in place of a peer"
            }
            (Connection::Exchange, _) => {
                "the recorded program exchanged addresses in a way of its own, which is not recorded: give the peer's queue \
                 pair as LID:QPN:PSN:GID, - to read it from standard input, or --exchange pingpong HOST"
            }
        };
        Err(wanted.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReplayArgs,
    }

    fn peer(words: &str) -> Result<Peer, String> {
        let words = ["replay", "file"].into_iter().chain(words.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Peer::of(&line.args)
    }

    #[test]
    fn a_peer_is_a_host_a_queue_pair_or_to_come() {
        let host = "10.0.0.1".to_owned();
        assert_eq!(peer("10.0.0.1"), Ok(Peer::Host { host: host.clone(), port: 7471 }));
        assert_eq!(peer("--exchange pingpong 10.0.0.1 -p 5"), Ok(Peer::Pingpong { host, port: 5 }));
        assert_eq!((peer("-"), peer("--listen -p 9")), (Ok(Peer::Input), Ok(Peer::Listen { port: 9 })));
        let text = "0000:000014:c76c9f:00000000000000000000ffff0a4d0001";
        assert!(matches!(peer(text), Ok(Peer::QueuePair(Dest { qpn: 0x14, psn: 0xc7_6c9f, .. }))));
        assert!(
            peer("").is_err() && peer("--listen 10.0.0.1").is_err() && peer("--listen --exchange pingpong").is_err()
        );
    }

    #[test]
    fn a_peer_must_suit_the_recorded_connection() {
        let (active, passive) = (Connection::Manager(Role::Active), Connection::Manager(Role::Passive));
        let host = peer("10.0.0.1").unwrap();
        assert!(host.suits(active).is_ok());
        assert!(host.suits(passive).unwrap_err().contains("--listen"));
        assert!(host.suits(Connection::Exchange).unwrap_err().contains("--exchange pingpong HOST"));
        assert!(Peer::Input.suits(active).is_err() && Peer::Input.suits(Connection::Exchange).is_ok());
    }
}
