//! `libibverbs.so.1`, drop-in: the C interface of verbs on Weft's engine, one file for each family of calls.
//!
//! Each file translates C structures to the types of `weft_verbs`, calls the adapter ([`process`]), and translates the
//! result back to C. An object that a program holds is the public structure followed by our private part ([`object`]).
//! `ibverbs.sym` lists the exported symbols with their versions, and marks the stubs.
//!
//! For an operation that a software adapter cannot perform, a call returns the same error as a driver without support;
//! no argument of a program, short of wild pointers, makes the library panic.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the verbs manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod ah;
mod alignment;
mod async_item;
mod buf;
mod builder;
mod channel;
mod cm_failure;
mod compat;
mod context;
mod cq;
mod cq_create;
mod cq_cursor;
mod cq_event;
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
mod open;
mod operations;
mod owned;
mod parent_domain;
mod pd;
mod port;
mod post;
mod process;
mod qp;
mod qp_attr;
mod qp_create;
mod qp_ex;
mod query;
mod queue;
mod rates;
mod recv_list;
mod srq;
mod sysfs;
mod td;
mod xrc;

/// The build of this library, for `weft doctor`.
#[used]
// SAFETY: a section of notes, which the loader maps and nothing executes.
#[unsafe(link_section = ".note.weft")]
static BUILD: weft_ipc::BuildNote = weft_ipc::BuildNote::OWN;
