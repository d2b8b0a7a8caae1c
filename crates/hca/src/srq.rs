//! Operations on shared receive queues, plain and XRC.

use weft_transport::RecvWqe;
use weft_verbs::injection::Call;
use weft_verbs::{
    AsyncEvent, AsyncSubject, DeviceId, RecvWr, SGE_MAX, SRQ_WR_MAX, SrqAttr, SrqId, SrqInit, VerbsError,
};

use crate::context::HcaContext;
use crate::{Hca, HostInterface};

impl<H: HostInterface> HcaContext<H> {
    /// Takes the oldest receive. If fewer than the limit remain, raises the event and disarms the limit.
    pub(crate) fn take_srq_recv(&mut self, id: SrqId) -> Option<RecvWqe> {
        let srq = self.srqs.get_mut(id).ok()?;
        let (wqe, limit_reached) = srq.take()?;
        if limit_reached {
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
        self.context.may_call(device, Call::CreateSrq, None)?;
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
        let id = self.context.srqs.insert(&mut self.context.rng, device, init)?;
        self.hold_pd(init.pd)?;
        if let Some((xrcd, cq)) = init.xrc {
            self.context.xrcds.get_mut(xrcd)?.uses += 1;
            self.context.cqs.get_mut(cq)?.uses += 1;
        }
        // An event may have waited for a queue.
        self.note_ready(self.context.now);
        Ok(id)
    }

    /// Changes the size (`set_max`), arms the limit event (`set_limit`), or both; on an error nothing has changed.
    pub fn modify_srq(&mut self, id: SrqId, attr: &SrqAttr, set_max: bool, set_limit: bool) -> Result<(), VerbsError> {
        self.context.srqs.get_mut(id)?.modify(attr, set_max, set_limit)
    }

    /// Returns the sizes, and the limit: 0 if its event has been raised.
    pub fn query_srq(&self, id: SrqId) -> Result<SrqAttr, VerbsError> {
        Ok(self.context.srqs.get(id)?.attr())
    }

    /// Returns the number by which XRC peers name it.
    pub fn srq_number(&self, id: SrqId) -> Result<u32, VerbsError> {
        Ok(self.context.srqs.get(id)?.number())
    }

    /// Destroys a shared receive queue; busy while queue pairs receive from it.
    pub fn destroy_srq(&mut self, id: SrqId) -> Result<(), VerbsError> {
        if self.context.srqs.get(id)?.uses > 0 {
            return Err(VerbsError::Busy("queue pairs use the shared receive queue"));
        }
        let srq = self.context.srqs.remove(id)?;
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

    /// Posts a receive. Injected events do not count it: it belongs to no queue pair yet.
    pub fn post_srq_recv(&mut self, id: SrqId, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        self.context.srqs.get_mut(id)?.post(wr)?;
        if self.context.injector.is_some() {
            self.fail_srq_recv(id, wr);
        }
        if !self.paused_streams.is_empty() {
            self.resume_streams(id);
        }
        Ok(())
    }
}
