//! The calls that inline functions take from a context: posts, polls, arming, memory windows.

use libc::c_int;
use weft_abi_types::{
    ibv_context, ibv_cq, ibv_mw, ibv_mw_bind, ibv_mw_type, ibv_pd, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_wc,
};
use weft_check::model::{Completion, Kind, Mw, Opcode, QpKind, QpState, SendFlags, SendRequest};

use crate::arguments::{self, handle};
use crate::call::Call;
use crate::capacity::FirstExcess;
use crate::{destruction, order, state, table, waiting};

/// Takes an original call of a context. A context without an entry is one that this library did not wrap; its calls never
/// come here.
macro_rules! original {
    ($context:expr, $op:ident, $failure:expr) => {
        match table::find($context).and_then(|originals| originals.ops.$op) {
            Some(op) => op,
            None => return $failure,
        }
    };
}

/// The number of requests of a list that the library refused: from the one that it names to the end.
///
/// # Safety
/// The list has `count` requests, and `bad` is null or the library has filled it in.
unsafe fn refused<W>(
    result: c_int,
    first: *const W,
    count: usize,
    next: impl Fn(&W) -> *mut W,
    bad: *const *mut W,
) -> usize {
    // SAFETY: the caller's promise.
    let Some(bad) = (unsafe { bad.as_ref() }).filter(|_| result != 0) else {
        return if result == 0 { 0 } else { count };
    };
    let mut at = first;
    for accepted in 0..count {
        if at == bad.cast_const() {
            return count - accepted;
        }
        // SAFETY: the list goes on.
        at = unsafe { next(&*at) };
    }
    0
}

pub unsafe extern "C" fn post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
    // SAFETY: the program's promise to ibv_post_send.
    unsafe {
        let next = original!((*qp).context, post_send, libc::EINVAL);
        let Some(call) = Call::enter("ibv_post_send") else { return next(qp, wr, bad) };
        let (state, kind) = (QpState::from_verbs((*qp).state), QpKind::from_verbs((*qp).qp_type));
        let wrs = arguments::list(wr, |wr| wr.next);
        let _queue = order::lock_of(handle(qp));
        let mut excess = FirstExcess::default();
        call.tell_with_memory(|model, memory, site| {
            for (place, wr) in wrs.iter().enumerate() {
                excess.note(place, model.post_send(handle(qp), state, arguments::send_request(wr, kind), memory, site));
            }
        });
        let result = next(qp, wr, bad);
        let refused = refused(result, wr, wrs.len(), |wr| wr.next, bad);
        if refused > 0 {
            call.tell(|model, _| model.unpost_send(handle(qp), refused));
        }
        excess.settle(&call, wrs.len() - refused, result);
        result
    }
}

pub unsafe extern "C" fn post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: the program's promise to ibv_post_recv.
    unsafe {
        let next = original!((*qp).context, post_recv, libc::EINVAL);
        let Some(call) = Call::enter("ibv_post_recv") else { return next(qp, wr, bad) };
        let state = QpState::from_verbs((*qp).state);
        let wrs = arguments::list(wr, |wr| wr.next);
        let _queue = order::lock_of(handle(qp));
        let mut excess = FirstExcess::default();
        call.tell(|model, site| {
            for (place, wr) in wrs.iter().enumerate() {
                excess.note(place, model.post_receive(handle(qp), state, arguments::receive_request(wr), site));
            }
        });
        let result = next(qp, wr, bad);
        let refused = refused(result, wr, wrs.len(), |wr| wr.next, bad);
        if refused > 0 {
            call.tell(|model, _| model.unpost_receive(handle(qp), refused));
        }
        excess.settle(&call, wrs.len() - refused, result);
        result
    }
}

pub unsafe extern "C" fn post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: the program's promise to ibv_post_srq_recv.
    unsafe {
        let next = original!((*srq).context, post_srq_recv, libc::EINVAL);
        let Some(call) = Call::enter("ibv_post_srq_recv") else { return next(srq, wr, bad) };
        let wrs = arguments::list(wr, |wr| wr.next);
        let _queue = order::lock_of(handle(srq));
        let mut excess = FirstExcess::default();
        call.tell(|model, site| {
            for (place, wr) in wrs.iter().enumerate() {
                excess.note(place, model.post_shared_receive(handle(srq), arguments::receive_request(wr), site));
            }
        });
        let result = next(srq, wr, bad);
        let refused = refused(result, wr, wrs.len(), |wr| wr.next, bad);
        if refused > 0 {
            call.tell(|model, _| model.unpost_shared_receive(handle(srq), refused));
        }
        excess.settle(&call, wrs.len() - refused, result);
        result
    }
}

pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program's promise to ibv_poll_cq.
    unsafe {
        let next = original!((*cq).context, poll_cq, -libc::EINVAL);
        let Some(call) = Call::enter("ibv_poll_cq") else { return next(cq, count, wc) };
        let _queue = order::lock_of(handle(cq));
        let held = give_held(cq, count, wc);
        let polled = next(cq, count - held, wc.add(usize::try_from(held).unwrap_or(0)));
        let total = if polled < 0 && held == 0 { polled } else { held + polled.max(0) };
        if total > 0 {
            let completions = std::slice::from_raw_parts(wc, usize::try_from(total).unwrap_or(0));
            call.tell_briefly(|model, memory, site| {
                completions.iter().for_each(|wc| model.complete(handle(cq), completion(wc), memory, site));
            });
        }
        total
    }
}

