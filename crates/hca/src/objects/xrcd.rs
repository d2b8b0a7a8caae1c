//! XRC domain.

use weft_verbs::DeviceId;

/// An XRC domain.
#[derive(Debug)]
pub(crate) struct Xrcd {
    pub(crate) device: DeviceId,
    pub(crate) key: Option<u64>,
    /// Number of opens.
    pub(crate) opens: u32,
    /// Number of queue pairs and shared receive queues in it.
    pub(crate) uses: u32,
}
