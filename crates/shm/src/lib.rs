//! What every protocol over shared memory is made of. The memory itself is `weft_sys::shared`, its atomics are
//! `weft_sys::sync`.
//!
//! ```text
//! busy_poll   whether a thread that may sleep polls on instead       background thread, daemon, libibumad, `weft sm`
//! yielding    when a thread that never sleeps yields its processor   ibv_poll_cq
//! ```

pub mod busy_poll;
mod moment;
pub mod yielding;

pub use busy_poll::{BusyPoll, BusyPollLimits, Next};
pub use moment::Moment;
pub use yielding::{AdaptiveYield, Yielded, yield_processor};
