//! Failures of the connection manager's calls that a user injects: the engine decides, `librdmacm.so.1` fails.

use libc::c_int;
use weft_abi_types::{ibv_context, rdma_cm_event_type};
use weft_verbs::injection::Call;

use crate::context::Context;
use crate::process::Process;

/// Tells how a call of librdmacm is to fail, by its number in [`Call`]. Returns the errno, or 0; then `event` becomes the event by
/// which the call's work fails, or stays as it is. The context may be null: the identifier has no device yet.
pub unsafe extern "C" fn weft_cm_failure(
    context: *mut ibv_context,
    call: u32,
    event: *mut rdma_cm_event_type,
) -> c_int {
    let Some(call) = Call::from_number(call) else { return 0 };
    let (process, device) = if context.is_null() {
        (Process::this(), None)
    } else {
        // SAFETY: an open context of ours.
        let context = unsafe { Context::of(context) };
        (Ok(context.process), Some(context.device))
    };
    // Without an open device there are no failures, and a forked child does not have its parent's.
    let Some(process) = process.ok().filter(|process| !process.is_dead()) else { return 0 };
    match process.may_connect(device, call) {
        Ok(Some(failure)) => {
            // SAFETY: the caller's place for the event.
            unsafe { *event = failure as rdma_cm_event_type };
            0
        }
        Ok(None) => 0,
        Err(errno) => errno,
    }
}
