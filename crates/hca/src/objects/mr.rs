//! Memory region, and the checks of local and remote accesses to it.

use weft_transport::RemoteFault;
use weft_verbs::{Access, PdId, Sge, WcStatus};

/// A registered region. Its L_Key and its R_Key are the same number.
#[derive(Clone, Debug)]
pub(crate) struct Mr {
    pub(crate) pd: PdId,
    pub(crate) key: u32,
    /// First host address.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// First address of the region as keys name it.
    pub(crate) base: u64,
    pub(crate) access: Access,
    /// The null region: any address, reads zeros, discards writes.
    pub(crate) null: bool,
    /// Number of windows bound to it.
    pub(crate) windows: u32,
}

/// Returns the host address of `len` bytes at `va`, in a range of `size` bytes from address `base` that begins at host
/// address `host`.
pub(super) fn translate(va: u64, len: u64, base: u64, size: u64, host: u64) -> Option<u64> {
    let offset = va.checked_sub(base)?;
    let end = offset.checked_add(len)?;
    (end <= size).then(|| host + offset)
}

impl Mr {
    fn translate(&self, va: u64, len: u64) -> Option<u64> {
        if self.null {
            return (len <= self.len).then_some(self.addr);
        }
        translate(va, len, self.base, self.len, self.addr)
    }

    /// Checks an element of a local scatter/gather list.
    pub(crate) fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus> {
        if self.pd != pd || (write && !self.access.contains(Access::LOCAL_WRITE)) {
            return Err(WcStatus::LocProtErr);
        }
        self.translate(sge.addr, u64::from(sge.length)).ok_or(WcStatus::LocProtErr)
    }

    /// Checks a peer's access.
    pub(crate) fn remote(&self, pd: PdId, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault> {
        if self.pd != pd {
            return Err(RemoteFault::WrongDomain);
        }
        if !self.access.contains(need) {
            return Err(RemoteFault::NoRight);
        }
        self.translate(va, len).ok_or(RemoteFault::OutOfBounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translation_is_exact_at_the_edges() {
        assert_eq!(translate(100, 10, 100, 10, 7000), Some(7000));
        assert_eq!(translate(109, 1, 100, 10, 7000), Some(7009));
        assert_eq!(translate(109, 2, 100, 10, 7000), None);
        assert_eq!(translate(99, 1, 100, 10, 7000), None);
        assert_eq!(translate(u64::MAX, 1, 100, 10, 7000), None);
        assert_eq!(translate(105, u64::MAX, 100, 10, 7000), None);
    }
}
