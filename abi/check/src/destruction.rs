//! The destruction of objects.

use libc::c_int;
use weft_check::model::{Handle, Kind, Site};

use crate::call::Call;
use crate::errno;

/// Passes on a call that destroys an object, and tells the model before and after it.
pub fn destroy(call: &Call, kind: Kind, object: Handle, next: impl FnOnce() -> c_int) -> c_int {
    let (removed, site) = call.tell(|model, site| (model.begin_destroy(kind, object, site), site));
    let result = next();
    if result != 0
        && let Some(removed) = removed
    {
        let is_busy = errno::of_result(result) == libc::EBUSY;
        call.tell(|model, _: Site| model.destroy_failed(object, removed, is_busy, site));
    }
    result
}
