//! Socket pairs that carry a stream of small messages to a program. The program polls its end, reads it directly and
//! may make it non-blocking. The writer keeps a duplicate of the program's end, to take back unread messages.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

/// Send buffer of the writer's end: the kernel's minimum, a handful of messages. Further messages wait at the writer.
const SEND_BUFFER_BYTES: usize = 1 << 10;

/// Creates a pair: the reader's end, which blocks, and the writer's end.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = crate::unix::pair()?;
    rustix::net::sockopt::set_socket_send_buffer_size(&writer, SEND_BUFFER_BYTES)?;
    Ok((reader, writer))
}

/// Writes a message without sleeping; `WouldBlock` if there is no room.
pub fn send(writer: impl AsFd, message: &[u8]) -> io::Result<()> {
    loop {
        match rustix::net::send(&writer, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => continue,
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Reads the next message; 0 is the end. Sleeps unless the descriptor is in non-blocking mode. A signal whose handler
/// lacks SA_RESTART ends it with `Interrupted`, as it ends a read(2).
pub fn receive(reader: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(reader, buffer, RecvFlags::empty())?.0)
}

/// Takes back the oldest unread message; `None` if there is none.
pub fn take_back(reader: impl AsFd, buffer: &mut [u8]) -> Option<usize> {
    rustix::net::recv(reader, buffer, RecvFlags::DONTWAIT).ok().map(|(length, _)| length).filter(|length| *length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_channel_says_so_and_gives_back_what_was_not_read() {
        let (reader, writer) = pair().unwrap();
        let mut sent = 0u32;
        while send(&writer, &sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        assert!((2..32).contains(&sent), "{sent}");
        let mut buffer = [0; 8];
        assert_eq!(receive(&reader, &mut buffer).unwrap(), 4);
        for number in 1..sent {
            assert_eq!(take_back(&reader, &mut buffer), Some(4));
            assert_eq!(buffer[..4], number.to_le_bytes());
        }
        assert_eq!(take_back(&reader, &mut buffer), None);
        drop(writer);
        assert_eq!(receive(&reader, &mut buffer).unwrap(), 0);
    }
}
