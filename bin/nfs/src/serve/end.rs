//! Reasons for which a connection ends.

use std::fmt;
use std::io;

use weft_rdma_service::Broken;
use weft_rpcrdma::PeerFault;
use weft_tool::errno;

/// Reason for the end of a connection.
#[derive(Debug)]
pub enum End {
    /// The client disconnected, or its connection broke: the event's name.
    Event(String),
    /// The queue pair no longer works.
    Broken(Broken),
    /// The client broke the protocol.
    Fault(PeerFault),
    /// No memory could be registered.
    Memory(io::Error),
    /// The connection to the backend broke.
    Backend(io::Error),
    /// The client made no calls for a long time.
    Idle,
    /// The server ends.
    Shutdown,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Event(name) => f.write_str(name),
            End::Broken(broken) => write!(f, "{broken}"),
            End::Fault(fault) => write!(f, "the client broke the protocol: {fault}"),
            End::Memory(error) => write!(
                f,
                "memory cannot be registered: {}; raise the limit of locked memory (ulimit -l), or lower --credits",
                errno::text(error)
            ),
            End::Backend(error) => write!(f, "the NFS server behind --backend: {}", errno::text(error)),
            End::Idle => f.write_str("idle"),
            End::Shutdown => f.write_str("the server ends"),
        }
    }
}

impl From<Broken> for End {
    fn from(broken: Broken) -> End {
        End::Broken(broken)
    }
}

impl From<PeerFault> for End {
    fn from(fault: PeerFault) -> End {
        End::Fault(fault)
    }
}
