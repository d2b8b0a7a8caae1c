//! Completion queues that programs poll in place (`ibv_start_poll`).

use std::collections::BTreeMap;

use libc::c_int;
use weft_abi_types::{ibv_cq_ex, ibv_poll_cq_attr};
use weft_check::model::Completion;

use crate::arguments::handle;
use crate::call::Call;
use crate::lock::Guarded;

type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
type NextPoll = unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int;

/// The library's calls of a queue.
#[derive(Clone, Copy)]
pub struct Polls {
    start: Option<StartPoll>,
    next: Option<NextPoll>,
}

/// The library's calls of each queue.
static QUEUES: Guarded<BTreeMap<u64, Polls>> = Guarded::new(BTreeMap::new());

/// Replaces the calls of a new queue.
///
/// # Safety
/// No other thread uses the queue yet.
pub unsafe fn wrap(cq: *mut ibv_cq_ex) {
    // SAFETY: the caller's promise.
    unsafe {
        let polls = Polls { start: (*cq).start_poll, next: (*cq).next_poll };
        QUEUES.with(|queues| queues.insert(handle(cq), polls));
        (*cq).start_poll = polls.start.map(|_| start_poll as StartPoll);
        (*cq).next_poll = polls.next.map(|_| next_poll as NextPoll);
    }
}

/// Takes out a queue that is about to be destroyed.
pub fn take(cq: u64) -> Option<Polls> {
    QUEUES.with(|queues| queues.remove(&cq))
}

/// Puts a queue back that could not be destroyed.
pub fn give_back(cq: u64, polls: Polls) {
    QUEUES.with(|queues| queues.insert(cq, polls));
}

/// Whether the queue is extended. Its library's lock orders its pollers, and is held between their calls.
pub fn is_extended(cq: u64) -> bool {
    QUEUES.with(|queues| queues.contains_key(&cq))
}

/// Before a fork.
pub fn before_fork() {
    QUEUES.before_fork();
}

/// After a fork, in the parent.
pub fn after_fork() {
    QUEUES.after_fork();
}

/// After a fork, in the child: the calls of its parent's queues still go to their library.
pub fn in_child() {
    QUEUES.in_child();
}

fn polls(cq: *mut ibv_cq_ex) -> Option<Polls> {
    QUEUES.with(|queues| queues.get(&handle(cq)).copied())
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let Some(next) = polls(cq).and_then(|polls| polls.start) else { return libc::EINVAL };
    let call = Call::enter("ibv_start_poll");
    // SAFETY: the program's promise to ibv_start_poll.
    unsafe { polled(call, cq, || next(cq, attr)) }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some(next) = polls(cq).and_then(|polls| polls.next) else { return libc::EINVAL };
    let call = Call::enter("ibv_next_poll");
    // SAFETY: the program's promise to ibv_next_poll.
    unsafe { polled(call, cq, || next(cq)) }
}

/// # Safety
/// A live queue.
unsafe fn polled(call: Option<Call>, cq: *mut ibv_cq_ex, next: impl FnOnce() -> c_int) -> c_int {
    let Some(call) = call else { return next() };
    let result = next();
    // SAFETY: the library has placed the queue on a completion if it returned 0; the calls exist in every such queue.
    unsafe {
        if result == 0
            && let (Some(read_opcode), Some(read_qp_number)) = ((*cq).read_opcode, (*cq).read_qp_num)
        {
            let completion = Completion {
                wr_id: (*cq).wr_id,
                status: (*cq).status,
                opcode: read_opcode(cq),
                qp_number: read_qp_number(cq),
            };
            call.tell_briefly(|model, memory, site| model.complete(handle(cq), completion, memory, site));
        }
    }
    result
}
