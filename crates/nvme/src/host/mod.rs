//! Host's end: the queries of `weft nvme discover`.

mod discovery;
mod record;

pub use discovery::{DiscoverySession, HostError, HostName, HostStep};
pub use record::{DiscoveryLog, DiscoveryRecord};
