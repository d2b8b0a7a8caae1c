//! A Unix stream socket that gets a trace's lines while they are new: `weft fault run` reads the events of programs from
//! it. A reader that is gone, or that reads nothing, does not keep the program.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with};
use weft_verbs::Duration;

use crate::clock;

/// Time in which the reader makes room for lines. A reader that takes longer is stopped.
const ROOM_WITHIN: Duration = Duration::from_secs(1);

/// A connection to a reader. Each process has its own, so lines of several processes never mix.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Connects to the reader that listens at a path.
    pub fn connect(path: &str) -> io::Result<Socket> {
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The limit concerns connect, too, which waits while the listener's queue is full.
        set_socket_timeout(&fd, Timeout::Send, Some(ROOM_WITHIN))?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Socket(fd))
    }

    /// Sends lines, without SIGPIPE.
    ///
    /// # Errors
    /// `BrokenPipe` or `ConnectionReset`: the reader is gone. `WouldBlock`: it reads nothing.
    pub fn write(&self, mut lines: &[u8]) -> io::Result<()> {
        let mut since = clock::now();
        while !lines.is_empty() {
            match send(&self.0, lines, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    lines = lines.get(count..).unwrap_or_default();
                    since = clock::now();
                }
                // A timer of the program may interrupt each call.
                Err(Errno::INTR) if clock::now().since(since) < ROOM_WITHIN => {}
                Err(Errno::INTR) => return Err(Errno::AGAIN.into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_send_buffer_size;
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    fn pair(name: &str) -> (UnixListener, Socket) {
        let path = std::env::temp_dir().join(format!("weft-trace-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let socket = Socket::connect(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        (listener, socket)
    }

    #[test]
    fn lines_arrive_and_a_reader_that_is_gone_is_an_error() {
        let (listener, socket) = pair("gone");
        let (mut reader, _) = listener.accept().unwrap();
        socket.write(b"a line\n").unwrap();
        let mut text = [0; 7];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"a line\n");
        drop((reader, listener));
        assert_eq!(socket.write(b"a line\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_reads_nothing_ends_the_trace() {
        let (_listener, socket) = pair("stopped");
        // The kernel takes twice this much; its default may be more than the lines.
        set_socket_send_buffer_size(&socket.0, 64 << 10).unwrap();
        let lines = vec![b'\n'; 1 << 20];
        assert_eq!(socket.write(&lines).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
