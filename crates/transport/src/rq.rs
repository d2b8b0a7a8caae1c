//! Receive queue of a queue pair without an SRQ: a ring of slots allocated once.

use weft_verbs::{RecvWr, VerbsError, WcStatus};

use crate::RecvWqe;
use crate::env::refill;

/// The ring.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    slots: Box<[RecvWqe]>,
    mask: u64,
    capacity: u64,
    sge_max: usize,
    head: u64,
    tail: u64,
}

impl RecvQueue {
    pub fn new(capacity: u32, sge_max: u32) -> RecvQueue {
        let slots = if capacity == 0 { 0 } else { capacity.next_power_of_two() as usize };
        RecvQueue {
            slots: (0..slots).map(|_| RecvWqe::default()).collect(),
            mask: (slots as u64).wrapping_sub(1),
            capacity: u64::from(capacity),
            sge_max: sge_max as usize,
            head: 0,
            tail: 0,
        }
    }

    /// Returns the number of queued receives.
    pub fn len(&self) -> u32 {
        (self.tail - self.head) as u32
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Drops everything without a completion (RESET).
    pub fn clear(&mut self) {
        self.head = self.tail;
    }

    #[inline]
    pub fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        if wr.sges.len() > self.sge_max {
            return Err(VerbsError::Invalid("more scatter/gather elements than max_recv_sge"));
        }
        if self.tail - self.head >= self.capacity {
            return Err(VerbsError::NoMemory("the receive queue is full"));
        }
        let slot = &mut self.slots[(self.tail & self.mask) as usize];
        slot.wr_id = wr.wr_id;
        slot.injected = WcStatus::Success;
        refill(&mut slot.sges, wr.sges);
        self.tail += 1;
        Ok(())
    }

    /// Gives the newest receive the status with which it completes instead of taking a message.
    pub fn fail_newest(&mut self, status: WcStatus) {
        let newest = self.tail.checked_sub(1).filter(|_| !self.is_empty());
        if let Some(slot) = newest.and_then(|at| self.slots.get_mut((at & self.mask) as usize)) {
            slot.injected = status;
        }
    }

    /// Takes the oldest receive by swapping its list with that of `into`, so nothing is allocated.
    #[inline]
    pub fn pop_into(&mut self, into: &mut RecvWqe) -> bool {
        if self.is_empty() {
            return false;
        }
        let slot = &mut self.slots[(self.head & self.mask) as usize];
        (into.wr_id, into.injected) = (slot.wr_id, slot.injected);
        std::mem::swap(&mut into.sges, &mut slot.sges);
        self.head += 1;
        true
    }

    /// Takes the oldest receive and returns its number (flushing).
    pub fn pop_id(&mut self) -> Option<u64> {
        let mut wqe = RecvWqe::default();
        self.pop_into(&mut wqe).then_some(wqe.wr_id)
    }
}
