//! Connection to an RPC server over TCP, which never blocks.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use weft_client::verbs::Buffer;
use weft_sys::epoll::Interest;

use super::record::{RecordReader, record_mark};

/// Bytes read from the socket by one call.
const READ_BYTES: usize = 256 << 10;
/// Reads in one turn, so that one backend does not keep the others waiting.
const READS_PER_TURN: usize = 8;
/// Privileged ports, from which servers demand connections unless an export is `insecure`.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;
/// Time after which the kernel gives up a silent connection with unacknowledged data.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Message of a record to send.
#[derive(Debug)]
pub enum Outgoing {
    /// Bytes.
    Bytes(Vec<u8>),
    /// So many bytes of registered memory.
    Registered(Buffer, usize),
}

impl Outgoing {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Outgoing::Bytes(bytes) => bytes.len(),
            Outgoing::Registered(_, len) => *len,
        }
    }
}

/// Connection over TCP with records in both directions.
#[derive(Debug)]
pub struct RecordStream {
    socket: TcpStream,
    is_connected: bool,
    reader: RecordReader,
    /// Records that are not sent yet; of the first, `sent` bytes with the header are.
    outgoing: VecDeque<Outgoing>,
    sent: usize,
    scratch: Vec<u8>,
}

impl RecordStream {
    /// Begins to connect, from a privileged port if that is allowed.
    pub fn connect(to: SocketAddr, record_max: usize) -> io::Result<RecordStream> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        bind_reserved(&socket, to);
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_user_timeout(&socket, SILENT_FOR.as_millis() as u32)?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(RecordStream::over(TcpStream::from(socket), record_max, false))
    }

    /// Wraps a connection of a client.
    pub fn accepted(socket: TcpStream, record_max: usize) -> io::Result<RecordStream> {
        socket.set_nonblocking(true)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(RecordStream::over(socket, record_max, true))
    }

    fn over(socket: TcpStream, record_max: usize, is_connected: bool) -> RecordStream {
        RecordStream {
            socket,
            is_connected,
            reader: RecordReader::new(record_max),
            outgoing: VecDeque::new(),
            sent: 0,
            scratch: vec![0; READ_BYTES],
        }
    }

    /// Returns the events to wait for.
    pub fn interest(&self) -> Interest {
        if self.is_connected && self.outgoing.is_empty() { Interest::READ } else { Interest::BOTH }
    }

    /// Whether the connection is established.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Notes that the socket became writable while it connects.
    pub fn finish_connecting(&mut self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => {
                self.is_connected = self.socket.peer_addr().is_ok();
                Ok(())
            }
        }
    }

    /// Sends a record, as far as the socket takes it. Returns the messages that are sent.
    pub fn send(&mut self, message: Outgoing, done: &mut Vec<Outgoing>) -> io::Result<()> {
        self.outgoing.push_back(message);
        if self.outgoing.len() == 1 { self.flush(done) } else { Ok(()) }
    }

    /// Goes on sending. Appends the messages that are sent.
    pub fn flush(&mut self, done: &mut Vec<Outgoing>) -> io::Result<()> {
        while let Some(message) = self.outgoing.front() {
            let mark = record_mark(message.len());
            let total = mark.len() + message.len();
            let count = match (mark.get(self.sent..), message) {
                (Some(left @ [_, ..]), _) => (&self.socket).write(left),
                (_, Outgoing::Bytes(bytes)) => {
                    (&self.socket).write(bytes.get(self.sent - mark.len()..).unwrap_or_default())
                }
                (_, Outgoing::Registered(buffer, len)) => {
                    let at = self.sent - mark.len();
                    buffer.memory().send(&self.socket, at, len - at)
                }
            };
            match count {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.sent >= total {
                self.sent = 0;
                done.extend(self.outgoing.pop_front());
            }
        }
        Ok(())
    }

    /// Receives records.
    ///
    /// # Errors
    /// The stream ended (`UnexpectedEof`) or broke, or a record is too long.
    pub fn receive(&mut self, records: &mut Vec<Vec<u8>>) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            match (&self.socket).read(&mut self.scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let bytes = self.scratch.get(..count).unwrap_or_default();
                    let pushed = self.reader.push(bytes, |record| records.push(record));
                    pushed.map_err(|_| io::Error::other("a record is longer than any NFS message"))?;
                    if count < self.scratch.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for RecordStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds to a free privileged port, the highest first; without the right to, the kernel chooses a port.
fn bind_reserved(socket: &OwnedFd, to: SocketAddr) {
    for port in RESERVED_PORTS.rev() {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, port).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, port).into(),
        };
        match rustix::net::bind(socket, &any) {
            Err(rustix::io::Errno::ADDRINUSE) => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn records_go_out_and_come_back() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream = RecordStream::connect(listener.local_addr().expect("bound"), 100).expect("connects");
        let (mut peer, _) = listener.accept().expect("a connection");
        weft_sys::epoll::readable([stream.as_fd()]);
        stream.finish_connecting().expect("connected");
        assert!(stream.is_connected());
        let mut done = Vec::new();
        stream.send(Outgoing::Bytes(b"call".to_vec()), &mut done).expect("sent");
        assert!(matches!(&done[..], [Outgoing::Bytes(bytes)] if bytes == b"call"));
        let mut record = [0; 8];
        peer.read_exact(&mut record).expect("a record");
        assert_eq!(&record, b"\x80\0\0\x04call");
        peer.write_all(b"\x80\0\0\x05reply").expect("written");
        weft_sys::epoll::wait_readable(&stream, Duration::from_secs(10)).expect("readable");
        let mut records = Vec::new();
        stream.receive(&mut records).expect("a record");
        assert_eq!(records, [b"reply"]);
        drop(peer);
        weft_sys::epoll::wait_readable(&stream, Duration::from_secs(10)).expect("readable");
        assert_eq!(stream.receive(&mut records).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
