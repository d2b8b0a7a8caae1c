//! The objects that a program created on a context and has not destroyed.

use weft_verbs::{CqId, MrId, MwId, PdId, QpId, SrqId, XrcdId};

/// An object created on a context and not destroyed yet. The variants are in the order in which closing the context
/// destroys them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owned {
    Qp(QpId),
    Srq(SrqId),
    Mw(MwId),
    Mr(MrId),
    Xrcd(XrcdId),
    Cq(CqId),
    Pd(PdId),
}
