//! `librdmacm.so.1`, drop-in: the C interface of the RDMA connection manager, one file for each family of calls.
//!
//! The daemon owns connections; the library asks it ([`daemon`]) and keeps what programs see: identifiers ([`id`]),
//! event channels, and queue pairs that follow their connection by calls of `libibverbs.so.1` ([`verbs`]), as
//! rdma-core's library does with the kernel's help. What is exported at which version stands in `rdmacm.sym`.
//!
//! When the daemon dies, its connections are forgotten: channels tell DEVICE_REMOVAL for each of their identifiers, and
//! ENODEV afterwards; calls on identifiers fail with ENODEV. Queue pairs go on. A program can destroy what it has and
//! begin anew with new channels, which the next daemon serves. A child of fork is in the same place: what its parent
//! made is not there for it, and what it makes itself is its own.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the rdma_cm and rsocket manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod address;
mod addrinfo;
mod channel;
mod connect;
mod cqs;
mod daemon;
mod device;
mod ece;
mod ep;
mod errors;
mod event;
mod exports;
mod id;
mod migrate;
mod multicast;
mod option;
mod qp;
mod qp_attr;
mod qp_state;
mod registry;
mod resolve;
mod route;
mod rsocket;

mod srq;
mod verbs;
