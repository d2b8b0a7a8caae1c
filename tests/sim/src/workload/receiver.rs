//! A receive queue, kept filled, and the contents of its receives.

use weft_verbs::{Access, PdId, QpId, RecvWr, Sge, SrqId, VerbsError};

use crate::memory::pattern_fill;
use crate::rng::Rng;
use crate::world::World;

/// Kind of receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// A queue pair's own.
    Own(QpId),
    /// A shared receive queue.
    Shared(SrqId),
}

struct Slot {
    sges: Vec<Sge>,
    posted: bool,
}

/// A receive queue.
pub struct Receiver {
    /// Host.
    pub host: usize,
    /// The queue.
    pub queue: Queue,
    number: u64,
    slots: Vec<Slot>,
    /// Posts few receives at a time, at wake-ups.
    pub slow: bool,
    /// Compares all buffers byte by byte at the end (on UC, an abandoned message leaves bytes behind).
    exact: bool,
    base: u64,
    model: Vec<u8>,
}

/// Bit that marks a work request ID as a receive's.
pub const RECV_TAG: u64 = 1 << 63;

impl Receiver {
    /// Creates a queue of `depth` receives of `capacity` bytes each.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        world: &mut World,
        number: usize,
        host: usize,
        queue: Queue,
        pd: PdId,
        depth: u32,
        sge_max: u32,
        capacity: u32,
        slow: bool,
        exact: bool,
    ) -> Receiver {
        let mut rng = Rng::new(world.rng.bits());
        let stride = capacity as usize + 64;
        let len = stride * depth as usize;
        let (base, lkey) = world.hosts[host].region(pd, len, Access::LOCAL_WRITE);
        let mut model = vec![0; len];
        pattern_fill(rng.bits(), 0, &mut model);
        world.hosts[host].fill(base, &model);
        let slots = (0..depth as usize)
            .map(|slot| {
                let count = rng.range(1, u64::from(sge_max)) as usize;
                let mut at = base + (slot * stride) as u64;
                let mut rest = capacity;
                let mut sges = Vec::new();
                for piece in 0..count {
                    let length = if piece + 1 == count { rest } else { rng.below(u64::from(rest) + 1) as u32 };
                    sges.push(Sge { addr: at, length, lkey });
                    at += u64::from(length) + 5;
                    rest -= length;
                }
                Slot { sges, posted: false }
            })
            .collect();
        Receiver { host, queue, number: number as u64, slots, slow, exact, base, model }
    }

    /// Posts up to `count` receives; returns whether any is left to post.
    pub fn post(&mut self, world: &mut World, count: usize) -> Result<bool, String> {
        let mut left = count;
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.posted) {
            if left == 0 {
                return Ok(true);
            }
            let wr = RecvWr { wr_id: RECV_TAG | self.number << 32 | index as u64, sges: &slot.sges };
            let hca = &mut world.hosts[self.host].hca;
            let posted = match self.queue {
                Queue::Own(qp) => hca.post_recv(qp, &wr),
                Queue::Shared(srq) => hca.post_srq_recv(srq, &wr),
            };
            match posted {
                Ok(()) => slot.posted = true,
                Err(VerbsError::NoMemory(_)) => return Err(format!("receive {index} finds the queue full")),
                Err(error) => return Err(format!("posting receive {index}: {error}")),
            }
            left -= 1;
        }
        Ok(false)
    }

    /// Handles a completed receive whose buffer must hold `data` from `skip` on. Returns the bytes before.
    pub fn take(&mut self, world: &mut World, index: usize, skip: usize, data: &[u8]) -> Result<Vec<u8>, String> {
        let slot = self.slots.get_mut(index).ok_or("a completion of a receive that does not exist")?;
        if !std::mem::replace(&mut slot.posted, false) {
            return Err(format!("receive {index} completed twice"));
        }
        let mut held = Vec::new();
        for sge in &slot.sges {
            held.extend(world.hosts[self.host].look(sge.addr, sge.length as usize));
        }
        if held[skip..skip + data.len()] != *data {
            return Err(format!("receive {index} holds other bytes than were sent"));
        }
        let head = held[..skip].to_vec();
        let mut rest = &held[..skip + data.len()];
        for sge in &slot.sges {
            let n = rest.len().min(sge.length as usize);
            let at = (sge.addr - self.base) as usize;
            self.model[at..at + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
        }
        Ok(head)
    }

    /// Returns a receive buffer's contents from `skip` on.
    pub fn peek(&self, world: &mut World, index: usize, skip: usize, len: usize) -> Result<Vec<u8>, String> {
        let slot = self.slots.get(index).ok_or("a completion of a receive that does not exist")?;
        let mut held = Vec::new();
        for sge in &slot.sges {
            held.extend(world.hosts[self.host].look(sge.addr, sge.length as usize));
        }
        held.get(skip..skip + len).map(<[u8]>::to_vec).ok_or_else(|| "a length beyond the receive".to_owned())
    }

    /// Checks that the buffers hold only received bytes.
    pub fn check_memory(&self, world: &mut World) -> Result<(), String> {
        if self.exact && world.hosts[self.host].look(self.base, self.model.len()) != self.model {
            return Err(format!("the buffers of receive queue {} hold what was never received", self.number));
        }
        Ok(())
    }
}
