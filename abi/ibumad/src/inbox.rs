//! What came for a program on an open port and was not handed to it: in the ring, on the socket, or taken from there
//! because room was needed.

use libc::{EAGAIN, EINVAL, ENODEV, ENOSPC, c_int};
use std::collections::VecDeque;
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{AnswerReader, Slot, UMAD_BELL, UMAD_SLOT_BYTES};

use crate::errors::errno;
use crate::socket::poll;

/// Bytes of a datagram that a program must have room for, however long the whole is.
const MAD_LEN: usize = 256;

/// How often a bell is looked for that is on its way; one that comes later makes the descriptor readable once too often.
const BELL_LOOKS: u32 = 64;

/// What waits.
#[derive(Debug)]
pub(crate) struct Inbox {
    ring: Option<AnswerReader>,
    /// Datagrams that came while the program was sending, or that did not fit its buffer, heads included.
    kept: VecDeque<Vec<u8>>,
    /// The daemon was asked to ring for them.
    rung_for_kept: bool,
    /// The daemon is to be called, for it sleeps and has not rung for what came.
    call: bool,
    /// Room for a packet, and for a slot.
    packet: Vec<u8>,
    slot: Slot,
}

/// What a receive brought.
#[derive(Clone, Copy)]
pub(crate) enum Received {
    /// The whole datagram, this long with its head.
    Whole(usize),
    /// As much as fits a program's buffer that is too small: the errno value; the datagram stays.
    TooShort(c_int),
}

impl Inbox {
    pub(crate) fn new(ring: Option<AnswerReader>) -> Inbox {
        Inbox {
            ring,
            kept: VecDeque::new(),
            rung_for_kept: false,
            call: false,
            packet: vec![0; UMAD_PACKET_BYTES_MAX],
            slot: [0; UMAD_SLOT_BYTES],
        }
    }

    /// The ring's memory is not mapped in this process.
    pub(crate) fn leave_ring(&mut self) {
        std::mem::forget(self.ring.take());
    }

