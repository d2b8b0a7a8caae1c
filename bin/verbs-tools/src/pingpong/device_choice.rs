//! The device that a tool uses.

/// The device that a tool uses, and its settings.
#[derive(Clone, Debug)]
pub struct DeviceChoice {
    /// Its name; `None` means the first device.
    pub name: Option<String>,
    /// Its port.
    pub port: u8,
    /// GID table index; without it, RoCE uses the first routable entry.
    pub gid_idx: Option<u32>,
    /// Service level.
    pub sl: u8,
    /// Use the system's libibverbs instead of Weft's.
    pub system: bool,
}

impl Default for DeviceChoice {
    fn default() -> DeviceChoice {
        DeviceChoice { name: None, port: 1, gid_idx: None, sl: 0, system: false }
    }
}
