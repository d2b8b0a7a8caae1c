//! Reasons for which a client's connection to its server ends.

use std::fmt;
use std::io;

use weft_rdma_service::Broken;
use weft_rpcrdma::PeerFault;
use weft_tool::errno;

/// Reason for the end of a connection.
#[derive(Debug)]
pub enum Lost {
    /// The connection cannot be made, the server disconnected, or the connection broke: the event's name.
    Event(String),
    /// A call of the connection manager, or a registration, failed.
    Call(io::Error),
    /// The queue pair no longer works.
    Broken(Broken),
    /// The server broke the protocol.
    Fault(PeerFault),
    /// The server broke the protocol: its reply does not match the memory that it wrote.
    Reply,
    /// The server did not answer in time.
    Timeout,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Event(name) => f.write_str(name),
            Lost::Call(error) => f.write_str(&errno::text(error)),
            Lost::Broken(broken) => write!(f, "{broken}"),
            Lost::Fault(fault) => write!(f, "the server broke the protocol: {fault}"),
            Lost::Reply => f.write_str("the server broke the protocol: a reply does not match its chunks"),
            Lost::Timeout => f.write_str("no answer in time"),
        }
    }
}

impl From<Broken> for Lost {
    fn from(broken: Broken) -> Lost {
        Lost::Broken(broken)
    }
}

impl From<PeerFault> for Lost {
    fn from(fault: PeerFault) -> Lost {
        Lost::Fault(fault)
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::Call(error)
    }
}