    /// Datagrams that wait here and nowhere else.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(Vec::as_slice)
    }

    /// Whether the daemon is to be called.
    pub(crate) fn take_call(&mut self) -> bool {
        std::mem::take(&mut self.call)
    }

    /// Whether the daemon is to be asked to ring, because the descriptor does not show what is kept; asked once.
    pub(crate) fn wants_bell(&mut self) -> bool {
        !self.kept.is_empty() && !std::mem::replace(&mut self.rung_for_kept, true)
    }

    /// Hands out a datagram; EAGAIN if there is none.
    pub(crate) fn receive(&mut self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        let received = self.next(fd, buffer, thorough);
        if received.is_ok() {
            self.settle(fd);
        }
        received
    }

    fn next(&mut self, fd: c_int, buffer: &mut [u8], thorough: bool) -> Result<Received, c_int> {
        if !self.kept.is_empty() {
            return Ok(self.hand_out(buffer));
        }
        if self.ring.as_ref().is_some_and(|ring| !ring.is_socket_due()) {
            if let Some(received) = self.take_from_ring(buffer) {
                return Ok(received);
            }
            if !thorough {
                return Err(EAGAIN);
            }
        }
        match self.take_from_socket(fd) {
            Ok(length) if self.is_whole(length) && length <= buffer.len() => {
                buffer[..length].copy_from_slice(&self.packet[..length]);
                Ok(Received::Whole(length))
            }
            Ok(length) => {
                let message = self.complete(fd, length)?;
                self.kept.push_back(message);
                Ok(self.hand_out(buffer))
            }
            Err(EAGAIN) => self.take_from_ring(buffer).ok_or(EAGAIN),
            Err(errno) => Err(errno),
        }
    }

    fn take_from_ring(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let ring = self.ring.as_mut()?;
        if let Some((room, _)) = buffer.split_first_chunk_mut::<UMAD_SLOT_BYTES>() {
            return ring.pop(room).then_some(Received::Whole(UMAD_SLOT_BYTES));
        }
        if !ring.pop(&mut self.slot) {
            return None;
        }
        self.kept.push_back(self.slot.to_vec());
        Some(self.hand_out(buffer))
    }

    /// Takes the next packet that is no bell from the socket.
    fn take_from_socket(&mut self, fd: c_int) -> Result<usize, c_int> {
        loop {
            let received = self.receive_packet(fd, 0);
            if let (Some(ring), Ok(_) | Err(EAGAIN)) = (&mut self.ring, received) {
                ring.on_socket(received.is_ok());
            }
            match received {
                Ok(length) if self.packet[..length] == *UMAD_BELL => self.on_bell(),
                // It was on its way to who does not read it.
                Err(EAGAIN) => {
                    self.on_bell();
                    return Err(EAGAIN);
                }
                received => return received,
            }
        }
    }

    fn on_bell(&mut self) {
        self.rung_for_kept = false;
        if let Some(ring) = &mut self.ring {
            self.call |= ring.on_bell();
        }
    }

    /// Once nothing is left the descriptor is not to be readable any more.
    fn settle(&mut self, fd: c_int) {
        let Some(ring) = &mut self.ring else { return };
        if !self.kept.is_empty() || !ring.is_rung() || ring.has_some() {
            return;
        }
        // The daemon says that it rings before it does.
        let received = (0..BELL_LOOKS).find_map(|_| match self.receive_packet(fd, 0) {
            Err(EAGAIN) => {
                std::thread::yield_now();
                None
            }
            received => Some(received),
        });
        if let Some(Ok(length)) = received {
            self.ring.iter_mut().for_each(|ring| ring.on_socket(true));
            if self.packet[..length] == *UMAD_BELL {
                self.on_bell();
            } else if let Ok(message) = self.complete(fd, length) {
                // A long one was faster than the bell, which will tell of it.
                self.kept.push_back(message);
            }
        }
    }

    /// Whether the first packet of a datagram is all of it.
    fn is_whole(&self, length: usize) -> bool {
        UmadHead::decode(&self.packet[..length]).is_some_and(|(head, _)| head.length as usize == length)
    }

    /// The datagram whose first packet is there.
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
            // SAFETY: the buffer is as long as it says.
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
        if let Ok(length) = self.take_from_socket(fd)
            && let Ok(message) = self.complete(fd, length)
        {
            self.kept.push_back(message);
        }
    }

    /// Keeps all that came.
    pub(crate) fn keep_all(&mut self, fd: c_int) {
        loop {
            while self.ring.as_mut().is_some_and(|ring| ring.pop(&mut self.slot)) {
                self.kept.push_back(self.slot.to_vec());
            }
            let before = self.kept.len();
            self.keep_one(fd);
            if self.kept.len() == before {
                return;
            }
        }
    }

    /// Whether a datagram is there, as far as can be seen without asking the socket.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.kept.is_empty() || self.ring.as_mut().is_some_and(AnswerReader::has_some)
    }

    /// Whether one may be there: to look on makes no sense, and never does without a ring.
    pub(crate) fn stirs(&mut self) -> bool {
        self.is_ready() || self.ring.as_ref().is_none_or(AnswerReader::is_socket_due)
    }

    /// Whether to sleep on the descriptor: nothing is there, and the daemon will ring.
    pub(crate) fn begin_sleep(&mut self, fd: c_int) -> bool {
        loop {
            if !self.kept.is_empty() || self.ring.as_mut().is_some_and(AnswerReader::has_some) {
                return false;
            }
            match self.receive_packet(fd, libc::MSG_PEEK) {
                Ok(length) if self.packet[..length] == *UMAD_BELL => {
                    let taken = self.receive_packet(fd, 0).is_ok();
                    self.ring.iter_mut().for_each(|ring| ring.on_socket(taken));
                    self.on_bell();
                }
                Err(EAGAIN) => {
                    self.ring.iter_mut().for_each(|ring| ring.on_socket(false));
                    self.on_bell();
                    return self.ring.as_mut().is_none_or(AnswerReader::begin_sleep);
                }
                _ => return false,
            }
        }
    }

    /// Awake again.
    pub(crate) fn end_sleep(&mut self) {
        self.ring.iter_mut().for_each(AnswerReader::end_sleep);
    }

    /// Gives the first of what is kept to a program, or as much as its buffer takes.
    fn hand_out(&mut self, buffer: &mut [u8]) -> Received {
        let Some(message) = self.kept.front() else { return Received::TooShort(EAGAIN) };
        if message.len() <= buffer.len() {
            buffer[..message.len()].copy_from_slice(message);
            let length = message.len();
            self.kept.pop_front();
            return Received::Whole(length);
        }
        if buffer.len() < UMAD_HEAD_BYTES {
            return Received::TooShort(EINVAL);
        }
        buffer[..UMAD_HEAD_BYTES].copy_from_slice(&message[..UMAD_HEAD_BYTES]);
        let first = UMAD_HEAD_BYTES + MAD_LEN;
        if message.len() <= first || buffer.len() < first {
            return Received::TooShort(EINVAL);
        }
        buffer[..first].copy_from_slice(&message[..first]);
        Received::TooShort(ENOSPC)
    }
}
