//! Failures that a user injects (`WEFT_FAULT`, `weft fault`): a call fails with an errno, or its work with an event. Nothing reaches
//! the daemon, and the peer, then. The verbs library decides, since it has the failures of the process.

use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::LazyLock;
use weft_abi_types::{
    IBV_TRANSPORT_IWARP, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_INTERNAL,
    RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_UNREACHABLE, ibv_context, rdma_cm_event_type,
};
use weft_cm::rdma_cm::Command;
use weft_verbs::injection::Call;

use crate::device;
use crate::id::Id;

/// Reason of a REJ with which a program refuses a connection (IBA 12.6.7.2: consumer reject).
const REJECT_CONSUMER: c_int = 28;

/// Events that report an injected failure.
const EVENTS: [rdma_cm_event_type; 5] = [
    RDMA_CM_EVENT_ADDR_ERROR,
    RDMA_CM_EVENT_ROUTE_ERROR,
    RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_UNREACHABLE,
    RDMA_CM_EVENT_REJECTED,
];

/// Weft's own function of its `libibverbs.so.1`.
type Decide = unsafe extern "C" fn(*mut ibv_context, u32, *mut rdma_cm_event_type) -> c_int;

/// The function, looked up at run time: this library must also load beside another verbs library, where `ldd` looks, for instance.
static DECIDE: LazyLock<Option<Decide>> = LazyLock::new(|| {
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"weft_cm_failure".as_ptr()) };
    // SAFETY: the function of this name has this type; null becomes `None`.
    unsafe { std::mem::transmute::<*mut c_void, Option<Decide>>(found) }
});

/// Whether the program's own environment has failures of this library's calls. They begin when it opens its first device, which
/// other programs need only to resolve an address.
static BEGIN_EARLY: LazyLock<bool> = LazyLock::new(|| {
    let faults = std::env::var("WEFT_FAULT").unwrap_or_default();
    faults.contains("rdma_") || faults.contains("cm=")
});

/// Refuses a call if an injected failure strikes it. `id` is its identifier, if there is one yet.
pub(crate) fn of_call(id: Option<&Id>, call: Call) -> Result<(), c_int> {
    decide(id, call).map(|_| ())
}

/// As [`of_call`], for a call whose work ends with an event: returns whether an injected failure has ended it, and has put
/// the event that says so into the channel.
pub(crate) fn of_work(id: &Id, call: Call) -> Result<bool, c_int> {
    let Some(event) = decide(Some(id), call)? else { return Ok(false) };
    let status = status(event, is_iwarp(id));
    let command = Command::WriteEvent { id: id.number, event: RDMA_CM_EVENT_INTERNAL, status, arg: event.into() };
    id.order(command).map(|()| true)
}

/// Returns the event of a failure that [`of_work`] put into the channel, by the event's argument.
pub(crate) fn event_of(arg: u64) -> Option<rdma_cm_event_type> {
    EVENTS.into_iter().find(|event| u64::from(*event) == arg)
}

fn decide(id: Option<&Id>, call: Call) -> Result<Option<rdma_cm_event_type>, c_int> {
    let Some(decide) = *DECIDE else { return Ok(None) };
    let device = id.and_then(|id| id.device().ok());
    if device.is_none() && *BEGIN_EARLY {
        // Without a device the call itself tells the program.
        let _ = device::open_all();
    }
    let context = device.map_or(null_mut(), |device| device.verbs);
    let mut event = rdma_cm_event_type::MAX;
    // SAFETY: an open context or null, and a place for the event.
    match unsafe { decide(context, call as u32, &mut event) } {
        0 => Ok(EVENTS.contains(&event).then_some(event)),
        errno => Err(errno),
    }
}

fn is_iwarp(id: &Id) -> bool {
    // SAFETY: the context of an identifier's device is open, and its device lives for good.
    id.device().is_ok_and(|device| unsafe { (*(*device.verbs).device).transport_type == IBV_TRANSPORT_IWARP })
}

/// Returns an event's status, as Linux's connection manager has it.
fn status(event: rdma_cm_event_type, is_iwarp: bool) -> c_int {
    match event {
        RDMA_CM_EVENT_REJECTED if is_iwarp => -libc::ECONNREFUSED,
        RDMA_CM_EVENT_REJECTED => REJECT_CONSUMER,
        RDMA_CM_EVENT_CONNECT_ERROR => -libc::EIO,
        _ => -libc::ETIMEDOUT,
    }
}
