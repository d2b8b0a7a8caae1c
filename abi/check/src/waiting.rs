//! Waits for completion events that never come.
//!
//! A program that arms a queue and then waits has lost what the queue already held: no event announces it. Some adapters, and
//! Weft, raise an event all the same, which hides the mistake. So the checker takes out what a queue holds when it is armed,
//! and gives it back at the next polls. If the program waits before it has polled all of that, and no other thread polls it
//! either, the mistake is certain. The checker then makes up the event, and the program goes on.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libc::c_int;
use weft_abi_types::{ibv_comp_channel, ibv_cq, ibv_wc};
use weft_check::model::Handle;

use crate::arguments::handle;
use crate::call::{self, Call};
use crate::{errno, order, state, table};

/// Another thread that polls the queue does so within this time.
const GRACE_MS: u64 = 150;
/// A wait that is looked at.
const LONG_WAIT_MS: u64 = 150;
/// Completions taken out of a queue at a time.
const HELD_MAX: usize = 64;

/// Notes that epoll watches a descriptor.
pub fn note_epoll(fd: c_int) {
    state::with(|state| {
        if state.waits.channels.contains_key(&fd) {
            state.waits.epolled.insert(fd);
        }
    });
}

/// A channel was created.
pub fn channel_created(fd: c_int, channel: Handle) {
    state::with(|state| {
        state.waits.epolled.remove(&fd);
        state.waits.channels.insert(fd, channel);
    });
}

/// A channel is about to be destroyed.
pub fn channel_destroyed(channel: Handle) {
    state::with(|state| state.waits.channels.retain(|_, other| *other != channel));
}

/// Takes out the completions held back of a queue that is about to be destroyed.
pub fn take_held(cq: Handle) -> VecDeque<ibv_wc> {
    state::with(|state| state.held.remove(&cq)).unwrap_or_default()
}

/// Drops the completions held back of a queue pair that was destroyed or reset: adapters drop those that they still have, and
/// the program may have freed what their wr_id points to.
pub fn queue_pair_gone(cqs: [*mut ibv_cq; 2], number: u32) {
    if !state::has_held() {
        return;
    }
    state::with(|state| {
        for cq in cqs {
            if let Some(held) = state.held.get_mut(&handle(cq)) {
                held.retain(|completion| completion.qp_num != number);
            }
        }
        state.held.retain(|_, held| !held.is_empty());
    });
}

/// Puts them back: the queue could not be destroyed.
pub fn give_back(cq: Handle, held: VecDeque<ibv_wc>) {
    if !held.is_empty() {
        state::with(|state| state.held.insert(cq, held));
    }
}

/// A completion queue was created: forgets an earlier one at its address. Not when that was destroyed: until the library has
/// destroyed it, another thread may acknowledge its events, for which the library waits.
pub fn queue_created(cq: Handle) {
    state::with(|state| {
        state.held.remove(&cq);
        state.waits.promised.remove(&cq);
        state.waits.synthetic.remove(&cq);
    });
}

/// Takes out what a queue holds that is about to be armed.
///
/// # Safety
/// A live queue.
pub unsafe fn hold(cq: *mut ibv_cq) {
    // SAFETY: the caller's promise; a queue's channel lives longer than the queue.
    unsafe {
        let channel = (*cq).channel;
        let Some(poll) = table::find((*cq).context).and_then(|originals| originals.ops.poll_cq) else { return };
        if channel.is_null() || !is_watched(handle(cq), handle(channel), (*channel).fd) {
            return;
        }
        let _queue = order::lock_of(handle(cq));
        let mut held = std::mem::zeroed::<[ibv_wc; HELD_MAX]>();
        let count = poll(cq, HELD_MAX as c_int, held.as_mut_ptr());
        let count = usize::try_from(count).unwrap_or(0).min(HELD_MAX);
        if count > 0 {
            state::HAS_HELD.store(true, Ordering::Relaxed);
            state::with(|state| state.held.entry(handle(cq)).or_default().extend(&held[..count]));
        }
    }
}

/// Whether the checker sees all waits for the queue's events. Programs wait with epoll and the like for descriptors that do
/// not block. Extended queues are polled in place: nothing can be given back.
fn is_watched(cq: Handle, channel: Handle, fd: c_int) -> bool {
    let is_seen = state::with(|state| {
        let waits = &state.waits;
        let has_waiter = waits.waiters.get(&channel).is_some_and(|count| *count > 0);
        state.model.is_plain_cq(cq) && !waits.epolled.contains(&fd) && !has_waiter
    });
    is_seen && blocks(fd)
}

