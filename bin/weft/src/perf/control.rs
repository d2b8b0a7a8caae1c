//! What client and server say to each other over TCP: one JSON value a line, the client asks, the server answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Case;

/// Longest line: addresses of all queue pairs.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// How long an answer may take beyond the run itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Changes whenever a message does.
pub const VERSION: u32 = 1;

/// One side's queue pairs and memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// LID (InfiniBand).
    pub lid: u16,
    /// GID.
    pub gid: [u8; 16],
    /// Numbers of the queue pairs.
    pub qpns: Vec<u32>,
    /// First PSN of all of them.
    pub psn: u32,
    /// Memory that the peer may use.
    pub addr: u64,
    /// Its key.
    pub rkey: u32,
    /// Path MTU that the port allows, as `enum ibv_mtu`.
    pub mtu: u32,
}

/// What the client asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Get ready for a case.
    Prepare {
        /// [`VERSION`].
        version: u32,
        /// The case.
        case: Case,
        /// The client's side.
        client: Address,
    },
    /// The case is over.
    Stop {
        /// Messages sent.
        sent: u64,
    },
}

/// What the server answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is ready.
    Ready(Address),
    /// What it saw of the case.
    Seen {
        /// Messages received.
        received: u64,
        /// Nanoseconds between the first and the last of them.
        nanoseconds: u64,
    },
    /// It cannot do that.
    Failed(String),
}

/// One end of the conversation.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Talks over `stream`.
    pub fn new(stream: TcpStream) -> io::Result<Control> {
        stream.set_nodelay(true)?;
        Ok(Control { reader: BufReader::new(stream) })
    }

    /// Bounds the wait for an answer: the run and a little more.
    pub fn expect_within(&self, seconds: f64) -> io::Result<()> {
        let timeout = Duration::from_secs_f64(seconds) + ANSWER_TIMEOUT;
        self.reader.get_ref().set_read_timeout(Some(timeout))
    }

    /// Says something.
    pub fn say<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Hears something; `None` once the other side has hung up.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Whether the other side has said something that can be heard without waiting, or has hung up.
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
