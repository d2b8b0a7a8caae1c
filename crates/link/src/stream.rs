//! Socket of an iWARP stream: bytes go from and to registered memory without a copy of ours.
//!
//! As in `gather`, the kernel reads and writes memory that the program may use at the same time. A program that
//! unmapped registered memory loses the stream that still needs it, and no signal is raised: the kernel reports it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::fork;
use weft_sys::tcp::{self, PIECES_MAX, Piece};
use weft_transport::frame::HostRange;
use weft_transport::{Piece as Named, StreamBatch};

use crate::NULL_MEMORY;

/// Bytes that one read takes beside those that go to their destination directly.
const STAGED_BYTES_MAX: usize = 64 << 10;
/// Direct bytes of one read that make the bytes after them probably go directly, too.
const BULK_BYTES_MIN: usize = 16 << 10;
/// Staged bytes of a read in that case: the next header, which says where the following bytes go.
const BULK_STAGED_BYTES: usize = 512;
/// Room in the send buffer below which it is measured again, and the part of the last measurement: a young connection has
/// less altogether.
const ROOM_LOW: usize = 64 << 10;
const ROOM_LOW_PART: usize = 4;
/// Bytes sent at once after which it is measured again.
const BULK_SENT_BYTES: usize = 16 << 10;
/// Room in the send buffer for what TCP adds to each send.
const SEND_OVERHEAD: usize = 2048;
/// Room that is assumed if the kernel does not tell.
const ROOM_ASSUMED: usize = 64 << 10;

/// Source of the null region's bytes.
static ZEROS: [u8; 4096] = [0; 4096];

/// Outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Bytes came: the first ones went to their destination, the others are staged. `more`: others probably wait.
    Bytes {
        /// Bytes at their destination.
        direct: u32,
        /// Bytes behind them: [`StreamBuffers::staged`].
        staged: usize,
        /// The read was filled.
        more: bool,
    },
    /// No bytes wait.
    Nothing,
    /// The peer has ended its direction.
    End,
    /// The connection is gone.
    Reset,
    /// The destination of the next bytes is not mapped any more; no byte was taken.
    Unmapped,
}

/// Outcome of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// TCP took this many bytes; less than all if its buffer is full.
    Took(usize),
    /// TCP took this many bytes, and the connection is gone.
    Reset(usize),
    /// Memory to send is not mapped any more.
    Unmapped,
}

/// A connected socket.
#[derive(Debug)]
pub struct StreamSocket {
    fd: OwnedFd,
    /// Room in the send buffer at least, by the last measurement; below `room_low` another is due.
    room: usize,
    room_low: usize,
    /// Most bytes lately went to their destination directly.
    bulk: bool,
}

impl StreamSocket {
    /// Takes over a connection, which a forked child must not keep.
    ///
    /// # Errors
    /// It is no TCP socket.
    pub fn new(fd: OwnedFd) -> io::Result<StreamSocket> {
        tcp::prepare(&fd)?;
        fork::track(&fd);
        Ok(StreamSocket { fd, room: 0, room_low: ROOM_LOW, bulk: false })
    }

    /// Returns the payload of TCP's segments in bytes, if the kernel tells.
    pub fn segment(&self) -> Option<u32> {
        tcp::segment(&self.fd).ok().filter(|bytes| *bytes != 0)
    }

    /// Returns TCP's smoothed round trip, if the kernel tells.
    pub fn round_trip(&self) -> Option<std::time::Duration> {
        tcp::round_trip(&self.fd).ok().filter(|round_trip| !round_trip.is_zero())
    }

    /// Returns the bytes that the send buffer takes, roughly, and at least one: TCP mostly takes a little more than its
    /// buffer has room for. Asks the kernel only where the last answer may be wrong by much.
    pub fn room(&mut self) -> usize {
        if self.room < self.room_low {
            let free = tcp::send_room(&self.fd).unwrap_or(ROOM_ASSUMED);
            // The buffer's limit counts the kernel's structures.
            self.room = free - free / 16;
            self.room_low = ROOM_LOW.min(self.room / ROOM_LOW_PART).max(1);
        }
        self.room.max(1)
    }

    fn on_sent(&mut self, bytes: usize, is_full: bool) {
        let measure = is_full || bytes >= BULK_SENT_BYTES;
        self.room = if measure { 0 } else { self.room.saturating_sub(bytes + SEND_OVERHEAD) };
    }

    /// Whether bytes that TCP has taken may not have reached the peer's host.
    pub fn has_unacknowledged(&self) -> bool {
        tcp::unacknowledged(&self.fd).is_ok_and(|bytes| bytes != 0)
    }

    /// Ends the direction to the peer. A connection that is gone shows that when it is read.
    pub fn shut_down(&self) {
        let _ = tcp::shut_down(&self.fd);
    }
}

impl Drop for StreamSocket {
    fn drop(&mut self) {
        fork::forget(&self.fd);
    }
}

impl AsFd for StreamSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Buffers that all streams of a process share.
#[derive(Debug)]
pub struct StreamBuffers {
    pieces: Vec<Piece>,
    staging: Box<[u8]>,
}

impl Default for StreamBuffers {
    fn default() -> StreamBuffers {
        StreamBuffers { pieces: Vec::new(), staging: vec![0; STAGED_BYTES_MAX].into_boxed_slice() }
    }
}

