//! Memory windows of type 2: a region's memory that one queue pair lends to its peer by a work request, until the peer
//! or the owner invalidates the key.

use std::io;

use weft_abi_types::{
    IBV_DEVICE_MEM_WINDOW_TYPE_2A, IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_MW_TYPE_2, IBV_WR_BIND_MW, ibv_mr, ibv_mw,
    ibv_mw_bind_info, ibv_send_wr_bind_mw, ibv_send_wr_op, inlines,
};

use super::{Buffer, Context, Op, Pd, Qp, SendRequest, Sge, check, check_ptr};

/// Bits of an R_Key that its owner chooses.
const OWN_BITS: u32 = 0xff;

/// A memory window, unbound at first. It must be dropped before the queue pair that it is bound on, or after.
#[derive(Debug)]
pub struct Window {
    pd: Pd,
    ptr: *mut ibv_mw,
}

impl Window {
    /// Allocates a window.
    pub fn new(pd: &Pd) -> io::Result<Window> {
        // SAFETY: the domain is alive, and stays so as long as the window (it holds a clone).
        let ptr = check_ptr(unsafe { inlines::ibv_alloc_mw(pd.ptr(), IBV_MW_TYPE_2) })?;
        Ok(Window { pd: pd.clone(), ptr })
    }

    /// Returns the key that the next [`Qp::post_bind`] sets.
    pub fn next_rkey(&self) -> u32 {
        let now = self.rkey();
        now & !OWN_BITS | now.wrapping_add(1) & OWN_BITS
    }

    /// Returns the current key.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the window is alive.
        unsafe { (*self.ptr).rkey }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window is alive. From here on the peer cannot reach the memory by its key.
        let _ = check(unsafe { inlines::ibv_dealloc_mw(self.ptr) });
        let _ = &self.pd;
    }
}

impl Context {
    /// Whether the device has windows of type 2, whose keys a peer's SEND can invalidate.
    pub fn has_windows(&self) -> io::Result<bool> {
        let flags = self.query_device()?.orig_attr.device_cap_flags;
        Ok(flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0)
    }
}

impl Qp {
    /// Posts the bind of a window to the first `length` bytes of a buffer, with the peer's rights `access`. The buffer's
    /// region has `IBV_ACCESS_MW_BIND`. The key is valid for requests that are posted later. Only a failure generates a
    /// completion.
    pub fn post_bind(
        &self,
        window: &mut Window,
        buffer: &Buffer,
        length: usize,
        access: u32,
        wr_id: u64,
    ) -> io::Result<()> {
        let (rkey, piece) = (window.next_rkey(), buffer.sge(0, length));
        let mut wr = SendRequest { wr_id, piece, op: Op::Send, signaled: false, inline: false }.raw();
        wr.opcode = IBV_WR_BIND_MW;
        wr.num_sge = 0;
        let bind_info = bind_info(buffer.region(), piece, access);
        wr.op = ibv_send_wr_op { bind_mw: ibv_send_wr_bind_mw { mw: window.ptr, rkey, bind_info } };
        let mut bad = std::ptr::null_mut();
        // SAFETY: queue pair, window and region are alive; the request is read during the call only.
        check(unsafe { inlines::ibv_post_send(self.ptr(), &mut wr, &mut bad) })?;
        // SAFETY: the window is alive; its owner keeps the current key there, which the next bind starts from.
        unsafe { (*window.ptr).rkey = rkey };
        Ok(())
    }
}

fn bind_info(mr: *mut ibv_mr, piece: Sge, access: u32) -> ibv_mw_bind_info {
    ibv_mw_bind_info { mr, addr: piece.addr, length: piece.length.into(), mw_access_flags: access }
}
