//! `libibumad.so.3`, drop-in: management datagrams to and from the kernel's `/dev/infiniband/umadN`.
//!
//! What adapters there are, and how their ports stand, comes from a [`source`]; everything else (which port is meant,
//! pairs of interfaces, lists) is worked out from that. The C structures are in `weft_abi_types`; what is exported at
//! which version stands in `ibumad.sym`.
//!
//! Every system call goes through the C library's own symbols (`open`, `read`, `write`, `poll`, `ioctl`, `opendir`,
//! `close`), because simulators preload a library that takes these over, and may hand out descriptors that only it knows.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the umad manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod agent;
mod buffer;
mod ca;
mod debug;
mod errors;
mod exports;
mod files;
mod list;
mod names;
mod pairs;
mod port;
mod resolve;
mod source;
mod text;
mod transfer;
