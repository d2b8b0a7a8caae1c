//! LD_PRELOAD library that checks a program's use of verbs, for `weft check`.
//!
//! It stands in front of any libibverbs, Weft's or rdma-core's. [`exports`] holds the calls that programs link to;
//! [`devices`] replaces the calls that the header's inline functions take from a context, and [`extended`] those of extended
//! queue pairs and completion queues. All of them tell [`weft_check::model`] what the program does ([`call`], [`state`]) and
//! pass the call on ([`next`]). Breaches are written at once to a file of the process ([`reporter`], [`writer`]), with the
//! names of the calling functions ([`stacks`], [`symbols`]).
//!
//! Without WEFT_CHECK_REPORT in the environment every call passes on at once.

mod arguments;
mod bounds;
mod call;
mod capacity;
mod destruction;
mod devices;
mod errno;
mod exports;
mod extended;
mod lifecycle;
mod lock;
mod next;
mod order;
mod posting;
mod reporter;
mod snapshot;
mod stack_memo;
mod stacks;
mod state;
mod symbols;
mod table;
mod waiting;
mod waits;
mod writer;
