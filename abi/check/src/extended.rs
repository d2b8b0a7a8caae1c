//! Calls of the extended context, and the calls in extended queue pairs and completion queues.

mod completion_queue;
mod contexts;
mod queue_pair;

use libc::c_int;

pub use contexts::{register_ex, wrappers};

/// Whether the library orders the users of this queue by a lock that it holds between their calls. Other queues take turns.
pub fn has_own_order(queue: u64) -> bool {
    queue_pair::is_extended(queue) || completion_queue::is_extended(queue)
}

/// Passes on a call that destroys a queue pair or completion queue. Its own calls are out of reach before another thread can
/// create an object at its address.
pub fn destroying(object: u64, next: impl FnOnce() -> c_int) -> c_int {
    let (queue, polls) = (queue_pair::take(object), completion_queue::take(object));
    let result = next();
    if result != 0 {
        queue.into_iter().for_each(|queue| queue_pair::give_back(object, queue));
        polls.into_iter().for_each(|polls| completion_queue::give_back(object, polls));
    }
    result
}
