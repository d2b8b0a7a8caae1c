//! The objects of one process, their outstanding requests, and the rules in force.
//!
//! The library in front of libibverbs reports every call as plain values: handles are addresses, stacks are numbers that the
//! library can turn into names. [`Model::take_findings`] returns the breaches that a call brought up. A call that has an
//! effect in the model is reported before the library makes it, if another thread could see the effect first, and is taken
//! back if it fails.

mod attributes;
mod completion;
mod events;
mod finding;
mod ids;
mod lifetime;
pub mod limits;
mod memory;
mod naming;
mod objects;
mod qp_attributes;
mod receive;
mod region;
mod request;
mod send;
mod spans;
mod state;
mod tombstone;
mod transition;
mod window;

pub use completion::Completion;
pub use events::AsyncEvent;
pub use finding::{Excess, Finding};
pub use ids::{CURRENT_STACK, Handle, Site, StackId};
pub use lifetime::Removed;
pub use objects::{
    Ah, Channel, Context, Cq, DeviceLimits, Kind, Mr, Mw, Pd, PortInfo, Qp, QpCap, QpKind, QpState, RegionKey, Srq,
};
pub use qp_attributes::{AddressVector, QpAttributes};
pub use region::{Release, Reregistration};
pub use request::{Binding, Opcode, ReceiveRequest, SendFlags, SendRequest, Sge};
pub use state::{Counters, Memory, Model};
