//! The destruction of objects.

use std::time::Duration;

use libc::c_int;
use weft_check::model::{Handle, Kind, Site};

use crate::call::{self, Call};
use crate::errno;
use crate::lock::uncancelled;

/// Another thread acknowledges within this time the events that the destroying thread has read.
const GRACE_MS: u32 = 1000;

/// Passes on a call that destroys an object, and tells the model before and after it.
pub fn destroy(call: &Call, kind: Kind, object: Handle, next: impl FnOnce() -> c_int) -> c_int {
    await_acknowledgement(call, kind, object);
    let (removed, site) = call.tell(|model, site| (model.begin_destroy(kind, object, site), site));
    let result = next();
    match removed {
        Some(_) if result == 0 => call.tell_briefly(|model, _, _| model.destroyed(kind, object)),
        Some(removed) => {
            let is_busy = errno::of_result(result) == libc::EBUSY;
            call.tell(|model, _: Site| model.destroy_failed(object, removed, is_busy, site));
        }
        None => {}
    }
    result
}

/// Waits as the library would, but not for ever: the call that blocks is reported before it begins.
fn await_acknowledgement(call: &Call, kind: Kind, object: Handle) {
    let is_pending = || call.tell_briefly(|model, _, _| model.has_unacknowledged(kind, object));
    if call::have_several_threads() {
        let mut waits = 0..GRACE_MS;
        while is_pending() && waits.next().is_some() {
            errno::preserved(|| uncancelled(|| std::thread::sleep(Duration::from_millis(1))));
        }
    }
}
