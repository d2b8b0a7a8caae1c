//! Shared receive queues and their numbers.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_transport::{RecvWqe, XrcSrq};
use weft_verbs::{
    Cookie, CqId, DeviceId, PdId, RecvWr, SRQ_MAX, SRQ_WR_MAX, SrqAttr, SrqId, SrqInit, VerbsError, WcStatus, XrcdId,
};

use crate::rng::Rng;
use crate::table::Table;

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) device: DeviceId,
    pub(crate) pd: PdId,
    pub(crate) xrc: Option<(XrcdId, CqId)>,
    number: u32,
    pub(crate) cookie: Cookie,
    attr: SrqAttr,
    queue: VecDeque<RecvWqe>,
    /// It is in the error state, by an injected event.
    failed: bool,
    /// Number of queue pairs that receive from it.
    pub(crate) uses: u32,
}

impl Srq {
    /// Returns the number by which XRC peers name it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the sizes, and the limit.
    pub(crate) fn attr(&self) -> SrqAttr {
        self.attr
    }

    /// Changes the size (`set_max`), the limit (`set_limit`), or both; on an error nothing has changed.
    pub(crate) fn modify(&mut self, attr: &SrqAttr, set_max: bool, set_limit: bool) -> Result<(), VerbsError> {
        let max_wr = if set_max { attr.max_wr } else { self.attr.max_wr };
        if max_wr == 0 || max_wr > SRQ_WR_MAX {
            return Err(VerbsError::Invalid("a shared receive queue has 1 to 32768 entries"));
        }
        if (max_wr as usize) < self.queue.len() {
            return Err(VerbsError::Invalid("more receives are posted than the new size holds"));
        }
        let limit = if set_limit { attr.srq_limit } else { self.attr.srq_limit };
        if limit > max_wr {
            return Err(VerbsError::Invalid("the limit is above the size of the queue"));
        }
        self.attr.max_wr = max_wr;
        self.attr.srq_limit = limit;
        Ok(())
    }

    /// Posts a receive.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        if wr.sges.len() as u64 > u64::from(self.attr.max_sge) {
            return Err(VerbsError::Invalid("more scatter elements than the queue was made for"));
        }
        if self.failed {
            return Err(VerbsError::Invalid("the shared receive queue is in the error state"));
        }
        if self.queue.len() as u64 >= u64::from(self.attr.max_wr) {
            return Err(VerbsError::NoMemory("the shared receive queue is full"));
        }
        self.queue.push_back(RecvWqe { wr_id: wr.wr_id, sges: wr.sges.into(), injected: WcStatus::Success });
        Ok(())
    }

    /// Gives the receive posted last the status with which it completes instead of taking a message.
    pub(crate) fn fail_newest(&mut self, status: WcStatus) {
        if let Some(newest) = self.queue.back_mut() {
            newest.injected = status;
        }
    }

    /// Whether it is in the error state.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Fails: it takes and gives no receive any more.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Takes the oldest receive. If fewer than the limit remain, disarms the limit and returns `true` with it.
    pub(crate) fn take(&mut self) -> Option<(RecvWqe, bool)> {
        let wqe = if self.failed { None } else { self.queue.pop_front() }?;
        let limit_reached = (self.queue.len() as u64) < u64::from(self.attr.srq_limit);
        if limit_reached {
            self.attr.srq_limit = 0;
        }
        Some((wqe, limit_reached))
    }
}

/// All shared receive queues, and the index of their numbers.
#[derive(Debug)]
pub(crate) struct Srqs {
    table: Table<SrqId, Srq>,
    by_number: FxHashMap<u32, SrqId>,
}

impl Srqs {
    pub(crate) fn new() -> Srqs {
        Srqs { table: Table::new(SRQ_MAX, "shared receive queue"), by_number: FxHashMap::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SrqId, &Srq)> {
        self.table.iter()
    }

    pub(crate) fn get(&self, id: SrqId) -> Result<&Srq, VerbsError> {
        self.table.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: SrqId) -> Result<&mut Srq, VerbsError> {
        self.table.get_mut(id)
    }

    /// Draws an unused 24-bit number.
    fn draw(&self, rng: &mut Rng) -> u32 {
        loop {
            let number = rng.next_u32() >> 8;
            if number != 0 && !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// Adds a queue under a number of its own.
    pub(crate) fn insert(&mut self, rng: &mut Rng, device: DeviceId, init: &SrqInit) -> Result<SrqId, VerbsError> {
        let number = self.draw(rng);
        let id = self.table.insert(Srq {
            device,
            pd: init.pd,
            xrc: init.xrc,
            number,
            cookie: init.cookie,
            // Only modify_srq arms the limit; a receive may always have one element.
            attr: SrqAttr { max_wr: init.attr.max_wr, max_sge: init.attr.max_sge.max(1), srq_limit: 0 },
            queue: VecDeque::new(),
            failed: false,
            uses: 0,
        })?;
        self.by_number.insert(number, id);
        Ok(id)
    }

    /// Removes a queue and its number.
    pub(crate) fn remove(&mut self, id: SrqId) -> Result<Srq, VerbsError> {
        let srq = self.table.remove(id)?;
        self.by_number.remove(&srq.number);
        Ok(srq)
    }

    /// Finds the SRQ of an XRC domain with this number.
    pub(crate) fn xrc(&self, xrcd: XrcdId, number: u32) -> Option<XrcSrq> {
        let id = *self.by_number.get(&number)?;
        let srq = self.table.get(id).ok()?;
        let (domain, cq) = srq.xrc?;
        (domain == xrcd).then_some(XrcSrq { srq: id, pd: srq.pd, cq })
    }

    /// Whether a receive is posted to it.
    pub(crate) fn has(&self, id: SrqId) -> bool {
        self.table.get(id).is_ok_and(|srq| !srq.failed && !srq.queue.is_empty())
    }
}
