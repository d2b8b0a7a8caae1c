//! Number of objects that the process holds.

use weft_verbs::DeviceId;

use crate::{Hca, HostInterface};

/// Counts of objects, under the names of `rdma resource show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are the tool's.
pub struct HcaUsage {
    pub pd: u32,
    pub cq: u32,
    pub qp: u32,
    pub mr: u32,
    pub srq: u32,
}

impl<H: HostInterface> Hca<H> {
    /// Counts the current objects on all devices.
    pub fn usage(&self) -> HcaUsage {
        HcaUsage {
            pd: self.context.pds.len() as u32,
            cq: self.context.cqs.len() as u32,
            qp: self.qps.len() as u32,
            mr: self.context.keys.mrs.len() as u32,
            srq: self.context.srqs.len() as u32,
        }
    }
    /// Counts the current objects on one device. It visits every object.
    pub fn usage_of(&self, device: DeviceId) -> HcaUsage {
        let context = &self.context;
        let in_pd = |pd| context.pds.get(pd).is_ok_and(|pd| pd.device == device);
        HcaUsage {
            pd: context.pds.iter().filter(|(_, pd)| pd.device == device).count() as u32,
            cq: context.cqs.iter().filter(|(_, cq)| cq.device == device).count() as u32,
            qp: self.qps.iter().filter(|(_, entry)| entry.device == device).count() as u32,
            mr: context.keys.mrs.iter().filter(|(_, mr)| in_pd(mr.pd)).count() as u32,
            srq: context.srqs.iter().filter(|(_, srq)| srq.device == device).count() as u32,
        }
    }
}
