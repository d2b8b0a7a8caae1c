//! Batches of packets on a SOCK_SEQPACKET socket: one system call sends or receives many.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use crate::many;

/// Maximum number of packets that one call sends.
pub const SEND_BATCH_MAX: usize = 64;

/// Reusable buffers for packets that one call receives.
#[derive(Debug)]
pub struct RecvBatch {
    buffer: Box<[u8]>,
    packet_bytes_max: usize,
    lengths: Vec<usize>,
}

impl RecvBatch {
    /// Allocates room for `count` packets of at most `packet_bytes_max` bytes; longer ones are truncated.
    pub fn new(count: usize, packet_bytes_max: usize) -> RecvBatch {
        let buffer = vec![0; count * packet_bytes_max].into_boxed_slice();
        RecvBatch { buffer, packet_bytes_max, lengths: Vec::with_capacity(count) }
    }

    /// Receives the waiting packets without sleeping; `WouldBlock` if there are none. An empty packet is the end of the
    /// connection.
    pub fn recv(&mut self, fd: impl AsFd) -> io::Result<usize> {
        self.lengths.clear();
        let mut vectors: Vec<libc::iovec> = self
            .buffer
            .chunks_exact_mut(self.packet_bytes_max)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = vectors.iter_mut().map(|vector| header(vector)).collect();
        let fd = fd.as_fd().as_raw_fd();
        loop {
            // SAFETY: every header names one vector, and every vector its own part of the buffer, which only this call
            // uses until it returns.
            let count = unsafe {
                let (headers, count) = (headers.as_mut_ptr(), headers.len() as u32);
                many::receive(fd, headers, count, libc::MSG_DONTWAIT)
            };
            if let Ok(count) = usize::try_from(count) {
                self.lengths.extend(headers.iter().take(count).map(|header| header.msg_len as usize));
                return Ok(count);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns one of the packets that the last call received.
    pub fn packet(&self, index: usize) -> &[u8] {
        let length = self.lengths.get(index).copied().unwrap_or(0).min(self.packet_bytes_max);
        let start = index * self.packet_bytes_max;
        self.buffer.get(start..start + length).unwrap_or_default()
    }
}

fn header(vector: *mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero header is valid and names nothing; the needed fields are filled in below.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Sends the first [`SEND_BATCH_MAX`] of these packets, or as many as there is room for, without sleeping; returns the
/// number sent. `WouldBlock` if there is no room for the first.
pub fn send<'a>(fd: impl AsFd, packets: impl Iterator<Item = IoSlice<'a>>) -> io::Result<usize> {
    let mut slices: Vec<IoSlice<'a>> = packets.take(SEND_BATCH_MAX).collect();
    let mut headers: Vec<libc::mmsghdr> = slices
        .iter_mut()
        // An IoSlice has the layout of an iovec, as std promises.
        .map(|slice| header(std::ptr::from_mut(slice).cast()))
        .collect();
    let fd = fd.as_fd().as_raw_fd();
    loop {
        // SAFETY: every header names one vector, which names bytes that live as long as `'a`; they are only read.
        let count = unsafe {
            many::send(fd, headers.as_mut_ptr(), headers.len() as u32, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_bounds_and_order() {
        let (a, b) = crate::unix::pair().unwrap();
        let packets: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 1 + n as usize]).collect();
        let sent = send(&a, packets.iter().map(|packet| IoSlice::new(packet))).unwrap();
        assert_eq!(sent, SEND_BATCH_MAX);
        let mut batch = RecvBatch::new(48, 32);
        assert_eq!(batch.recv(&b).unwrap(), 48);
        assert_eq!(batch.packet(3), [3; 4]);
        assert_eq!(batch.packet(40).len(), 32, "a longer one is cut");
        assert_eq!(batch.recv(&b).unwrap(), 16);
        assert_eq!(batch.packet(0)[0], 48);
        assert_eq!(batch.recv(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(a);
        assert_eq!((batch.recv(&b).unwrap(), batch.packet(0).len()), (48, 0));
        assert!(batch.packet(99).is_empty());
    }

    #[test]
    fn a_full_socket_takes_no_more() {
        let (a, _b) = crate::unix::pair().unwrap();
        let packet = [0; 4096];
        let mut total = 0;
        let error = loop {
            match send(&a, std::iter::repeat_n(IoSlice::new(&packet), 64)) {
                Ok(sent) => total += sent,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(total > 10);
    }
}