impl StreamBuffers {
    /// Reads into the ranges, then into the staging buffer. Bytes for the null region are staged.
    pub fn receive(&mut self, socket: &mut StreamSocket, ranges: &[HostRange]) -> Received {
        self.pieces.clear();
        let direct = ranges.iter().take(PIECES_MAX - 1).take_while(|range| !NULL_MEMORY.contains(&range.addr));
        self.pieces.extend(direct.map(|range| Piece { addr: range.addr as usize, len: range.len as usize }));
        let direct: usize = self.pieces.iter().map(|piece| piece.len).sum();
        let bulk = direct >= BULK_BYTES_MIN;
        let staged = if bulk || socket.bulk { BULK_STAGED_BYTES } else { STAGED_BYTES_MAX };
        let stage = &mut self.staging[..staged];
        self.pieces.push(Piece { addr: stage.as_mut_ptr().expose_provenance(), len: staged });
        // SAFETY: the transport got the ranges from the adapter's check of registered regions with the right to be
        // written, and the adapter's lock is held since; the rest is the staging buffer.
        match unsafe { tcp::receive(&socket.fd, &self.pieces) } {
            Ok(0) => Received::End,
            Ok(bytes) => {
                let more = bytes == direct + staged;
                socket.bulk = bulk || socket.bulk && !more;
                let direct = direct.min(bytes);
                Received::Bytes { direct: direct as u32, staged: bytes - direct, more }
            }
            Err(error) if is_full(&error) => Received::Nothing,
            Err(error) if is_unmapped(&error) => Received::Unmapped,
            Err(_) => Received::Reset,
        }
    }

    /// Returns the first bytes of the staging buffer.
    pub fn staged(&self, len: usize) -> &[u8] {
        &self.staging[..len]
    }

    /// Reads bytes of a stream that has no receiver any more.
    pub fn discard(&mut self, socket: &mut StreamSocket) -> Received {
        socket.bulk = false;
        self.receive(socket, &[])
    }

    /// Sends what a batch holds, each FPDU on its own where [`StreamBatch::fpdus`] names them.
    pub fn send(&mut self, socket: &mut StreamSocket, batch: &StreamBatch) -> Sent {
        let sent = self.send_pieces(socket, batch);
        if let Sent::Took(taken) = sent {
            socket.on_sent(taken, taken < batch.len());
        }
        sent
    }

    fn send_pieces(&mut self, socket: &StreamSocket, batch: &StreamBatch) -> Sent {
        let mut fpdus = batch.fpdus();
        let mut fpdu = fpdus.next();
        let mut cursor = Cursor::default();
        let mut taken = 0;
        while taken < batch.len() {
            let len = cursor.fill(&mut self.pieces, batch, fpdu.unwrap_or(usize::MAX));
            if len == 0 {
                break;
            }
            let ends = fpdu == Some(len);
            match tcp::send(&socket.fd, &self.pieces, ends) {
                Ok(bytes) => {
                    taken += bytes;
                    if bytes < len {
                        break;
                    }
                }
                Err(error) if is_full(&error) => break,
                Err(error) if is_unmapped(&error) => return Sent::Unmapped,
                Err(_) => return Sent::Reset(taken),
            }
            fpdu = if ends { fpdus.next() } else { fpdu.map(|left| left - len) };
        }
        Sent::Took(taken)
    }
}

/// Position in a batch's pieces.
#[derive(Default)]
struct Cursor {
    /// Piece, and its bytes that are behind.
    piece: usize,
    offset: usize,
}

impl Cursor {
    /// Lists the next bytes, at most `len` of them and as many as one send takes. Returns their number.
    fn fill(&mut self, pieces: &mut Vec<Piece>, batch: &StreamBatch, len: usize) -> usize {
        pieces.clear();
        let mut left = len;
        while left > 0 && pieces.len() < PIECES_MAX {
            let Some(named) = batch.pieces().get(self.piece) else { break };
            let (addr, rest) = match *named {
                Named::Host { addr, len } => (addr as usize + self.offset, len as usize - self.offset),
                Named::Arena { .. } => {
                    let bytes = batch.arena(*named).get(self.offset..).unwrap_or_default();
                    (bytes.as_ptr().expose_provenance(), bytes.len())
                }
            };
            let piece = match NULL_MEMORY.contains(&(addr as u64)) {
                true => Piece { addr: ZEROS.as_ptr().expose_provenance(), len: rest.min(left).min(ZEROS.len()) },
                false => Piece { addr, len: rest.min(left) },
            };
            self.offset += piece.len;
            left -= piece.len;
            if piece.len == rest {
                (self.piece, self.offset) = (self.piece + 1, 0);
            }
            pieces.push(piece);
        }
        len - left
    }
}

/// Whether the call can be repeated when the socket is ready, or the kernel has memory.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

fn is_unmapped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_seldom_measure_the_send_buffer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = StreamSocket::new(near.into()).unwrap();
        let whole = socket.room();
        assert!(whole > 4 * (SEND_OVERHEAD + 8), "a young connection has room for some messages");
        socket.on_sent(8, false);
        assert_eq!(socket.room(), whole - 8 - SEND_OVERHEAD, "by count");
        let (mut messages, mut before) = (1, socket.room());
        loop {
            socket.on_sent(8, false);
            messages += 1;
            let room = socket.room();
            if room > before {
                break;
            }
            assert_eq!(room, before - 8 - SEND_OVERHEAD);
            before = room;
        }
        assert!(messages >= 3, "the count ends with a measurement");
        socket.on_sent(8, true);
        assert!(socket.room() > before, "a full buffer is measured at once");
    }
}
