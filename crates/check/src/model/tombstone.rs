//! Destroyed objects.

use super::ids::StackId;

/// A destroyed object.
#[derive(Clone, Debug)]
pub(super) struct Grave {
    pub name: String,
    pub created: StackId,
    pub destroyed: StackId,
}
