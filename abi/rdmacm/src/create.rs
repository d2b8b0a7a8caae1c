//! Creating and destroying identifiers.

use libc::{c_int, c_void};
use weft_abi_types::{
    IBV_QPT_RC, IBV_QPT_UD, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, ibv_qp_type, rdma_cm_id, rdma_event_channel,
    rdma_port_space,
};
use weft_cm::rdma_cm::{Command, IdNumber, IdOption, PortSpace, Reply};
use weft_verbs::injection::Call;

use crate::channel::{self, Channel};
use crate::device;
use crate::errors::{code, fail};
use crate::event::give_back;
use crate::id::Id;
use crate::{failure, mpa, registry};

/// Creates an identifier for any type of queue pair.
pub(crate) unsafe fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: rdma_port_space,
    qp_type: ibv_qp_type,
) -> Result<*mut rdma_cm_id, c_int> {
    let port_space = u16::try_from(ps).ok().and_then(PortSpace::from_number).ok_or(libc::EINVAL)?;
    device::present()?;
    failure::of_call(None, Call::CmCreateId)?;
    let sync = channel.is_null();
    let channel = if sync { Channel::open()? } else { Channel::find(channel)? };
    let cookie = registry::cookie();
    let command = Command::CreateId { channel: channel.events.number(), port_space, qp_type: qp_type as u8, cookie };
    let number = match channel.events.ask(command) {
        Ok(Reply::Id(number)) => number,
        other => {
            if sync {
                channel::close(channel.public);
            }
            return Err(other.err().unwrap_or(libc::EPROTO));
        }
    };
    let events = channel.events.clone();
    let id = enroll(number, cookie, channel, sync, context, ps, qp_type);
    let mpa = mpa::options().and_then(|options| match options {
        Some(options) if ps == RDMA_PS_TCP => {
            let option = IdOption::Mpa(options);
            events.ask(Command::SetOption { id: number, option }).map(|_| ())
        }
        _ => Ok(()),
    });
    if let Err(errno) = mpa {
        // SAFETY: just created, and without events.
        unsafe { rdma_destroy_id(id) };
        return Err(errno);
    }
    Ok(id)
}

/// Creates an identifier with the daemon's number and registers it for events. `sync`: the channel is its own.
pub(crate) fn enroll(
    number: IdNumber,
    cookie: u64,
    channel: Channel,
    sync: bool,
    context: *mut c_void,
    ps: rdma_port_space,
    qp_type: ibv_qp_type,
) -> *mut rdma_cm_id {
    let id = Box::into_raw(Id::new(number, cookie, channel, sync, context, ps, qp_type));
    registry::insert(cookie, id);
    id.cast()
}

/// Creates an identifier. Without a channel its calls wait until they are done.
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: rdma_port_space,
) -> c_int {
    if id.is_null() {
        return fail(libc::EINVAL);
    }
    let qp_type = if ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP { IBV_QPT_UD } else { IBV_QPT_RC };
    // SAFETY: the caller's channel or null, and a place for the identifier.
    code(unsafe { create(channel, context, ps, qp_type).map(|new| *id = new) })
}

/// Destroys an identifier, once every event of it is acknowledged.
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: an identifier of the program's, or null.
    let this = match unsafe { Id::of_argument(id) } {
        Ok(this) => this,
        Err(errno) => return fail(errno),
    };
    // SAFETY: no other thread knows the identifier once it is retired.
    unsafe {
        retire(this);
        drop(Box::from_raw(id.cast::<Id>()));
    }
    0
}

/// Retires an identifier but keeps its memory: when this returns, no thread handles an event of it, and none will. The
/// thread that fetches events moves queue pairs along, so another thread may destroy a queue pair only after this.
pub(crate) unsafe fn retire(this: &Id) {
    if std::mem::replace(&mut this.state.lock().retired, true) {
        return;
    }
    // A dead daemon has forgotten it already.
    let _ = this.order(Command::DestroyId { id: this.number });
    registry::remove(this.cookie);
    // SAFETY: the program no longer uses the event that a call without a channel left.
    unsafe { give_back(this.public()) };
    let mut state = this.state.lock();
    while state.events_completed < state.events_reported {
        this.acknowledged.wait(&mut state);
    }
}
