//! Files that the daemon keeps for a virtual host while its fabric is up, such as connection profiles. They belong to the
//! host's configuration, so they outlive the command that wrote them, and end with the fabric.

use serde::{Deserialize, Serialize};

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostFile {
    /// Name, such as `connections/ib0`.
    pub name: String,
    /// Content.
    pub content: String,
}
