//! Building blocks of every protocol over shared memory. The memory itself is `weft_sys::shared`, its atomics are
//! `weft_sys::sync`. Nothing here needs unsafe code: what a slot holds is copied by its owner.
//!
//! ```text
//! ring        positions, room and publication between two processes   link::shm, link::hops, ipc::umad_ring
//! doorbell    how a writer wakes a reader that sleeps                 link::shm, link::hops, ipc::umad_ring
//! busy_poll   whether a thread that may sleep polls on instead       background thread, daemon, libibumad, `weft sm`
//! yielding    when a thread that never sleeps yields its processor   ibv_poll_cq
//! ```

#![cfg_attr(not(loom), forbid(unsafe_code))]

pub mod busy_poll;
pub mod doorbell;
#[cfg(all(test, loom))]
mod models;
mod moment;
pub mod ring;
pub mod yielding;

pub use busy_poll::{BusyPoll, BusyPollLimits, Next};
pub use doorbell::{Doorbell, SleepCount, SleepStates, SleepWatch, SleepWord, fence_before_check};
pub use moment::Moment;
pub use ring::{Broken, Consumer, Counter, Layout, Producer, Stamps};
pub use yielding::{AdaptiveYield, Yielded, yield_processor};
