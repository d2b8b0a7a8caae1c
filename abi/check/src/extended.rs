//! Calls of the extended context, and the calls in extended queue pairs and completion queues.

mod completion_queue;
mod contexts;
mod queue_pair;

use libc::c_int;

pub use contexts::{register_ex, wrappers};

/// Whether the library orders the users of this queue by a lock that it holds between their calls. The locks of other queues
/// are those of [`crate::order`].
pub fn has_own_order(queue: u64) -> bool {
    queue_pair::is_extended(queue) || completion_queue::is_extended(queue)
}

/// Before a fork. A thread in here may wait for the state, when it frees memory: so this comes before the state's.
pub fn before_fork() {
    queue_pair::before_fork();
    completion_queue::before_fork();
}

/// After a fork, in the parent.
pub fn after_fork() {
    queue_pair::after_fork();
    completion_queue::after_fork();
}

/// After a fork, in the child.
pub fn in_child() {
    queue_pair::in_child();
    completion_queue::in_child();
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
