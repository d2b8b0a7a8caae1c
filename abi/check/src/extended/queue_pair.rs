//! Queue pairs whose requests programs build call by call (`ibv_wr_start` to `ibv_wr_complete`).

use std::collections::BTreeMap;

use libc::{c_int, c_void};
use weft_abi_types::{
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_FLUSH, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_WR_ATOMIC_WRITE,
    IBV_WR_FLUSH, api, be32, ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_qp_init_attr_ex,
    ibv_sge,
};
use weft_check::model::{Opcode, QpState, SendFlags, SendRequest, Sge};

use crate::arguments::{self, handle};
use crate::call::Call;
use crate::capacity::FirstExcess;
use crate::lock::Guarded;
use crate::next::next;

/// Requests between start and complete; the model sees no more.
const BUILT_MAX: usize = 1 << 16;
/// `IBV_SEND_INLINE`.
const INLINE: u32 = 8;

/// The library's calls of a queue pair, and the requests that the program builds.
pub struct Queue {
    calls: Calls,
    built: Vec<SendRequest>,
}

static QUEUES: Guarded<BTreeMap<u64, Queue>> = Guarded::new(BTreeMap::new());

/// Reads or changes a queue pair, if it has these calls.
fn with<R>(qp: *mut ibv_qp_ex, f: impl FnOnce(&mut Queue) -> R) -> Option<R> {
    QUEUES.with(|queues| queues.get_mut(&handle(qp)).map(f))
}

/// Changes the request that the program is building.
fn set(qp: *mut ibv_qp_ex, f: impl FnOnce(&mut SendRequest)) {
    with(qp, |queue| queue.built.last_mut().map(f));
}

/// Whether the queue pair has these calls. Its library's lock orders its posts, and is held between the calls.
pub fn is_extended(qp: u64) -> bool {
    QUEUES.with(|queues| queues.contains_key(&qp))
}

/// Takes out a queue pair that is about to be destroyed.
pub fn take(qp: u64) -> Option<Queue> {
    QUEUES.with(|queues| queues.remove(&qp))
}

/// Puts a queue pair back that could not be destroyed.
pub fn give_back(qp: u64, queue: Queue) {
    QUEUES.with(|queues| queues.insert(qp, queue));
}

/// Before a fork.
pub fn before_fork() {
    QUEUES.before_fork();
}

/// After a fork, in the parent.
pub fn after_fork() {
    QUEUES.after_fork();
}

/// After a fork, in the child: the calls of its parent's queue pairs still go to their library.
pub fn in_child() {
    QUEUES.in_child();
}

/// Replaces the calls of a new queue pair that was created with them.
///
/// # Safety
/// No other thread uses the queue pair yet, and it was created from these attributes.
pub unsafe fn wrap(qp: *mut ibv_qp, attr: &ibv_qp_init_attr_ex) {
    if attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS == 0 {
        return;
    }
    let Some(convert) = next!(ibv_qp_to_qp_ex: api::fn_ibv_qp_to_qp_ex) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        let qp = convert(qp);
        if !qp.is_null() {
            let calls = Calls::read(qp, attr.send_ops_flags);
            QUEUES.with(|queues| queues.insert(handle(qp), Queue { calls, built: Vec::new() }));
            calls.replace(qp);
        }
    }
}

/// Whether a queue pair was created with all of these operations.
fn has_operations(created_with: u64, needed: &[u32]) -> bool {
    needed.iter().all(|operation| created_with & u64::from(*operation) != 0)
}

