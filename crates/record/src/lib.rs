//! The record of a process: what happened to its queue pairs.
//!
//! - [`layout`]: the ring file, which its writer (`weft-recorder`) maps;
//! - [`Record`], [`Event`]: one entry of it, in eight words;
//! - [`counters`]: the counters whose growth is recorded.
//!
//! `weft-explain` reads it. This crate is part of the libraries that programs load, and stays small.
#![forbid(unsafe_code)]

mod codec;
pub mod counters;
mod event;
mod fields;
pub mod layout;

pub use event::{
    Address, Attributes, Capacity, CompletionInfo, Event, Fate, Framing, LinkTrouble, Operation, PacketInfo, PathKind,
    Reachability, Record, RequestInfo,
};
