//! Objects of an adapter and their tables: the state, and the operations that need no other object's.

mod cq;
mod device;
mod event_queue;
mod groups;
mod keys;
mod mr;
mod mw;
mod pd;
mod qp;
mod srq;
mod windows;
mod xrcd;

pub(crate) use cq::{Arm, Cq, Pushed};
pub(crate) use device::{Device, Devices};
pub use event_queue::EVENTS_MAX;
pub(crate) use event_queue::EventQueue;
pub(crate) use groups::Groups;
pub(crate) use keys::{KeyOwner, Keys, next_tag};
pub(crate) use mr::Mr;
pub(crate) use mw::Mw;
pub(crate) use pd::Pd;
pub(crate) use qp::{FabricSource, QpEntry};
pub(crate) use srq::Srqs;
pub(crate) use xrcd::Xrcd;
