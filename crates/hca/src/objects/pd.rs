//! Protection domain.

use weft_verbs::{Cookie, DeviceId};

/// A protection domain.
#[derive(Debug)]
pub(crate) struct Pd {
    pub(crate) device: DeviceId,
    /// Number of regions, windows, queues and address handles in it.
    pub(crate) uses: u32,
    #[allow(dead_code)] // Protection domains raise no events; kept for readers of the tables.
    pub(crate) cookie: Cookie,
}
