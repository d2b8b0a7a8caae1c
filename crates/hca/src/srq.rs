//! Shared receive queues, plain and XRC.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_transport::{RecvWqe, XrcSrq};
use weft_verbs::{
    AsyncEvent, AsyncSubject, Cookie, CqId, DeviceId, PdId, RecvWr, SGE_MAX, SRQ_MAX, SRQ_WR_MAX, SrqAttr, SrqId,
    SrqInit, VerbsError, XrcdId,
};

use crate::context::HcaContext;
use crate::rng::Rng;
use crate::table::Table;
use crate::{Hca, HostInterface};

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) device: DeviceId,
    pub(crate) pd: PdId,
    pub(crate) xrc: Option<(XrcdId, CqId)>,
    number: u32,
    cookie: Cookie,
    attr: SrqAttr,
    queue: VecDeque<RecvWqe>,
    /// Number of queue pairs that receive from it.
    pub(crate) uses: u32,
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Srq> {
        self.table.iter().map(|(_, srq)| srq)
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

    /// Finds the SRQ of an XRC domain with this number.
    pub(crate) fn xrc(&self, xrcd: XrcdId, number: u32) -> Option<XrcSrq> {
        let id = *self.by_number.get(&number)?;
        let srq = self.table.get(id).ok()?;
        let (domain, cq) = srq.xrc?;
        (domain == xrcd).then_some(XrcSrq { srq: id, pd: srq.pd, cq })
    }

    /// Whether a receive is posted to it.
    pub(crate) fn has(&self, id: SrqId) -> bool {
        self.table.get(id).is_ok_and(|srq| !srq.queue.is_empty())
    }
}

impl<H: HostInterface> HcaContext<H> {
    /// Takes the oldest receive. If fewer than the limit remain, raises the event and disarms the limit.
    pub(crate) fn take_srq_recv(&mut self, id: SrqId) -> Option<RecvWqe> {
        let srq = self.srqs.get_mut(id).ok()?;
        let wqe = srq.queue.pop_front()?;
        if (srq.queue.len() as u64) < u64::from(srq.attr.srq_limit) {
            srq.attr.srq_limit = 0;
            let (device, cookie) = (srq.device, srq.cookie);
            self.raise(device, AsyncEvent::SrqLimitReached, AsyncSubject::Srq(id), cookie);
        }
        Some(wqe)
    }
}

impl<H: HostInterface> Hca<H> {
    /// Creates a shared receive queue; `query_srq` returns the granted sizes.
    pub fn create_srq(&mut self, device: DeviceId, init: &SrqInit) -> Result<SrqId, VerbsError> {
        self.context.present(device)?;
        let attr = init.attr;
        if attr.max_wr == 0 || attr.max_wr > SRQ_WR_MAX {
            return Err(VerbsError::Invalid("a shared receive queue has 1 to 32768 entries"));
        }
        if attr.max_sge > SGE_MAX {
            return Err(VerbsError::Invalid("a receive has at most 30 scatter elements"));
        }
        if self.context.pds.get(init.pd)?.device != device {
            return Err(VerbsError::Invalid("the protection domain is another device's"));
        }
        if let Some((xrcd, cq)) = init.xrc
            && (self.context.xrcds.get(xrcd)?.device != device || self.context.cqs.get(cq)?.device != device)
        {
            return Err(VerbsError::Invalid("the XRC domain or completion queue is another device's"));
        }
        let number = self.context.srqs.draw(&mut self.context.rng);
        let id = self.context.srqs.table.insert(Srq {
            device,
            pd: init.pd,
            xrc: init.xrc,
            number,
            cookie: init.cookie,
            // Only modify_srq arms the limit; a receive may always have one element.
            attr: SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge.max(1), srq_limit: 0 },
            queue: VecDeque::new(),
            uses: 0,
        })?;
        self.context.srqs.by_number.insert(number, id);
        self.hold_pd(init.pd)?;
        if let Some((xrcd, cq)) = init.xrc {
            self.context.xrcds.get_mut(xrcd)?.uses += 1;
            self.context.cqs.get_mut(cq)?.uses += 1;
        }
        Ok(id)
    }

    /// Changes the size (`set_max`), arms the limit event (`set_limit`), or both; on an error nothing has changed.
    pub fn modify_srq(&mut self, id: SrqId, attr: &SrqAttr, set_max: bool, set_limit: bool) -> Result<(), VerbsError> {
        let srq = self.context.srqs.get_mut(id)?;
        let max_wr = if set_max { attr.max_wr } else { srq.attr.max_wr };
        if max_wr == 0 || max_wr > SRQ_WR_MAX {
            return Err(VerbsError::Invalid("a shared receive queue has 1 to 32768 entries"));
        }
        if (max_wr as usize) < srq.queue.len() {
            return Err(VerbsError::Invalid("more receives are posted than the new size holds"));
        }
        let limit = if set_limit { attr.srq_limit } else { srq.attr.srq_limit };
        if limit > max_wr {
            return Err(VerbsError::Invalid("the limit is above the size of the queue"));
        }
        srq.attr.max_wr = max_wr;
        srq.attr.srq_limit = limit;
        Ok(())
    }

    /// Returns the sizes, and the limit: 0 if its event has been raised.
    pub fn query_srq(&self, id: SrqId) -> Result<SrqAttr, VerbsError> {
        Ok(self.context.srqs.get(id)?.attr)
    }

    /// Returns the number by which XRC peers name it.
    pub fn srq_number(&self, id: SrqId) -> Result<u32, VerbsError> {
        Ok(self.context.srqs.get(id)?.number)
    }

    /// Destroys a shared receive queue; busy while queue pairs receive from it.
    pub fn destroy_srq(&mut self, id: SrqId) -> Result<(), VerbsError> {
        if self.context.srqs.get(id)?.uses > 0 {
            return Err(VerbsError::Busy("queue pairs use the shared receive queue"));
        }
        let srq = self.context.srqs.table.remove(id)?;
        self.context.srqs.by_number.remove(&srq.number);
        self.release_pd(srq.pd);
        if let Some((xrcd, cq)) = srq.xrc {
            if let Ok(xrcd) = self.context.xrcds.get_mut(xrcd) {
                xrcd.uses = xrcd.uses.saturating_sub(1);
            }
            if let Ok(cq) = self.context.cqs.get_mut(cq) {
                cq.uses = cq.uses.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Posts a receive.
    pub fn post_srq_recv(&mut self, id: SrqId, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        let srq = self.context.srqs.get_mut(id)?;
        if wr.sges.len() as u64 > u64::from(srq.attr.max_sge) {
            return Err(VerbsError::Invalid("more scatter elements than the queue was made for"));
        }
        if srq.queue.len() as u64 >= u64::from(srq.attr.max_wr) {
            return Err(VerbsError::NoMemory("the shared receive queue is full"));
        }
        srq.queue.push_back(RecvWqe { wr_id: wr.wr_id, sges: wr.sges.into() });
        Ok(())
    }
}
