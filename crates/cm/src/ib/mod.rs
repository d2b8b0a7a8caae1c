//! InfiniBand's communication manager (IBA chapter 12): connections between queue pairs, and the resolution of service
//! ids to datagram queue pairs, over GMPs of class CM. One [`Cm`] holds every connection of a host.
//!
//! ```text
//!        commands: listen, send_req, send_rep, ...            events: ReqReceived, RepReceived, ...
//!                             |                                   ^
//!                             v                                   |
//!    now ------------> +---------------------------------------------------+ ----------> poll_timeout
//!    handle_mad -----> |  Cm: connections by comm id, listeners, timers    | ----------> poll_transmit
//!                      +---------------------------------------------------+
//! ```
//!
//! After every call that takes `&mut self`, the owner drains [`Cm::poll_event`] and [`Cm::poll_transmit`].
//!
//! The states and the effect of each event in each of them are one table in [`state`]. It behaves as Linux's `ib_cm`
//! does; where Linux does nothing and the specification requires something, it follows the specification.

mod addressee;
mod alternate;
mod cm;
mod comm_id;
mod command;
mod conn;
mod early;
mod error;
mod event;
pub mod limits;
mod listen;
mod message;
mod param;
mod path;
mod receive;
mod request;
mod sidr;
pub mod state;
mod stats;
mod tables;
mod teardown;
#[cfg(test)]
mod tests;

pub use addressee::Addressee;
pub use cm::Cm;
pub use comm_id::ConnId;
pub use error::CmError;
pub use event::{
    AprReceived, Event, EventKind, RejReceived, RepReceived, ReqReceived, SidrRepReceived, SidrReqReceived,
};
pub use param::{CaInfo, Ece, ListenId, QpParams, RepParams, ReqParams, SidrRepParams, SidrReqParams};
pub use path::Path;
pub use state::{LapState, State};
pub use stats::CmStats;
pub use weft_mad::{GmpAddress, MadBytes};
pub use weft_wire::cm::{ApStatus, Failover, RejectReason, SidrStatus};