/// Defines the wrapped calls. In brackets: the operation without which the call is left alone. `struct ibv_qp_ex` grew with it:
/// an older libibverbs has other fields there, and refuses to create queue pairs with the operation.
macro_rules! calls {
    ($($name:ident($($arg:ty),*) $(-> $ret:ty)? $([$operation:ident])?;)*) => {
        /// Calls of a queue pair. A call that it was not created with is `None`.
        #[derive(Clone, Copy)]
        struct Calls {
            $($name: Option<unsafe extern "C" fn(*mut ibv_qp_ex $(, $arg)*) $(-> $ret)?>,)*
        }

        impl Calls {
            unsafe fn read(qp: *mut ibv_qp_ex, created_with: u64) -> Calls {
                // SAFETY: the caller's promise: a live queue pair that was created with these operations.
                unsafe {
                    Calls {
                        $($name: if has_operations(created_with, &[$($operation)?]) { (*qp).$name } else { None },)*
                    }
                }
            }

            unsafe fn replace(&self, qp: *mut ibv_qp_ex) {
                $(
                    if self.$name.is_some() {
                        // SAFETY: the caller's promise: no other thread uses the queue pair. A call was read from the field.
                        unsafe { (*qp).$name = Some($name) };
                    }
                )*
            }
        }
    };
}

calls! {
    wr_start();
    wr_complete() -> c_int;
    wr_abort();
    wr_send();
    wr_send_imm(be32);
    wr_send_inv(u32);
    wr_rdma_read(u32, u64);
    wr_rdma_write(u32, u64);
    wr_rdma_write_imm(u32, u64, be32);
    wr_atomic_cmp_swp(u32, u64, u64, u64);
    wr_atomic_fetch_add(u32, u64, u64);
    wr_local_inv(u32);
    wr_send_tso(*mut c_void, u16, u16);
    wr_atomic_write(u32, u64, *const c_void) [IBV_QP_EX_WITH_ATOMIC_WRITE];
    wr_flush(u32, u64, usize, u8, u8) [IBV_QP_EX_WITH_FLUSH];
    wr_bind_mw(*mut ibv_mw, u32, *const ibv_mw_bind_info);
    wr_set_ud_addr(*mut ibv_ah, u32, u32);
    wr_set_inline_data(*mut c_void, usize);
    wr_set_inline_data_list(usize, *const ibv_data_buf);
    wr_set_sge(u32, u64, u32);
    wr_set_sge_list(usize, *const ibv_sge);
}

/// Begins a request in the model's view.
unsafe fn begin(qp: *mut ibv_qp_ex, opcode: Opcode, remote_address: u64) {
    // SAFETY: the caller's promise: a live queue pair.
    let (wr_id, flags) = unsafe { ((*qp).wr_id, SendFlags((*qp).wr_flags)) };
    let request = SendRequest { wr_id, opcode, flags, sges: Vec::new(), remote_address, ah: 0, binding: None };
    with(qp, |queue| {
        if queue.built.len() < BUILT_MAX {
            queue.built.push(request);
        }
    });
}

/// Defines the calls that begin a request.
macro_rules! operations {
    ($($name:ident($($arg:ident: $type:ty),*) is $opcode:expr, remote $remote:expr;)*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $arg: $type)*) {
            // SAFETY: the program's promise to the call of this name.
            unsafe {
                begin(qp, $opcode, $remote);
                if let Some(next) = with(qp, |queue| queue.calls.$name).flatten() {
                    next(qp $(, $arg)*);
                }
            }
        }
    )*};
}

operations! {
    wr_send() is Opcode::SEND, remote 0;
    wr_send_imm(imm: be32) is Opcode::SEND_WITH_IMM, remote 0;
    wr_send_inv(rkey: u32) is Opcode::SEND_WITH_INVALIDATE, remote 0;
    wr_rdma_read(rkey: u32, remote: u64) is Opcode::READ, remote remote;
    wr_rdma_write(rkey: u32, remote: u64) is Opcode::WRITE, remote remote;
    wr_rdma_write_imm(rkey: u32, remote: u64, imm: be32) is Opcode::WRITE_WITH_IMM, remote remote;
    wr_atomic_cmp_swp(rkey: u32, remote: u64, compare: u64, swap: u64) is Opcode::COMPARE_SWAP, remote remote;
    wr_atomic_fetch_add(rkey: u32, remote: u64, add: u64) is Opcode::FETCH_ADD, remote remote;
    wr_local_inv(rkey: u32) is Opcode::LOCAL_INVALIDATE, remote 0;
    wr_send_tso(header: *mut c_void, header_length: u16, mss: u16) is Opcode::TSO, remote 0;
    wr_atomic_write(rkey: u32, remote: u64, value: *const c_void) is Opcode(IBV_WR_ATOMIC_WRITE), remote remote;
    wr_flush(rkey: u32, remote: u64, length: usize, kind: u8, level: u8) is Opcode(IBV_WR_FLUSH), remote remote;
}

