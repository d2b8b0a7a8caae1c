//! A request in progress.

use weft_wire::mad::sa::{ComponentMask, SaMad};
use weft_wire::mad::{Attribute, Method};

use super::answer::Refusal;
use crate::io::Peer;

/// A request and its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub from: &'a Peer,
    pub mad: &'a SaMad,
    /// Index entry of the requester.
    pub requester: u32,
    /// Whether the request carries the SM_Key (a trusted request).
    pub trusted: bool,
}

impl Question<'_> {
    /// The component mask.
    pub fn mask(&self) -> ComponentMask {
        self.mad.component_mask()
    }

    /// The request's record.
    pub fn record<A: Attribute>(&self) -> Result<A, Refusal> {
        self.mad.record().ok_or(Refusal::INVALID)
    }

    /// Whether the method is Get.
    pub fn is_get(&self) -> bool {
        self.mad.header.method() == Method::GET
    }
}
