//! Datagrams that arrived on an open port and that the program has not received yet: in the ring, on the socket, or
//! taken from there to make room.

use libc::{EAGAIN, EINVAL, ENODEV, ENOSPC, c_int};
use std::collections::VecDeque;
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{AnswerReader, Slot, UMAD_BELL, UMAD_SLOT_BYTES};
use zerocopy::FromBytes;

use crate::errors::errno;
use crate::poll::poll;

/// Minimum room for a datagram in a program's buffer, however long the datagram is.
const MAD_LEN: usize = 256;

/// Maximum number of datagrams kept for a program: the kernel's limit.
const KEPT_MAX: usize = 200_000;

/// Number of polls for a bell that is under way before the thread sleeps for it.
const BELL_LOOKS: u32 = 64;

/// Length of that sleep. It is bounded because another process that shares the socket may have taken the bell.
const BELL_WAIT_MS: c_int = 100;

/// Number of polls for a datagram that moves from the ring to the socket: the daemon sends it right after, unless it
/// dies.
const MOVE_LOOKS: u32 = 256;
/// Number of those polls that do not sleep. A datagram on the socket may be taken before the daemon marks the move as
/// complete, and then nothing wakes a sleeping thread.
const MOVE_YIELDS: u32 = 192;
/// Sleep between the other polls.
const MOVE_WAIT_MS: c_int = 1;

/// The datagrams that wait for a program.
#[derive(Debug)]
pub(crate) struct Inbox {
    ring: Option<AnswerReader>,
    /// Datagrams that arrived while the program was sending, headers included.
    kept: VecDeque<Vec<u8>>,
    /// The daemon was asked to ring for them: the bell is on the socket, or on its way there.
    bell_due: bool,
    /// The daemon needs a call: it sleeps and has not moved the ring's content to the socket.
    call: bool,
    /// Room for a packet, and for a slot.
    packet: Vec<u8>,
    slot: Slot,
}

/// Result of a receive.
#[derive(Clone, Copy)]
pub(crate) enum Received {
    /// The whole datagram; its length with header.
    Whole(usize),
    /// The datagram's start, in a program's buffer that is too small: the errno value; the datagram stays.
    TooShort(c_int),
}

impl Inbox {
    pub(crate) fn new(ring: Option<AnswerReader>) -> Inbox {
        Inbox {
            ring,
            kept: VecDeque::new(),
            bell_due: false,
            call: false,
            packet: vec![0; UMAD_PACKET_BYTES_MAX],
            slot: [0; UMAD_SLOT_BYTES],
        }
    }

    /// Leaves the ring, whose memory is not mapped in this process.
    pub(crate) fn leave_ring(&mut self) {
        std::mem::forget(self.ring.take());
    }