/// Defines the calls that change the request begun last.
macro_rules! setters {
    ($($name:ident($($arg:ident: $type:ty),*) sets |$request:ident| $set:expr;)*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $arg: $type)*) {
            // SAFETY: the program's promise to the call of this name.
            unsafe {
                set(qp, |$request| $set);
                if let Some(next) = with(qp, |queue| queue.calls.$name).flatten() {
                    next(qp $(, $arg)*);
                }
            }
        }
    )*};
}

setters! {
    wr_set_ud_addr(ah: *mut ibv_ah, number: u32, qkey: u32) sets |request| request.ah = handle(ah);
    wr_set_inline_data(address: *mut c_void, length: usize) sets |request| set_inline(request, [length]);
    wr_set_inline_data_list(count: usize, list: *const ibv_data_buf) sets |request| {
        set_inline(request, (0..count).map(|index| (*list.add(index)).length))
    };
    wr_set_sge(lkey: u32, address: u64, length: u32) sets |request| request.sges = vec![Sge { address, length, lkey }];
    wr_set_sge_list(count: usize, list: *const ibv_sge) sets |request| {
        request.sges = arguments::sges(list, i64::try_from(count).unwrap_or(0))
    };
}

fn set_inline(request: &mut SendRequest, lengths: impl IntoIterator<Item = usize>) {
    request.flags.0 |= INLINE;
    let length = |length| u32::try_from(length).unwrap_or(u32::MAX);
    request.sges = lengths.into_iter().map(|bytes| Sge { address: 0, length: length(bytes), lkey: 0 }).collect();
}

unsafe extern "C" fn wr_bind_mw(qp: *mut ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: the program's promise to ibv_wr_bind_mw.
    unsafe {
        begin(qp, Opcode::BIND_WINDOW, 0);
        let binding = info.as_ref().map(|info| arguments::binding(handle(mw), info));
        set(qp, |request| request.binding = binding);
        if let Some(next) = with(qp, |queue| queue.calls.wr_bind_mw).flatten() {
            next(qp, mw, rkey, info);
        }
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's promise to ibv_wr_start. Its library keeps other threads out until the requests are complete.
    unsafe {
        if let Some(next) = with(qp, |queue| queue.calls.wr_start).flatten() {
            next(qp);
        }
    }
    with(qp, |queue| queue.built.clear());
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    with(qp, |queue| queue.built.clear());
    // SAFETY: the program's promise to ibv_wr_abort.
    unsafe {
        if let Some(next) = with(qp, |queue| queue.calls.wr_abort).flatten() {
            next(qp);
        }
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let taken = with(qp, |queue| (queue.calls.wr_complete, std::mem::take(&mut queue.built)));
    let Some((Some(next), built)) = taken else { return libc::EINVAL };
    // SAFETY: the program's promise to ibv_wr_complete.
    unsafe {
        let Some(call) = Call::enter("ibv_wr_complete") else { return next(qp) };
        let (count, state) = (built.len(), QpState::from_verbs((*qp).qp_base.state));
        let mut excess = FirstExcess::default();
        // No queue lock: the library holds its own since wr_start.
        call.tell_with_memory(|model, memory, site| {
            for (place, request) in built.into_iter().enumerate() {
                excess.note(place, model.post_send(handle(qp), state, request, memory, site));
            }
        });
        let result = next(qp);
        if result != 0 {
            call.tell(|model, _| model.unpost_send(handle(qp), count));
        }
        excess.settle(&call, if result == 0 { count } else { 0 }, result);
        result
    }
}
