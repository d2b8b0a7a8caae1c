//! The destruction of objects.

use libc::c_int;
use weft_check::model::{Handle, Kind, Site};

use crate::call::Call;

/// Passes on a call that destroys an object, and tells the model before and after it.
pub fn destroy(call: &Call, kind: Kind, object: Handle, next: impl FnOnce() -> c_int) -> c_int {
    let (removed, site) = call.tell(|model, site| (model.begin_destroy(kind, object, site), site));
    let result = next();
    if result != 0
        && let Some(removed) = removed
    {
        // Some libraries return the error's number, others -1 with errno.
        // SAFETY: this thread's own.
        let error = if result < 0 { unsafe { *libc::__errno_location() } } else { result };
        call.tell(|model, _: Site| model.destroy_failed(object, removed, error == libc::EBUSY, site));
    }
    result
}
