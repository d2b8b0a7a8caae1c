//! The pump, one for each process: links, the process's slice of the adapters, its memory, timers and threads. Only
//! this crate reads the clock. A thread of the program that polls a completion queue drives it. When no thread polls,
//! an otherwise sleeping background thread drives it, so that one-sided operations, acknowledgements and timers make
//! progress on their own, and an idle process uses no processor time.
//!
//! ```text
//! poll_cq ──┐                    ┌─> receive -> Hca::handle_packet ─┐
//! with ─────┼─> [ lock: Pump ] ──┼─> timers  -> Hca::handle_timeout ├─> events -> unlock -> sinks
//! thread ───┘                    └─> Hca::poll_transmit -> send ────┘
//! ```

mod adapter;
mod added_faults;
mod background;
mod clock;
mod config;
mod devices;
mod driver;
mod engine;
mod error;
mod event_waiter;
mod events;
mod fabric;
mod flush;
mod fork;
mod gather;
mod host_peers;
mod inject;
mod instruments;
mod known_paths;
mod ledger;
mod log;
mod memory;
mod memory_wait;
mod multicast;
mod open;
mod polling;
mod pump;
mod record;
mod regions;
mod same_host;
mod session;
mod share;
mod singleton;
mod socket_poll;
mod sources;
mod spin;
mod streams;
mod strict;
mod time_wait;
mod trace;

pub use adapter::{Adapter, Process};
pub use devices::DeviceSnapshot;
pub use engine::Engine;
pub use error::{EngineError, last_error};
pub use event_waiter::{Awaited, Waited};
pub use events::{ContextId, EventSink};
pub use memory::HostMemory;
pub use pump::{Pump, PumpConfig};
pub use share::Policy;
pub use singleton::engine;
pub use streams::Streams;
