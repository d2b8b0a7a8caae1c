//! `librdmacm.so.1`, drop-in: the C interface of the RDMA connection manager, one file for each family of calls.
//!
//! The daemon owns connections. The library sends it commands ([`daemon`]) and keeps the program's objects: identifiers
//! ([`id`]), event channels, and queue pairs that follow their connection by calls of `libibverbs.so.1` ([`verbs`]), as
//! rdma-core's library does with the kernel's help. `rdmacm.sym` lists the exported symbols and their versions.
//!
//! When the daemon dies, its connections are lost: channels report DEVICE_REMOVAL for each of their identifiers, and
//! ENODEV afterwards; calls on identifiers fail with ENODEV. Queue pairs keep working. A program can destroy its
//! objects and start again with new channels, which the next daemon serves. The same holds for a child of fork: its
//! parent's objects do not work there, and the objects that it creates are its own.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the rdma_cm and rsocket manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod address;
mod addrinfo;
mod answer;
mod channel;
mod complete;
mod connect;
mod cqs;
mod create;
mod daemon;
mod device;
mod ece;
mod ep;
mod errors;
mod event;
mod exports;
mod failure;
mod get_event;
mod get_request;
mod group;
mod id;
mod migrate;
mod mpa;
mod multicast;
mod option;
mod paths;
mod qp;
mod qp_attr;
mod qp_state;
mod record;
mod registry;
mod resolve;
mod route;
mod rsocket;
mod srq;
mod verbs;

/// The build of this library, for `weft doctor`.
#[used]
// SAFETY: a section of notes, which the loader maps and nothing executes.
#[unsafe(link_section = ".note.weft")]
static BUILD: weft_ipc::BuildNote = weft_ipc::BuildNote::OWN;
