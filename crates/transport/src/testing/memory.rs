//! Memory of a side, and the rings between the two sides of one host.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use weft_verbs::Sge;

use crate::frame::{Frame, HostRange, Outgoing};
use crate::peers::PeerId;
use crate::{Memory, Peers};

use super::constants::BASE;

/// A frame, its payload, and the bytes that the payload names.
type InRing = (Frame, Vec<u8>, Vec<u8>);

/// State shared by two processes of a host.
pub struct Hall {
    room: usize,
    /// Ring to each side.
    rings: [VecDeque<InRing>; 2],
    /// Frames ever put into the ring of each side.
    written: [u64; 2],
    /// The current frame of each side.
    current: [Option<InRing>; 2],
    /// Whether each side is alive.
    pub alive: [bool; 2],
    /// Whether a side can fetch from the peer's memory.
    pub fetches: bool,
}

impl Hall {
    pub fn new(room: usize) -> Rc<RefCell<Hall>> {
        Rc::new(RefCell::new(Hall {
            room,
            rings: Default::default(),
            written: [0; 2],
            current: [None, None],
            alive: [true; 2],
            fetches: true,
        }))
    }
}

/// The bytes, the flushed ranges, and the side and hall that it belongs to.
pub struct VecMemory(pub Vec<u8>, pub Vec<(u64, u64, bool)>, pub Option<(usize, Rc<RefCell<Hall>>)>);

impl VecMemory {
    pub fn at(&self, addr: u64, len: usize) -> &[u8] {
        let start = (addr - BASE) as usize;
        &self.0[start..start + len]
    }
    pub fn word(&self, addr: u64) -> u64 {
        u64::from_ne_bytes(self.at(addr, 8).try_into().unwrap())
    }
}

impl Memory for VecMemory {
    fn read(&self, addr: u64, out: &mut [u8]) {
        out.copy_from_slice(self.at(addr, out.len()));
    }
    fn write(&mut self, addr: u64, data: &[u8]) {
        let start = (addr - BASE) as usize;
        self.0[start..start + data.len()].copy_from_slice(data);
    }
    fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64 {
        let before = self.word(addr);
        if before == compare {
            self.write(addr, &swap.to_ne_bytes());
        }
        before
    }
    fn fetch_add(&mut self, addr: u64, add: u64) -> u64 {
        let before = self.word(addr);
        self.write(addr, &before.wrapping_add(add).to_ne_bytes());
        before
    }
    fn store_u64(&mut self, addr: u64, value: [u8; 8]) {
        self.write(addr, &value);
    }
    fn flush(&mut self, addr: u64, len: u64, persistent: bool) {
        self.1.push((addr, len, persistent));
    }
}

impl VecMemory {
    fn hall(&self) -> Option<(usize, std::cell::RefMut<'_, Hall>)> {
        self.2.as_ref().map(|(side, hall)| (*side, hall.borrow_mut()))
    }

    fn bytes_of(&self, payload: Outgoing<'_>) -> (Vec<u8>, Vec<u8>) {
        match payload {
            Outgoing::Bytes(bytes) => (bytes.to_vec(), Vec::new()),
            Outgoing::Memory(ranges) => {
                (ranges.iter().flat_map(|r| self.at(r.addr, r.len as usize).to_vec()).collect(), Vec::new())
            }
            Outgoing::List(list) => {
                let element =
                    |s: &Sge| [&s.addr.to_ne_bytes()[..], &s.length.to_ne_bytes(), &s.lkey.to_ne_bytes()].concat();
                let named = list.iter().flat_map(|s| self.at(s.addr, s.length as usize).to_vec()).collect();
                (list.iter().flat_map(element).collect(), named)
            }
        }
    }
}

impl Peers for VecMemory {
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        let (payload, named) = self.bytes_of(payload);
        let Some((_, mut hall)) = self.hall() else { return false };
        let to = peer.0 as usize;
        if hall.rings[to].len() >= hall.room {
            return false;
        }
        let frame = Frame { bytes: payload.len() as u32, ..*frame };
        hall.rings[to].push_back((frame, payload, named));
        hall.written[to] += 1;
        true
    }
    fn ring_mark(&self, peer: PeerId) -> u64 {
        self.hall().map_or(0, |(_, hall)| hall.written[peer.0 as usize])
    }
    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        let to = peer.0 as usize;
        self.hall().is_none_or(|(_, hall)| hall.written[to] - hall.rings[to].len() as u64 >= mark)
    }
    fn is_alive(&self, peer: PeerId) -> bool {
        self.hall().is_some_and(|(_, hall)| hall.alive[peer.0 as usize])
    }
    fn next_frame(&mut self, _: PeerId) -> Option<Frame> {
        let (side, mut hall) = self.hall()?;
        hall.current[side] = hall.rings[side].pop_front();
        hall.current[side].as_ref().map(|(frame, ..)| *frame)
    }
    fn place(&mut self, offset: u32, to: HostRange) {
        let mut bytes = vec![0; to.len as usize];
        self.peek(offset, &mut bytes);
        self.write(to.addr, &bytes);
    }
    fn peek(&self, offset: u32, out: &mut [u8]) {
        let Some((side, hall)) = self.hall() else { return };
        let payload = hall.current[side].as_ref().map_or(&[][..], |(_, payload, _)| payload);
        let from = payload.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(out.len());
        out[..len].copy_from_slice(&from[..len]);
    }
    fn end_frame(&mut self) {
        if let Some((side, mut hall)) = self.hall() {
            hall.current[side] = None;
        }
    }
    fn fetch(&mut self, _: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        let Some((side, hall)) = self.hall() else { return false };
        let Some((_, payload, named)) = hall.current[side].as_ref().filter(|_| hall.fetches) else { return false };
        // Offset of the element's bytes among the named ones: after those of the earlier elements.
        let lengths = payload.chunks(16).map(|s| (&s[..8], u32::from_ne_bytes(s[8..12].try_into().unwrap())));
        let before: u32 = lengths.take_while(|(addr, _)| *addr != from.addr.to_ne_bytes()).map(|(_, len)| len).sum();
        let start = before as usize + offset as usize;
        let bytes = named[start..start + to.len as usize].to_vec();
        drop(hall);
        self.write(to.addr, &bytes);
        true
    }
}
