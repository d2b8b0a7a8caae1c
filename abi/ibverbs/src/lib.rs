//! `libibverbs.so.1`, drop-in: the C interface of verbs on Weft's engine, one file for each family of calls.
//!
//! Each file translates: C structures to the nouns of `weft_verbs`, a call of the adapter ([`process`]), its answer
//! back to C. Objects that programs hold are the public structure with our part behind it ([`object`]). What is exported
//! at which version stands in `ibverbs.sym`, which also says which calls are stubs.
//!
//! A call that an adapter made of software cannot do answers as a driver that lacks it does; nothing a program passes,
//! short of wild pointers, makes the library panic.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the verbs manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod ah;
mod buf;
mod channel;
mod compat;
mod context;
mod cq;
mod cq_ex;
mod device;
mod dm;
mod ece;
mod errors;
mod event;
mod exports;
mod fork;
mod gid;
mod mcast;
mod mr;
mod mw;
mod names;
mod object;
mod pd;
mod port;
mod post;
mod process;
mod qp;
mod qp_attr;
mod qp_ex;
mod query;
mod queue;
mod rates;
mod srq;
mod sysfs;
mod td;
mod xrc;
