//! Records of destroyed objects.

use super::ids::StackId;

/// The record of a destroyed object.
#[derive(Clone, Debug)]
pub(super) struct Tombstone {
    pub name: String,
    pub created: StackId,
    pub destroyed: StackId,
}