fn blocks(fd: c_int) -> bool {
    // SAFETY: a number alone.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

/// The armed queues of a channel that hold completions from before they were armed.
fn undrained(call: &Call, channel: Handle) -> Vec<Handle> {
    if !state::has_held() {
        return Vec::new();
    }
    let armed = call.tell_briefly(|model, _, _| model.armed_queues(channel));
    state::with(|state| armed.into_iter().filter(|cq| state.held.contains_key(cq)).collect())
}

/// The outcome of looking at a wait before it begins.
pub enum Wait {
    /// The library waits.
    Library,
    /// The checker makes up an event of this queue.
    Synthetic(Handle),
    /// A signal has ended the wait.
    Interrupted,
}

/// Prepares a wait of the program for an event.
///
/// # Safety
/// A live channel.
pub unsafe fn before_event(call: &Call, channel: *mut ibv_comp_channel) -> Wait {
    // SAFETY: the caller's promise.
    let fd = unsafe { (*channel).fd };
    if !blocks(fd) || wait_for(fd, 0) != Readiness::Quiet {
        return Wait::Library;
    }
    let is_drained = undrained(call, handle(channel)).is_empty();
    let promised = |cq: &Handle| state::with(|state| state.waits.promised.remove(cq));
    if let Some(cq) = undrained(call, handle(channel)).into_iter().find(promised) {
        return Wait::Synthetic(synthesize(call, cq));
    }
    match wait_for(fd, if is_drained { LONG_WAIT_MS } else { GRACE_MS }) {
        Readiness::Ready => return Wait::Library,
        Readiness::Interrupted => return Wait::Interrupted,
        Readiness::Quiet => {}
    }
    if is_drained {
        if !call::have_several_threads() {
            call.tell(|model, site| model.check_armed(handle(channel), site));
        }
        return Wait::Library;
    }
    let Some(cq) = undrained(call, handle(channel)).first().copied() else { return Wait::Library };
    call.tell(|model, site| model.report_undrained(cq, site));
    Wait::Synthetic(synthesize(call, cq))
}

fn synthesize(call: &Call, cq: Handle) -> Handle {
    call.tell_briefly(|model, _, _| model.take_event(cq));
    state::with(|state| *state.waits.synthetic.entry(cq).or_default() += 1);
    cq
}

/// The events of this acknowledgement that the library knows.
pub fn known_events(cq: Handle, count: u32) -> u32 {
    state::with(|state| {
        let Some(synthetic) = state.waits.synthetic.get_mut(&cq) else { return count };
        let own = count.min(*synthetic);
        *synthetic -= own;
        count - own
    })
}

/// A thread waits in the library for an event of the channel, until the value is dropped.
pub struct Waiter(Handle);

impl Waiter {
    /// Counts the thread.
    pub fn new(channel: *mut ibv_comp_channel) -> Waiter {
        state::with(|state| *state.waits.waiters.entry(handle(channel)).or_default() += 1);
        Waiter(handle(channel))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        state::with(|state| {
            if let Some(count) = state.waits.waiters.get_mut(&self.0) {
                *count -= 1;
            }
            state.waits.waiters.retain(|_, count| *count > 0);
        });
    }
}

/// The channels among these descriptors that have undrained queues.
pub fn undrained_among(call: &Call, fds: &[libc::pollfd]) -> Vec<(c_int, Handle)> {
    let channels: Vec<_> = state::with(|state| {
        let waits = &state.waits;
        fds.iter().filter_map(|fd| Some((fd.fd, *waits.channels.get(&fd.fd)?))).collect()
    });
    let first = |(fd, channel): (c_int, Handle)| Some((fd, *undrained(call, channel).first()?));
    channels.into_iter().filter_map(first).collect()
}

/// Reports queues that poll(2) waits for in vain, and promises their events.
pub fn promise(call: &Call, found: &[(c_int, Handle)]) {
    for (_, cq) in found {
        call.tell(|model, site| model.report_undrained(*cq, site));
        state::with(|state| state.waits.promised.insert(*cq));
    }
}

/// The time that another thread gets to poll a queue.
pub fn grace_ms(limit_ms: c_int) -> c_int {
    // A negative limit is none.
    u64::try_from(limit_ms).map_or(GRACE_MS, |limit_ms| limit_ms.min(GRACE_MS)) as c_int
}

/// A descriptor after a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// A read does not wait.
    Ready,
    /// The time is over.
    Quiet,
    /// A signal arrived that ends system calls.
    Interrupted,
}

fn wait_for(fd: c_int, limit_ms: u64) -> Readiness {
    let end = Instant::now() + Duration::from_millis(limit_ms);
    loop {
        let left_ms = end.saturating_duration_since(Instant::now()).as_millis();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor. This is the wrapper of this library, which passes calls of a thread in a wrapper on.
        let ready = unsafe { libc::poll(&mut poll, 1, c_int::try_from(left_ms).unwrap_or(c_int::MAX)) };
        match ready {
            0 => return Readiness::Quiet,
            -1 if errno::get() == libc::EINTR && !handlers_restart_calls() => return Readiness::Interrupted,
            -1 if errno::get() == libc::EINTR => {}
            _ => return Readiness::Ready,
        }
    }
}

/// Whether system calls go on after every signal that the program handles (`SA_RESTART`). The library's read would then; the
/// call in which the checker waits never does. A program with both kinds of handlers expects that the call may end.
fn handlers_restart_calls() -> bool {
    const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;
    SIGNALS.into_iter().all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a place for the action, of which zeroes are a valid one. The C library refuses its own signals.
        let action = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        let has_handler = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        !has_handler || action.sa_flags & libc::SA_RESTART != 0
    })
}
