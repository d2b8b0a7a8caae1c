//! `libibumad.so.3`: loads wherever rdma-core's does. It finds no management devices, so nothing can be opened; the
//! calls that only read or write the caller's buffer, and those that name values, work in full.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the umad manual pages")]

mod buffer;
mod ca;
mod exports;
mod names;
mod port;
