//! The TCP connection between client and server: messages with a timeout, synchronization points, and failure notices,
//! which overtake all other data as TCP urgent data.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::errno;

/// Time limit for the peer to read this side's failure notice, or to send the text of its own.
const ERROR_WITHIN: Duration = Duration::from_secs(3);
/// Maximum delay between the effects of a peer's failure and its notice.
const NEWS_WITHIN: Duration = Duration::from_secs(1);
/// Maximum bytes of a failure's text.
const ERROR_BYTES: usize = 256;
/// The urgent byte that precedes the text of a failure.
const FAILED: u8 = b'?';

/// Why a test ended early.
#[derive(Debug)]
pub enum Failure {
    /// A failure on this side.
    Ours(String),
    /// A failure on this side that the peer already knows.
    Told(String),
    /// A failure that the peer reported.
    Theirs(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Ours(text)
    }
}

/// The result of a step of a test.
pub type Result<T> = std::result::Result<T, Failure>;

/// A failure with the system's error text.
pub fn system(what: impl Into<String>, error: &io::Error) -> Failure {
    Failure::Ours(format!("{}: {}", what.into(), errno::text(error)))
}

/// The connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    /// Timeout of a message.
    pub timeout: Duration,
    /// The other side's role.
    peer: &'static str,
}

impl Control {
    /// `peer` is "server" or "client".
    pub fn new(stream: TcpStream, peer: &'static str, timeout: Duration) -> Control {
        Control { stream, timeout, peer }
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a message.
    pub fn send(&mut self, bytes: &[u8], item: &str) -> Result<()> {
        let _ = self.stream.set_write_timeout(Some(self.timeout.max(Duration::from_millis(1))));
        self.stream.write_all(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Failure::Ours(format!("failed to send {item}: timed out")),
            _ => self.told().unwrap_or_else(|| system(format!("failed to send {item}"), &e)),
        })
    }

    /// Receives a message of `N` bytes.
    pub fn recv<const N: usize>(&mut self, item: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let end = Instant::now() + self.timeout;
        let mut at = 0;
        while at < N {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Ours(format!("failed to receive {item}: timed out")));
            }
            // Polls instead of sleeping in a read, which would miss urgent data that arrives meanwhile.
            let ready = self.poll(libc::POLLIN | libc::POLLPRI, left);
            if ready & libc::POLLPRI != 0 {
                self.check()?;
            }
            if ready == 0 {
                continue;
            }
            match self.stream.read(&mut bytes[at..]) {
                Ok(0) => {
                    let gone = || format!("failed to receive {item}: {} not responding", self.peer).into();
                    return Err(self.told().unwrap_or_else(gone));
                }
                Ok(n) => at += n,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(self.told().unwrap_or_else(|| system(format!("failed to receive {item}"), &e))),
            }
        }
        Ok(bytes)
    }

    /// Sends a text that the peer waits for.
    pub fn send_sync(&mut self, text: &str) -> Result<()> {
        self.send(text.as_bytes(), text)
    }

    /// Waits for the peer's synchronization text.
    pub fn recv_sync<const N: usize>(&mut self, text: &[u8; N]) -> Result<()> {
        let item = String::from_utf8_lossy(text).into_owned();
        match self.recv::<N>(&item)? == *text {
            true => Ok(()),
            false => Err(Failure::Ours(format!("synchronize {item} failure: data does not match"))),
        }
    }

    /// Checks whether the peer has failed.
    pub fn check(&self) -> Result<()> {
        match self.is_urgent() {
            true => Err(self.told().unwrap_or_else(|| Failure::Theirs(format!("{} failure", self.peer)))),
            false => Ok(()),
        }
    }

    /// The peer's failure that caused `seen`, if the peer reports one soon: the notice may come after its effects,
    /// because they take different paths.
    pub fn cause_of(&self, seen: Failure) -> Failure {
        self.poll(libc::POLLPRI, NEWS_WITHIN);
        self.told().unwrap_or(seen)
    }

    fn is_urgent(&self) -> bool {
        self.poll(libc::POLLPRI, Duration::ZERO) & libc::POLLPRI != 0
    }

    /// The pending ones of `events`, after waiting no longer than `limit`.
    fn poll(&self, events: i16, limit: Duration) -> i16 {
        let mut entry = libc::pollfd { fd: self.stream.as_raw_fd(), events, revents: 0 };
        let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `entry` is valid for the call, which takes one entry.
        if unsafe { libc::poll(&mut entry, 1, limit) } == 1 { entry.revents } else { 0 }
    }

    /// The peer's failure, if it has reported one.
    fn told(&self) -> Option<Failure> {
        if !self.is_urgent() {
            return None;
        }
        let fd = self.stream.as_raw_fd();
        let mut mark = 0u8;
        // SAFETY: `mark` has room for the one byte that the call receives.
        let got = unsafe { libc::recv(fd, (&raw mut mark).cast(), 1, libc::MSG_OOB) };
        if got != 1 || mark != FAILED {
            return None;
        }
        let mut stream = &self.stream;
        let _ = stream.set_read_timeout(Some(ERROR_WITHIN));
        let mut bytes = [0; ERROR_BYTES];
        // Data before the mark belongs to the test.
        while !at_mark(fd) {
            if !matches!(stream.read(&mut bytes), Ok(n) if n > 0) {
                break;
            }
        }
        let mut text = Vec::new();
        let _ = stream.take(ERROR_BYTES as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        Some(Failure::Theirs(format!("{}: {text}", self.peer)))
    }

    /// Reports a failure of this side to the peer immediately, because its effects would look like another failure.
    pub fn told_now(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Ours(text) => {
                self.tell(&format!("{text}\n"));
                Failure::Told(text)
            }
            other => other,
        }
    }

    /// Reports a failure of this side to the peer, and waits until the peer has read it.
    pub fn tell(&self, text: &str) {
        let mark = [FAILED];
        // SAFETY: `mark` holds the one byte that the call sends.
        unsafe { libc::send(self.stream.as_raw_fd(), mark.as_ptr().cast(), 1, libc::MSG_OOB | libc::MSG_NOSIGNAL) };
        let mut stream = &self.stream;
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
        let (end, mut bytes) = (Instant::now() + ERROR_WITHIN, [0; ERROR_BYTES]);
        let _ = stream.set_read_timeout(Some(ERROR_WITHIN));
        while Instant::now() < end && matches!(stream.read(&mut bytes), Ok(n) if n > 0) {}
    }
}

