//! A request of a subnet manager, as the attributes see it.

use crate::topology::NodeKind;
use weft_wire::mad::Status;

/// The ports that an SMP concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// The port by which the request arrived.
    pub(super) at: u32,
    /// The port whose agent answers.
    pub(super) agent: u32,
    pub(super) node: u32,
    pub(super) kind: NodeKind,
    pub(super) modifier: u32,
}

/// An attribute that the node does not have.
pub(super) const UNSUPPORTED: Status = Status::BAD_METHOD_ATTRIBUTE;
