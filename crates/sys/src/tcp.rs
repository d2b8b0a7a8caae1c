//! TCP connections whose bytes lie in memory that is named by address: what a stream of RDMA needs of a socket.
//!
//! The calls bypass the C library, whose wrappers are cancellation points: a program's thread cancelled while it polls
//! would end in the middle of our work, with our locks held.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{SYS_recvfrom, SYS_recvmsg, SYS_sendmsg, SYS_sendto, c_int, c_long, c_void, msghdr, syscall};

use crate::sockopt;
pub use crate::vm::{PIECES_MAX, Piece};

/// Words of `struct tcp_info` up to `tcpi_snd_mss`, the last of them.
const INFO_WORDS: usize = 5;
/// Words of `struct tcp_info` up to `tcpi_rtt` in microseconds, the last of them.
const INFO_RTT_WORDS: usize = 18;
/// Words of SO_MEMINFO, and the places of the send buffer's limit and of its bytes.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_SNDBUF: usize = 3;
const MEMINFO_WMEM_QUEUED: usize = 5;

/// Prepares a connection: calls do not block, and small messages leave at once.
///
/// # Errors
/// It is no TCP socket.
pub fn prepare(fd: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    sockopt::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Sends bytes of at most [`PIECES_MAX`] pieces; returns how many TCP took. `ends_record`: TCP does not append later
/// bytes to the last buffer (MSG_EOR).
///
/// # Errors
/// `WouldBlock` if the send buffer is full; EFAULT if the first bytes lie in memory that is not mapped; the connection
/// is gone.
pub fn send(fd: impl AsFd, pieces: &[Piece], ends_record: bool) -> io::Result<usize> {
    let end = if ends_record { libc::MSG_EOR } else { 0 };
    let flags: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | end;
    let fd = fd.as_fd().as_raw_fd();
    loop {
        let count = match pieces {
            // A list of one costs the kernel as much again as a small message.
            [piece] => {
                let (at, none) = (address(piece), std::ptr::null::<c_void>());
                // SAFETY: there is no name; the kernel only reads the piece, and checks it (EFAULT).
                unsafe { syscall(SYS_sendto, fd, at, piece.len, flags, none, NO_NAME) }
            }
            _ => {
                let header = header(pieces);
                // SAFETY: there is no name and no control block; the kernel only reads the pieces, and checks them
                // (EFAULT).
                unsafe { syscall(SYS_sendmsg, fd, &raw const header, flags) }
            }
        };
        match done(count) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Receives into at most [`PIECES_MAX`] pieces; returns the number of bytes, 0 at the end of the stream.
///
/// # Errors
/// `WouldBlock` if no bytes wait; EFAULT if the first of them belong into memory that is not mapped; the connection is
/// gone.
///
/// # Safety
/// The pieces that are mapped may be written to.
pub unsafe fn receive(fd: impl AsFd, pieces: &[Piece]) -> io::Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    loop {
        let count = match pieces {
            [piece] => {
                let (at, none) = (address(piece), std::ptr::null::<c_void>());
                // SAFETY: there is no name; the caller vouches for the piece.
                unsafe { syscall(SYS_recvfrom, fd, at, piece.len, libc::MSG_DONTWAIT, none, none) }
            }
            _ => {
                let mut header = header(pieces);
                // SAFETY: there is no name and no control block; the caller vouches for the pieces.
                unsafe { syscall(SYS_recvmsg, fd, &raw mut header, libc::MSG_DONTWAIT) }
            }
        };
        match done(count) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Ends the direction to the peer, behind the bytes that TCP took.
pub fn shut_down(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, rustix::net::Shutdown::Write)?)
}

/// Returns the payload of the segments that TCP sends, in bytes.
pub fn segment(fd: impl AsFd) -> io::Result<u32> {
    let words: [u32; INFO_WORDS] = sockopt::words(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(words[INFO_WORDS - 1])
}

/// Returns TCP's smoothed round trip, zero before its first measurement.
pub fn round_trip(fd: impl AsFd) -> io::Result<Duration> {
    let words: [u32; INFO_RTT_WORDS] = sockopt::words(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(Duration::from_micros(words[INFO_RTT_WORDS - 1].into()))
}

/// Returns the free bytes of the send buffer.
pub fn send_room(fd: impl AsFd) -> io::Result<usize> {
    let words: [u32; MEMINFO_WORDS] = sockopt::words(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(words[MEMINFO_SNDBUF].saturating_sub(words[MEMINFO_WMEM_QUEUED]) as usize)
}

/// Returns the bytes that TCP has taken and the peer's TCP has not acknowledged.
pub fn unacknowledged(fd: impl AsFd) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: the call writes one int, for which there is a place.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Length of the name that no call gives.
const NO_NAME: c_long = 0;

fn address(piece: &Piece) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(piece.addr)
}

fn header(pieces: &[Piece]) -> msghdr {
    // SAFETY: msghdr is plain data; zero is a valid value for each field.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    header
}

fn done(count: c_long) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        prepare(&near).unwrap();
        [near, far]
    }

    fn piece(bytes: &[u8]) -> Piece {
        Piece { addr: bytes.as_ptr().expose_provenance(), len: bytes.len() }
    }

    #[test]
    fn pieces_are_sent_and_received_in_their_order() {
        let [near, far] = pair();
        assert!(segment(&near).unwrap() >= 536);
        assert!(send_room(&near).unwrap() > 0);
        let round_trip = round_trip(&near).unwrap();
        assert!((Duration::from_micros(1)..Duration::from_secs(1)).contains(&round_trip), "{round_trip:?}");
        assert_eq!(send(&far, &[piece(b"ab"), piece(b"cde")], true).unwrap(), 5);
        let (mut first, mut second) = ([0u8; 4], [0u8; 4]);
        let places = [
            Piece { addr: first.as_mut_ptr().expose_provenance(), len: 4 },
            Piece { addr: second.as_mut_ptr().expose_provenance(), len: 4 },
        ];
        // SAFETY: the two arrays are ours.
        assert_eq!(unsafe { receive(&near, &places) }.unwrap(), 5);
        assert_eq!((&first, second[0]), (b"abcd", b'e'));
        // SAFETY: as above.
        let error = unsafe { receive(&near, &places) }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        shut_down(&far).unwrap();
        while crate::epoll::wait_readable(&near, Duration::from_secs(5)).unwrap() {
            // SAFETY: as above.
            if unsafe { receive(&near, &places) }.unwrap() == 0 {
                assert!(unacknowledged(&near).is_ok_and(|bytes| bytes <= 1), "at most the end");
                return;
            }
        }
        panic!("no end of the stream");
    }

    #[test]
    fn memory_that_is_not_mapped_loses_no_bytes() {
        let [near, far] = pair();
        let nowhere = [Piece { addr: 4096, len: 2 }];
        assert_eq!(send(&far, &nowhere, false).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(send(&far, &[piece(b"xy")], false).unwrap(), 2);
        assert!(crate::epoll::wait_readable(&near, Duration::from_secs(5)).unwrap());
        // SAFETY: nothing is mapped there.
        let error = unsafe { receive(&near, &nowhere) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let mut got = [0u8; 2];
        let place = [Piece { addr: got.as_mut_ptr().expose_provenance(), len: 2 }];
        // SAFETY: the array is ours.
        assert_eq!(unsafe { receive(&near, &place) }.unwrap(), 2);
        assert_eq!(&got, b"xy");
    }
}
