//! A question while it is answered.

use weft_wire::mad::sa::{ComponentMask, SaMad};
use weft_wire::mad::{Attribute, Method};

use super::answer::Refusal;
use crate::io::Peer;

/// A question, and who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub from: &'a Peer,
    pub mad: &'a SaMad,
    /// The asker's entry.
    pub requester: u32,
    /// It shows the key.
    pub trusted: bool,
}

impl Question<'_> {
    /// Which components it names.
    pub fn mask(&self) -> ComponentMask {
        self.mad.component_mask()
    }

    /// Its record.
    pub fn record<A: Attribute>(&self) -> Result<A, Refusal> {
        self.mad.record().ok_or(Refusal::INVALID)
    }

    /// Whether one record is asked for.
    pub fn is_get(&self) -> bool {
        self.mad.header.method() == Method::GET
    }
}
