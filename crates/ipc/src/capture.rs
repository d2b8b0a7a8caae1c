//! Captures of a running fabric: the daemon writes each packet into a socket, and drops what does not fit.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};
use weft_sys::unix::{self, Wait};

use crate::{CAPTURED_BYTES_MAX, Client, Request, RequestError, Response, decode};

/// One message of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Captured {
    /// A packet.
    Packet {
        /// Nanoseconds since the epoch.
        time_ns: u64,
        /// Whether the host sent it; else the host received it.
        sent: bool,
        /// The packet, LRH to VCRC.
        packet: Vec<u8>,
    },
    /// The daemon dropped this many packets here.
    Dropped(u64),
}

/// A capture that runs until it is dropped, or the fabric ends.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Capture {
    /// Takes the next message without sleeping; `None` if there is none now.
    ///
    /// # Errors
    /// [`RequestError::Disconnected`] after the last message of a fabric that ended.
    pub fn take(&mut self) -> Result<Option<Captured>, RequestError> {
        match unix::recv(&self.socket, &mut self.buffer, 0, Wait::No) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Ok(received) if received.len > 0 && !received.truncated => {
                let bytes = self.buffer.get(..received.len).ok_or(RequestError::Protocol)?;
                decode(bytes).map(Some).map_err(|_| RequestError::Protocol)
            }
            Ok(received) if received.truncated => Err(RequestError::Protocol),
            _ => Err(RequestError::Disconnected),
        }
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Client {
    /// Captures the packets that these hosts send and receive; all hosts if none are named.
    pub fn capture(&mut self, hosts: &[String]) -> Result<Capture, RequestError> {
        let (response, fds) = self.request_with_descriptors(Request::Capture { hosts: hosts.to_vec() }, 1)?;
        let (Response::Capture, [socket]) =
            (response, <[OwnedFd; 1]>::try_from(fds).map_err(|_| RequestError::Protocol)?)
        else {
            return Err(RequestError::Protocol);
        };
        Ok(Capture { socket, buffer: vec![0; CAPTURED_BYTES_MAX] })
    }

    /// Returns when the daemon has written to its captures what hosts sent and received before this call: it answers a
    /// request only after the turn of its loop that carried those packets, which ends with the captures.
    pub fn await_captured(&mut self) -> Result<(), RequestError> {
        self.request(Request::EthernetStatus).map(drop)
    }
}
