//! C structures as the model's values.

use weft_abi_types::{
    IBV_ACCESS_ZERO_BASED, IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR,
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_REQ_ERR,
    IBV_EVENT_SQ_DRAINED, IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
    ibv_async_event, ibv_mr, ibv_mw_bind_info, ibv_qp, ibv_qp_cap, ibv_recv_wr, ibv_send_wr, ibv_sge,
};
use weft_check::model::{
    AsyncEvent, Binding, Handle, Mr, Opcode, Qp, QpCap, QpKind, QpState, ReceiveRequest, SendFlags, SendRequest, Sge,
};

/// The address of an object.
pub fn handle<T>(pointer: *const T) -> Handle {
    pointer.addr() as u64
}

/// The address of an object, unless it is null.
pub fn some<T>(pointer: *const T) -> Option<Handle> {
    (!pointer.is_null()).then(|| handle(pointer))
}

/// Buffers that a request may have; more are the program's garbage.
const SGES_MAX: usize = 4096;

/// # Safety
/// There are `count` buffers at `list`.
pub unsafe fn sges(list: *const ibv_sge, count: i64) -> Vec<Sge> {
    let count = usize::try_from(count).unwrap_or(0).min(SGES_MAX);
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    let sge = |index| unsafe { list.add(index).read() };
    (0..count).map(sge).map(|sge| Sge { address: sge.addr, length: sge.length, lkey: sge.lkey }).collect()
}

/// # Safety
/// A complete request.
pub unsafe fn send_request(wr: &ibv_send_wr, kind: QpKind) -> SendRequest {
    // SAFETY: the caller's promise; the opcode tells the member of each union.
    unsafe {
        let remote_address = match wr.opcode {
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ => wr.wr.rdma.remote_addr,
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => wr.wr.atomic.remote_addr,
            _ => 0,
        };
        SendRequest {
            wr_id: wr.wr_id,
            opcode: Opcode(wr.opcode),
            flags: SendFlags(wr.send_flags),
            sges: sges(wr.sg_list, wr.num_sge.into()),
            remote_address,
            ah: if kind == QpKind::Ud { handle(wr.wr.ud.ah) } else { 0 },
            binding: (wr.opcode == IBV_WR_BIND_MW).then(|| binding(handle(wr.op.bind_mw.mw), &wr.op.bind_mw.bind_info)),
        }
    }
}

pub fn binding(window: Handle, info: &ibv_mw_bind_info) -> Binding {
    Binding { window, region: handle(info.mr), address: info.addr, length: info.length }
}

/// # Safety
/// A complete request.
pub unsafe fn receive_request(wr: &ibv_recv_wr) -> ReceiveRequest {
    // SAFETY: the caller's promise.
    ReceiveRequest { wr_id: wr.wr_id, sges: unsafe { sges(wr.sg_list, wr.num_sge.into()) } }
}

/// The requests of a list, at most as many as any queue holds.
///
/// # Safety
/// A list of requests that ends in null.
pub unsafe fn list<W: Copy>(first: *const W, next: impl Fn(&W) -> *mut W) -> Vec<W> {
    const REQUESTS_MAX: usize = 1 << 17;
    let mut list = Vec::new();
    let mut at = first;
    while !at.is_null() && list.len() < REQUESTS_MAX {
        // SAFETY: the caller's promise.
        let wr = unsafe { at.read() };
        at = next(&wr);
        list.push(wr);
    }
    list
}

pub fn cap(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        send_wr_max: cap.max_send_wr,
        receive_wr_max: cap.max_recv_wr,
        send_sge_max: cap.max_send_sge,
        receive_sge_max: cap.max_recv_sge,
        inline_max: cap.max_inline_data,
    }
}

/// # Safety
/// A queue pair that the library has just created.
pub unsafe fn qp(qp: *const ibv_qp, limits: &ibv_qp_cap, signals_all: bool) -> Qp {
    // SAFETY: the caller's promise.
    let public = unsafe { &*qp };
    let kind = QpKind::from_verbs(public.qp_type);
    let mut model = Qp::new(handle(public.context), handle(public.pd), public.qp_num, kind, cap(limits));
    model.send_cq = some(public.send_cq);
    model.receive_cq = some(public.recv_cq);
    model.srq = some(public.srq);
    model.signals_all = signals_all;
    model.state = QpState::from_verbs(public.state);
    model
}

/// # Safety
/// A region that the library has just registered. `address` is that of the program's memory.
pub unsafe fn mr(mr: *const ibv_mr, address: Option<u64>, iova: u64, length: usize, access: u32) -> Mr {
    // SAFETY: the caller's promise.
    let public = unsafe { &*mr };
    Mr {
        context: handle(public.context),
        pd: handle(public.pd),
        address,
        iova: if access & IBV_ACCESS_ZERO_BASED == 0 { iova } else { 0 },
        length: length as u64,
        access,
        lkey: public.lkey,
        is_cached: false,
        created: 0,
    }
}

/// # Safety
/// An event that the library has filled in.
pub unsafe fn async_event(event: &ibv_async_event) -> AsyncEvent {
    // SAFETY: the type tells the member of the union.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => AsyncEvent::Cq { cq: handle(event.element.cq), is_error: true },
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_PATH_MIG
            | IBV_EVENT_PATH_MIG_ERR
            | IBV_EVENT_QP_LAST_WQE_REACHED => AsyncEvent::Qp(handle(event.element.qp)),
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => AsyncEvent::Srq(handle(event.element.srq)),
            _ => AsyncEvent::Other,
        }
    }
}