    /// Iterates over the datagrams that wait only here.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(Vec::as_slice)
    }

    /// Whether the daemon needs a call; resets the flag.
    pub(crate) fn take_call(&mut self) -> bool {
        std::mem::take(&mut self.call)
    }

    /// Whether to ask the daemon for a bell, because the descriptor does not show kept datagrams; true once.
    pub(crate) fn wants_bell(&mut self) -> bool {
        !self.kept.is_empty() && !std::mem::replace(&mut self.bell_due, true)
    }

    /// Hands out a datagram; EAGAIN if there is none.
    pub(crate) fn receive(&mut self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        let received = self.look(fd, buffer, thorough);
        self.settle(fd);
        self.call |= self.ring.as_mut().is_some_and(AnswerReader::must_call);
        received
    }

    /// Polls the ring and the socket, and repeats while a datagram moves from one to the other.
    fn look(&mut self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        for look in 0..MOVE_LOOKS {
            let before = self.ring.as_ref().map(AnswerReader::moves);
            let received = self.next(fd, buffer, thorough);
            let after = self.ring.as_ref().map(AnswerReader::moves);
            match after {
                _ if !matches!(received, Err(EAGAIN)) => return received,
                Some((true, _)) if look < MOVE_YIELDS => std::thread::yield_now(),
                Some((true, _)) => drop(poll(fd, libc::POLLIN, MOVE_WAIT_MS)),
                _ if before == after => return received,
                _ => {}
            }
        }
        self.next(fd, buffer, thorough)
    }

    fn next(&mut self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        if !self.kept.is_empty() {
            return Ok(self.hand_out_kept(buffer));
        }
        if self.ring.as_ref().is_some_and(|ring| !ring.is_socket_due()) {
            if let Some(received) = self.take_from_ring(buffer) {
                return Ok(received);
            }
            if !thorough {
                return Err(EAGAIN);
            }
        }
        match self.take_from_socket(fd, buffer) {
            Err(EAGAIN) => self.take_from_ring(buffer).ok_or(EAGAIN),
            received => received,
        }
    }

    fn take_from_ring(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let ring = self.ring.as_mut()?;
        if let Some((room, _)) = buffer.split_first_chunk_mut::<UMAD_SLOT_BYTES>() {
            return ring.pop(room).then_some(Received::Whole(UMAD_SLOT_BYTES));
        }
        ring.peek(&mut self.slot).then(|| too_short(&self.slot, buffer))
    }

    /// Takes the next datagram from the socket. One that does not fit stays on the socket if the buffer is smaller than
    /// a slot, else it is kept.
    fn take_from_socket(&mut self, fd: c_int, buffer: &mut [u8]) -> Result<Received, c_int> {
        if buffer.len() < UMAD_SLOT_BYTES {
            let length = self.peek_at_socket(fd)?;
            let (head, _) = UmadHead::decode(&self.packet[..length]).ok_or(libc::EPROTO)?;
            if head.length as usize > buffer.len() {
                return Ok(too_short(&self.packet[..length], buffer));
            }
        }
        let length = self.take_packet(fd)?;
        let (head, _) = UmadHead::decode(&self.packet[..length]).ok_or(libc::EPROTO)?;
        if length <= buffer.len() && head.length as usize == length {
            buffer[..length].copy_from_slice(&self.packet[..length]);
            return Ok(Received::Whole(length));
        }
        let message = self.complete(fd, length)?;
        self.kept.push_back(message);
        Ok(self.hand_out_kept(buffer))
    }

    /// Peeks at the next packet that is not a bell, and leaves it on the socket.
    fn peek_at_socket(&mut self, fd: c_int) -> Result<usize, c_int> {
        loop {
            let length = self.receive_packet(fd, libc::MSG_PEEK).inspect_err(|errno| self.on_nothing(*errno))?;
            if self.packet[..length] != *UMAD_BELL {
                return Ok(length);
            }
            let length = self.receive_packet(fd, 0)?;
            self.on_packet(length);
        }
    }

    /// Takes the next packet that is not a bell from the socket.
    fn take_packet(&mut self, fd: c_int) -> Result<usize, c_int> {
        loop {
            let length = self.receive_packet(fd, 0).inspect_err(|errno| self.on_nothing(*errno))?;
            self.on_packet(length);
            if self.packet[..length] != *UMAD_BELL {
                return Ok(length);
            }
        }
    }

    /// Handles a packet taken from the socket.
    fn on_packet(&mut self, length: usize) {
        self.ring.iter_mut().for_each(|ring| ring.on_socket(true));
        self.bell_due &= self.packet[..length] != *UMAD_BELL;
    }

    /// Handles an empty socket.
    fn on_nothing(&mut self, errno: c_int) {
        if errno == EAGAIN {
            self.ring.iter_mut().for_each(|ring| ring.on_socket(false));
        }
    }

    /// Takes back the requested bell once no datagram is kept, so that it does not make the descriptor readable.
    fn settle(&mut self, fd: c_int) {
        let mut looks = 0;
        while self.bell_due && self.kept.is_empty() {
            match self.receive_packet(fd, 0) {
                Ok(length) => {
                    self.on_packet(length);
                    if self.packet[..length] != *UMAD_BELL
                        && let Ok(message) = self.complete(fd, length)
                    {
                        self.keep(message);
                    }
                }
                Err(EAGAIN) if looks < BELL_LOOKS => {
                    looks += 1;
                    std::thread::yield_now();
                }
                Err(EAGAIN) if poll(fd, libc::POLLIN, BELL_WAIT_MS) == Ok(libc::POLLIN) => {}
                Err(_) => self.bell_due = false,
            }
        }
    }

    /// Reads the rest of the datagram whose first packet has arrived.
    fn complete(&mut self, fd: c_int, first: usize) -> Result<Vec<u8>, c_int> {
        let (head, _) = UmadHead::decode(&self.packet[..first]).ok_or(libc::EPROTO)?;
        let mut message = self.packet[..first].to_vec();
        while message.len() < head.length as usize {
            match self.receive_packet(fd, 0) {
                Ok(length) => {
                    self.ring.iter_mut().for_each(|ring| ring.on_socket(true));
                    message.extend_from_slice(&self.packet[..length]);
                }
                // The rest is on its way.
                Err(EAGAIN) => drop(poll(fd, libc::POLLIN, -1)),
                Err(errno) => return Err(errno),
            }
        }
        Ok(message)
    }

    fn receive_packet(&mut self, fd: c_int, flags: c_int) -> Result<usize, c_int> {
        loop {
            let (room, most) = (self.packet.as_mut_ptr(), self.packet.len());
            // SAFETY: the buffer has the stated length.
            let length = unsafe { libc::recv(fd, room.cast(), most, libc::MSG_DONTWAIT | flags) };
            match usize::try_from(length) {
                Ok(0) => return Err(ENODEV),
                Ok(length) => return Ok(length),
                Err(_) => match errno() {
                    libc::EINTR => {}
                    libc::ECONNRESET => return Err(ENODEV),
                    errno => return Err(errno),
                },
            }
        }
    }

    /// Keeps the next datagram from the socket, so that the daemon has room there.
    pub(crate) fn keep_one(&mut self, fd: c_int) {
        if let Ok(length) = self.take_packet(fd)
            && let Ok(message) = self.complete(fd, length)
        {
            self.keep(message);
        }
    }

    /// Keeps a datagram. Like the kernel, drops it if a program that never receives has no room left.
    fn keep(&mut self, message: Vec<u8>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push_back(message);
        }
    }

    /// Keeps all datagrams on the socket.
    pub(crate) fn keep_all(&mut self, fd: c_int) {
        loop {
            while self.ring.as_mut().is_some_and(|ring| ring.pop(&mut self.slot)) {
                let message = self.slot.to_vec();
                self.keep(message);
            }
            let before = self.kept.len();
            self.keep_one(fd);
            if self.kept.len() == before {
                return;
            }
        }
    }

    /// Whether a datagram is available, as far as this can be seen without a system call.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.kept.is_empty() || self.ring.as_mut().is_some_and(AnswerReader::has_some)
    }

    /// Whether a datagram may be available, so that further polling is pointless; always true without a ring.
    pub(crate) fn stirs(&mut self) -> bool {
        self.is_ready() || self.ring.as_ref().is_none_or(AnswerReader::is_socket_due)
    }

    /// Whether an answer may arrive in the ring while the thread polls; if so, it polls until [`Inbox::end_wait`].
    pub(crate) fn begin_look(&mut self) -> bool {
        let looks = self.ring.as_ref().is_some_and(AnswerReader::is_worth_looking);
        if looks {
            self.ring.iter().for_each(AnswerReader::begin_look);
        }
        looks
    }

    /// Whether to sleep on the descriptor: no datagram is available, and the daemon sends new ones by the socket.
    pub(crate) fn begin_sleep(&mut self) -> bool {
        self.kept.is_empty() && self.ring.as_mut().is_none_or(AnswerReader::begin_sleep)
    }

    /// Ends polling or sleeping.
    pub(crate) fn end_wait(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.end_wait();
            self.call |= ring.must_call();
        }
    }

    /// Copies the first kept datagram to a program's buffer, or as much as fits.
    fn hand_out_kept(&mut self, buffer: &mut [u8]) -> Received {
        let Some(message) = self.kept.front() else { return Received::TooShort(EAGAIN) };
        if message.len() > buffer.len() {
            return too_short(message, buffer);
        }
        buffer[..message.len()].copy_from_slice(message);
        let length = message.len();
        self.kept.pop_front();
        Received::Whole(length)
    }
}

/// Copies the part of a too long datagram that a program receives, from its first packet: the header, and the first MAD
/// of a long one if there is room for it.
fn too_short(packet: &[u8], buffer: &mut [u8]) -> Received {
    const FIRST: usize = UMAD_HEAD_BYTES + MAD_LEN;
    let is_long = UmadHead::read_from_prefix(packet).is_ok_and(|(head, _)| head.length as usize > FIRST);
    let (length, errno) = if is_long && buffer.len() >= FIRST { (FIRST, ENOSPC) } else { (UMAD_HEAD_BYTES, EINVAL) };
    if let (Some(room), Some(from)) = (buffer.get_mut(..length), packet.get(..length)) {
        room.copy_from_slice(from);
    }
    Received::TooShort(errno)
}

#[test]
fn a_program_that_never_receives_has_bounds() {
    let mut inbox = Inbox::new(None);
    (0..KEPT_MAX + 7).for_each(|_| inbox.keep(Vec::new()));
    assert_eq!(inbox.kept().count(), KEPT_MAX);
}
