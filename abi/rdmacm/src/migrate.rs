//! Moving an identifier to another event channel.

use libc::c_int;
use weft_abi_types::{rdma_cm_id, rdma_event_channel};
use weft_cm::rdma_cm::Command;

use crate::channel::{self, Channel};
use crate::errors::{code, fail};
use crate::event::give_back;
use crate::id::Id;

/// Sends the identifier's events to `channel` from now on; null makes its calls wait until they are done.
pub unsafe extern "C" fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    if id.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier and channel.
    code(unsafe { if channel.is_null() { to_own_channel(id) } else { migrate(id, channel, false) } })
}

/// Moves an identifier to a channel of its own.
pub(crate) unsafe fn to_own_channel(id: *mut rdma_cm_id) -> Result<(), c_int> {
    // SAFETY: the caller's identifier.
    unsafe {
        if Id::of(id).state.lock().sync {
            return Err(libc::EINVAL);
        }
        let channel = Channel::open()?.public;
        migrate(id, channel, true).inspect_err(|_| channel::close(channel))
    }
}

unsafe fn migrate(id: *mut rdma_cm_id, channel: *mut rdma_event_channel, sync: bool) -> Result<(), c_int> {
    // SAFETY: the caller's identifier and channel.
    unsafe {
        let this = Id::of(id);
        let events = Channel::find(channel)?.events;
        this.order(Command::MigrateId { id: this.number, channel: events.number() })?;
        let was_sync = this.state.lock().sync;
        if was_sync {
            give_back(id);
        }
        let old = (*id).channel;
        let mut state = this.state.lock();
        state.sync = sync;
        state.events = events;
        (*id).channel = channel;
        // Events of the old channel and of the new one must not be handled at the same time.
        while state.events_completed < state.events_reported {
            this.acknowledged.wait(&mut state);
        }
        drop(state);
        if was_sync {
            channel::close(old);
        }
        Ok(())
    }
}
