//! One end of a connection: its queue pair and its registered memory.

mod endpoint;
mod pool;

pub use endpoint::{Broken, Completed, Endpoint, EndpointConfig, Work};
pub use pool::{Pool, size_class};