fn completion(wc: &ibv_wc) -> Completion {
    Completion { wr_id: wc.wr_id, status: wc.status, opcode: wc.opcode, qp_number: wc.qp_num }
}

/// Gives the program the completions that [`crate::waiting`] took out of the queue.
unsafe fn give_held(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    if !state::has_held() {
        return 0;
    }
    let count = usize::try_from(count).unwrap_or(0);
    state::with(|state| {
        let Some(held) = state.held.get_mut(&handle(cq)) else { return 0 };
        let mut given = 0;
        while given < count
            && let Some(completion) = held.pop_front()
        {
            // SAFETY: the program's array has `count` entries.
            unsafe { wc.add(given).write(completion) };
            given += 1;
        }
        if held.is_empty() {
            state.held.remove(&handle(cq));
        }
        c_int::try_from(given).unwrap_or(0)
    })
}

pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program's promise to ibv_req_notify_cq.
    unsafe {
        let next = original!((*cq).context, req_notify_cq, libc::EINVAL);
        let Some(call) = Call::enter("ibv_req_notify_cq") else { return next(cq, solicited_only) };
        if solicited_only == 0 {
            waiting::hold(cq);
        }
        // Before the call: another thread may take the event at once.
        call.tell(|model, site| model.arm(handle(cq), solicited_only != 0, site));
        next(cq, solicited_only)
    }
}

pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    // SAFETY: the program's promise to ibv_alloc_mw.
    unsafe {
        let next = original!((*pd).context, alloc_mw, std::ptr::null_mut());
        let Some(call) = Call::enter("ibv_alloc_mw") else { return next(pd, kind) };
        call.tell(|model, site| model.check_alive(Kind::Pd, handle(pd), site));
        let mw = next(pd, kind);
        if !mw.is_null() {
            let window = Mw { context: handle((*mw).context), pd: handle(pd), created: 0, serial: 0 };
            call.tell(|model, site| model.add_mw(handle(mw), window, site));
        }
        mw
    }
}

pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the program's promise to ibv_dealloc_mw.
    unsafe {
        let next = original!((*mw).context, dealloc_mw, libc::EINVAL);
        let Some(call) = Call::enter("ibv_dealloc_mw") else { return next(mw) };
        destruction::destroy(&call, Kind::Mw, handle(mw), || next(mw))
    }
}

pub unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: the program's promise to ibv_bind_mw.
    unsafe {
        let next = original!((*qp).context, bind_mw, libc::EINVAL);
        let Some(call) = Call::enter("ibv_bind_mw") else { return next(qp, mw, bind) };
        let request = SendRequest {
            wr_id: (*bind).wr_id,
            opcode: Opcode::BIND_WINDOW,
            flags: SendFlags((*bind).send_flags),
            sges: Vec::new(),
            remote_address: 0,
            ah: 0,
            binding: Some(arguments::binding(handle(mw), &(*bind).bind_info)),
        };
        let state = QpState::from_verbs((*qp).state);
        let _queue = order::lock_of(handle(qp));
        let mut excess = FirstExcess::default();
        call.tell_with_memory(|model, memory, site| {
            excess.note(0, model.post_send(handle(qp), state, request, memory, site));
        });
        let result = next(qp, mw, bind);
        if result != 0 {
            call.tell(|model, _| model.unpost_send(handle(qp), 1));
        }
        excess.settle(&call, usize::from(result == 0), result);
        result
    }
}

/// Replaces a context's calls. No other thread uses it yet.
///
/// # Safety
/// An open context.
pub unsafe fn wrap(context: *mut ibv_context) {
    // SAFETY: the caller's promise. Calls that the library lacks stay empty.
    unsafe {
        let ops = &mut (*context).ops;
        ops.post_send = ops.post_send.map(|_| post_send as _);
        ops.post_recv = ops.post_recv.map(|_| post_recv as _);
        ops.post_srq_recv = ops.post_srq_recv.map(|_| post_srq_recv as _);
        ops.poll_cq = ops.poll_cq.map(|_| poll_cq as _);
        ops.req_notify_cq = ops.req_notify_cq.map(|_| req_notify_cq as _);
        ops.alloc_mw = ops.alloc_mw.map(|_| alloc_mw as _);
        ops.dealloc_mw = ops.dealloc_mw.map(|_| dealloc_mw as _);
        ops.bind_mw = ops.bind_mw.map(|_| bind_mw as _);
    }
}

/// Whether a context's calls are replaced already.
///
/// # Safety
/// An open context.
pub unsafe fn is_wrapped(context: *mut ibv_context) -> bool {
    // SAFETY: the caller's promise.
    let own = unsafe { (*context).ops.post_send };
    own.is_some_and(|call| call as usize == post_send as *const () as usize)
}
