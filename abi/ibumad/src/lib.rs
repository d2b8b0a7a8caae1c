//! `libibumad.so.3`, drop-in: management datagrams to and from the kernel's `/dev/infiniband/umadN`, and for programs
//! of a virtual host (`weft run --host`) to and from a fabric in the daemon.
//!
//! A [`source`] reports adapters and the state of their ports; there are two, [`kernel`] and [`virtual_host`]. The
//! rest (port selection, pairs of interfaces, lists) is derived from that. A port of a virtual host is a [`socket`] to
//! the daemon, with rings in shared memory beside it; an [`inbox`] holds datagrams that the program has not received
//! yet. The C structures are in `weft_abi_types`; `ibumad.sym` lists the exported symbols and their versions.
//!
//! Every system call to the kernel's devices goes through the C library's own symbols (`open`, `read`, `write`, `poll`,
//! `ioctl`, `opendir`, `close`), because simulators preload a library that takes these over, and may hand out
//! descriptors that only it knows.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the umad manual pages")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the functions are C's, which knows no unsafe")]

mod adapter;
mod agent;
mod buffer;
mod busy_poll;
mod ca;
mod debug;
mod errors;
mod exports;
mod files;
mod inbox;
mod kernel;
mod list;
mod names;
mod pairs;
mod poll;
mod port;
mod resolve;
mod socket;
mod source;
mod text;
mod transfer;
mod virtual_host;

/// The build of this library, for `weft doctor`.
#[used]
// SAFETY: a section of notes, which the loader maps and nothing executes.
#[unsafe(link_section = ".note.weft")]
static BUILD: weft_ipc::BuildNote = weft_ipc::BuildNote::OWN;
