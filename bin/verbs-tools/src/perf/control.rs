//! The control protocol of client and server over TCP: one JSON value a line; the client sends requests, the server
//! answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Case;

/// Longest line: one with the numbers of all queue pairs.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// Answer timeout, beyond the duration of the case.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Version of the protocol; changes with every change of a message.
pub const VERSION: u32 = 1;

/// One side's queue pairs and memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// LID (InfiniBand).
    pub lid: u16,
    /// GID.
    pub gid: [u8; 16],
    /// Queue pair numbers.
    pub qpns: Vec<u32>,
    /// First PSN of all queue pairs.
    pub psn: u32,
    /// Address of the memory that the peer may access.
    pub addr: u64,
    /// R_Key of that memory.
    pub rkey: u32,
    /// Largest path MTU that the port allows, as `enum ibv_mtu`.
    pub mtu: u32,
}

/// A request from the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Prepare for a case.
    Prepare {
        /// Protocol [`VERSION`].
        version: u32,
        /// The case.
        case: Case,
        /// The client's queue pairs and memory.
        client: Address,
    },
    /// The case is over.
    Stop {
        /// Number of messages sent.
        sent: u64,
    },
}

/// The server's answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The server is ready, with these queue pairs and memory.
    Ready(Address),
    /// The server's own measurements of the case.
    Seen {
        /// Number of messages received.
        received: u64,
        /// Nanoseconds between the first and the last message.
        nanoseconds: u64,
    },
    /// The server cannot run the case, with the reason.
    Failed(String),
}

/// One end of the control connection.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Wraps a TCP connection.
    pub fn new(stream: TcpStream) -> io::Result<Control> {
        stream.set_nodelay(true)?;
        Ok(Control { reader: BufReader::new(stream) })
    }

    /// Limits the wait for an answer to the duration of a case plus a margin.
    pub fn expect_within(&self, seconds: f64) -> io::Result<()> {
        let timeout = Duration::from_secs_f64(seconds) + ANSWER_TIMEOUT;
        self.reader.get_ref().set_read_timeout(Some(timeout))
    }

    /// Sends a message.
    pub fn say<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Receives a message; `None` if the peer has closed the connection.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Whether a message can be received without waiting, or the peer has closed the connection.
    pub fn has_news(&self) -> bool {
        if !self.reader.buffer().is_empty() {
            return true;
        }
        let stream = self.reader.get_ref();
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let peeked = stream.peek(&mut [0]);
        let _ = stream.set_nonblocking(false);
        !matches!(peeked, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn lines_go_through_and_garbage_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut control = Control::new(listener.accept().unwrap().0).unwrap();
        assert!(!control.has_news());
        out.write_all(b"{\"Stop\":{\"sent\":3}}\nnonsense\n").unwrap();
        assert_eq!(control.hear::<Ask>().unwrap(), Some(Ask::Stop { sent: 3 }));
        assert!(control.has_news());
        assert!(control.hear::<Ask>().is_err());
        drop(out);
        assert_eq!(control.hear::<Ask>().unwrap(), None);
    }
}
