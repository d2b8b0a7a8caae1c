//! Calls of the extended context, and the calls in extended queue pairs and completion queues.

mod completion_queue;
mod contexts;
mod queue_pair;

pub use contexts::{register_ex, wrappers};

/// Whether the library orders the users of this queue by a lock that it holds between their calls. Other queues take turns.
pub fn has_own_order(queue: u64) -> bool {
    queue_pair::is_extended(queue) || completion_queue::is_extended(queue)
}

/// An object is destroyed.
pub fn forget(object: u64) {
    queue_pair::forget(object);
    completion_queue::forget(object);
}