/// Whether the read position is at the urgent mark.
fn at_mark(fd: i32) -> bool {
    /// `SIOCATMARK`.
    const SIOCATMARK: libc::c_ulong = 0x8905;
    let mut at = 0 as libc::c_int;
    // SAFETY: the request writes one integer, `at`.
    unsafe { libc::ioctl(fd, SIOCATMARK as _, &raw mut at) != 0 || at != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Control, Control) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let timeout = Duration::from_secs(2);
        (Control::new(client, "server", timeout), Control::new(server, "client", timeout))
    }

    #[test]
    fn a_failure_overtakes_what_was_sent_before() {
        let (mut client, server) = pair();
        let server = std::thread::spawn(move || {
            let mut server = server;
            server.send(b"half a mess", "message").unwrap();
            server.tell("out of luck\n");
        });
        let failure = client.recv::<100>("results").unwrap_err();
        drop(client);
        server.join().unwrap();
        assert!(matches!(failure, Failure::Theirs(text) if text == "server: out of luck"));
    }

    #[test]
    fn news_may_come_after_what_they_explain() {
        let (client, server) = pair();
        let client = std::thread::spawn(move || client.cause_of(Failure::Ours("rejected".to_owned())));
        server.tell("out of luck\n");
        assert!(matches!(client.join().unwrap(), Failure::Theirs(text) if text == "server: out of luck"));

        let (client, server) = pair();
        drop(server);
        let failure = client.cause_of(Failure::Ours("rejected".to_owned()));
        assert!(matches!(failure, Failure::Ours(text) if text == "rejected"));
    }

    #[test]
    fn both_meet() {
        let (mut client, mut server) = pair();
        client.send_sync("here").unwrap();
        server.recv_sync(b"here").unwrap();
        client.send_sync("hare").unwrap();
        assert!(server.recv_sync(b"here").is_err());
        drop(client);
        let gone = server.recv::<1>("results").unwrap_err();
        assert!(matches!(gone, Failure::Ours(text) if text == "failed to receive results: client not responding"));
    }
}
