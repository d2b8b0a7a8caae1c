//! Lists of receives, and the gather and scatter lists of all work requests.

use libc::c_int;
use weft_abi_types::{ibv_recv_wr, ibv_sge};
use weft_verbs::{RecvWr, SGE_MAX, Sge, VerbsError};

use crate::alignment::Copies;
use crate::errors::{fail, of_verbs};
use crate::process::{Adapter, Process};

const _: () = assert!(size_of::<Sge>() == size_of::<ibv_sge>() && align_of::<Sge>() == align_of::<ibv_sge>());

/// Room for a gather or scatter list that is not aligned.
pub(crate) type Sges = Copies<Sge, { SGE_MAX as usize }>;

/// Returns a gather or scatter list, mostly without a copy: C and Rust elements have the same layout.
///
/// # Safety
/// The caller's list has that many elements.
#[inline]
pub(crate) unsafe fn sges(list: *const ibv_sge, count: c_int, copies: &mut Sges) -> Result<&[Sge], VerbsError> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: by the contract. The guard refuses a longer list without reading it.
        Ok(n) if n <= SGE_MAX as usize && !list.is_null() => Ok(unsafe { copies.aligned(list.cast(), n) }),
        _ => Err(VerbsError::Invalid("num_sge and sg_list")),
    }
}

/// Posts a list of receives, each by `post`, if `may_post` lets the call pass.
///
/// # Safety
/// `first` is null or the head of a list, `bad_wr` null or a place for the refused request.
#[inline]
pub(crate) unsafe fn post_recvs(
    process: Process,
    first: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    may_post: impl FnOnce(&mut Adapter) -> Result<(), VerbsError>,
    post: impl Fn(&mut Adapter, &RecvWr<'_>) -> Result<(), VerbsError>,
) -> c_int {
    let mut at = first;
    let posted = process.post_recvs(|hca| {
        may_post(hca)?;
        while !at.is_null() {
            let (mut requests, mut lists) = (Copies::<_, 1>::new(), Sges::new());
            // SAFETY: by the contract.
            let [wr] = (unsafe { requests.aligned(at, 1) }) else { break };
            // SAFETY: by the contract.
            let sges = unsafe { sges(wr.sg_list, wr.num_sge, &mut lists) }?;
            post(hca, &RecvWr { wr_id: wr.wr_id, sges })?;
            at = wr.next;
        }
        Ok(())
    });
    match posted {
        Ok(()) => 0,
        Err(error) => {
            if !bad_wr.is_null() {
                // SAFETY: by the contract.
                unsafe { *bad_wr = at };
            }
            fail(of_verbs(error))
        }
    }
}
