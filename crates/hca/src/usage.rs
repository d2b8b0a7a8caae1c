//! How many objects the process holds.

use weft_transport::Memory;

use crate::Hca;

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

impl<M: Memory> Hca<M> {
    /// What there is now, on all devices.
    pub fn usage(&self) -> HcaUsage {
        HcaUsage {
            pd: self.world.pds.len() as u32,
            cq: self.world.cqs.len() as u32,
            qp: self.qps.len() as u32,
            mr: self.world.keys.mrs.len() as u32,
            srq: self.world.srqs.len() as u32,
        }
    }
}
