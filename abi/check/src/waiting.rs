//! Waits for completion events that never come.
//!
//! A program that arms a queue and then waits hangs if the queue already held a completion: no event announces it. A wait that
//! takes long is looked at more closely. If an armed queue holds a completion that no thread takes, and no event comes for
//! it, the program has missed it. The checker takes the completion out to see it, and gives it back at the next poll.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_abi_types::{ibv_comp_channel, ibv_cq, ibv_wc};
use weft_check::model::Handle;

use crate::arguments::handle;
use crate::call::{self, Call};
use crate::{order, state, table};

/// A wait that is looked at.
const LONG_WAIT_MS: c_int = 150;
/// An event for a completion comes within this time.
const EVENT_DELAY_MS: c_int = 100;

/// Waits for an event of the channel until it comes, or until a wait of any length is none of the program's mistakes.
///
/// # Safety
/// A live channel.
pub unsafe fn watch(call: &Call, channel: *mut ibv_comp_channel) {
    // SAFETY: the caller's promise.
    let fd = unsafe { (*channel).fd };
    // SAFETY: a number alone.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 || flags & libc::O_NONBLOCK != 0 || is_ready_within(fd, LONG_WAIT_MS) {
        return;
    }
    let armed = call.tell(|model, _| model.armed_queues(handle(channel)));
    let missed: Vec<_> = armed.into_iter().filter(|cq| stash_one(*cq)).collect();
    if missed.is_empty() {
        if !call::have_several_threads() {
            call.tell(|model, site| model.check_armed(handle(channel), site));
        }
        return;
    }
    if is_ready_within(fd, EVENT_DELAY_MS) {
        return;
    }
    // Another thread that polls the queue has taken the completion meanwhile.
    let left = state::with(|state| missed.into_iter().filter(|cq| state.stash.contains_key(cq)).collect::<Vec<_>>());
    for cq in left {
        call.tell(|model, site| model.report_undrained(cq, site));
    }
}

/// Whether the wait ends: an event, or a signal.
fn is_ready_within(fd: c_int, limit_ms: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&mut poll, 1, limit_ms) != 0 }
}

/// Takes one completion out of an armed queue, if it holds any.
fn stash_one(cq: Handle) -> bool {
    let Ok(address) = usize::try_from(cq) else { return false };
    let pointer: *mut ibv_cq = std::ptr::with_exposed_provenance_mut(address);
    let _turn = order::turn_of(cq);
    // Extended queues are polled in place: nothing can be given back.
    if state::with(|state| !state.model.is_plain_cq(cq) || state.stash.contains_key(&cq)) {
        return false;
    }
    // SAFETY: the model knows the queue as live, and the turn keeps other pollers away.
    unsafe {
        let Some(poll) = table::find((*pointer).context).and_then(|originals| originals.ops.poll_cq) else {
            return false;
        };
        let mut wc = std::mem::zeroed::<ibv_wc>();
        if poll(pointer, 1, &mut wc) != 1 {
            return false;
        }
        state::HAS_STASH.store(true, Ordering::Relaxed);
        state::with(|state| state.stash.entry(cq).or_default().push_back(wc));
    }
    true
}
