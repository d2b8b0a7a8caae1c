//! Description of a process that the registry knows.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Description of a process, for others.
pub trait Registered: Clone + Serialize + DeserializeOwned {
    /// Name of the directory of all processes of the kind.
    const DIRECTORY: &'static str;
    /// Begin of the device names.
    const PREFIX: &'static str;
    /// Advice for a second connection to the same target.
    const DUPLICATE_ADVICE: &'static str;
    /// Advice if there are too many.
    const DISCONNECT_ADVICE: &'static str;

    /// Device name.
    fn device(&self) -> &str;

    /// The process.
    fn pid(&self) -> u32;

    /// Notes the device name, and the path of the socket for NBD.
    fn place(&mut self, device: String, socket: PathBuf);

    /// Whether both lead to the same target in the same way.
    fn is_like(&self, other: &Self) -> bool;
}
