//! Keys of requests: every buffer lies in a region of the right protection domain with the right access.

use super::finding::Finding;
use super::ids::{Handle, Site, StackId};
use super::objects::{Kind, Mr, RegionKey};
use super::request::{Opcode, Sge, Span};
use super::state::Model;
use crate::rules::{self, Rule};

/// The queue that a request is posted to, and the request.
#[derive(Clone, Copy)]
pub(super) struct Poster {
    pub kind: Kind,
    pub handle: Handle,
    pub context: Handle,
    pub pd: Handle,
    /// `None` is a receive.
    pub opcode: Option<Opcode>,
    pub wr_id: u64,
}

impl Poster {
    /// Whether the device writes to the buffers.
    fn writes(&self) -> bool {
        self.opcode.is_none_or(Opcode::is_sink)
    }

    /// The request, as the subject of a sentence.
    pub fn request(&self) -> String {
        match self.opcode {
            Some(opcode) => format!("the {opcode} with wr_id {:#x}", self.wr_id),
            None => format!("the receive with wr_id {:#x}", self.wr_id),
        }
    }
}

/// Reasons for which the device will refuse a buffer.
enum KeyFlaw {
    Unknown,
    Stale(RegionKey),
    Region(&'static Rule, RegionKey, String),
}

/// A rule, and the reason for which a request breaks it.
pub(super) type Flaw = (&'static Rule, String);

impl Model {
    /// The breach of a request.
    pub(super) fn flaw_of(
        &self,
        poster: &Poster,
        (rule, reason): Flaw,
        history: Vec<(String, StackId)>,
        site: Site,
    ) -> Finding {
        let message = format!("the program posts {}, but {reason}", poster.request());
        let object = self.name(poster.kind, poster.handle);
        Finding { rule, severity: rule.severity, message, object, site, history }
    }

    /// Reports the first buffer that the device will refuse.
    pub(super) fn check_keys(&mut self, poster: &Poster, sges: &[Sge], site: Site) {
        let flaw = sges.iter().filter(|sge| sge.length > 0).find_map(|sge| Some((sge, self.flaw(poster, sge)?)));
        if let Some((sge, flaw)) = flaw {
            self.report_flaw(poster, sge, flaw, site);
        }
    }

    fn flaw(&self, poster: &Poster, sge: &Sge) -> Option<KeyFlaw> {
        let Some(key) = self.keys.get(&(poster.context, sge.lkey)) else {
            return (!self.is_unknown_key_possible(poster.context)).then_some(KeyFlaw::Unknown);
        };
        let Some(mr) = key.region.and_then(|handle| self.mrs.get(&handle)) else {
            return Some(KeyFlaw::Stale(key.clone()));
        };
        let (rule, reason) = if !self.same_pd(mr.pd, poster.pd) {
            (&rules::KEY_WRONG_PD, "its protection domain differs from the queue's".to_owned())
        } else if !contains(mr, sge) {
            let end = mr.iova.saturating_add(mr.length);
            (&rules::KEY_OUT_OF_RANGE, format!("it covers {:#x}..{end:#x}", mr.iova))
        } else if poster.writes() && !mr.is_locally_writable() {
            (&rules::KEY_NO_ACCESS, format!("its access flags {:#x} lack local write", mr.access))
        } else {
            return None;
        };
        Some(KeyFlaw::Region(rule, key.clone(), reason))
    }

    /// Whether regions exist that the model does not know.
    fn is_unknown_key_possible(&self, context: Handle) -> bool {
        self.untracked_regions || self.is_incomplete(context)
    }

    /// Whether the device has objects that the model does not know.
    pub(super) fn is_incomplete(&self, context: Handle) -> bool {
        self.contexts.get(&context).is_none_or(|context| !context.is_complete)
    }

    /// Whether the kernel's connection manager moves the device's queue pairs unseen.
    pub(super) fn is_iwarp(&self, context: Handle) -> bool {
        self.contexts.get(&context).is_some_and(|context| context.is_iwarp)
    }

    fn report_flaw(&mut self, poster: &Poster, sge: &Sge, flaw: KeyFlaw, site: Site) {
        let (name, request) = (self.name(poster.kind, poster.handle), poster.request());
        let registered = |key: &RegionKey| ("registered".to_owned(), key.created);
        match flaw {
            KeyFlaw::Unknown => {
                let message = format!("{request} names the key {:#x}, which no region has", sge.lkey);
                self.find(&rules::KEY_UNKNOWN, site, name, message);
            }
            KeyFlaw::Stale(key) => {
                let message = format!("{request} names the key of a deregistered region, {}", key.name);
                let history = vec![registered(&key), ("deregistered".to_owned(), key.destroyed)];
                self.find_with(&rules::KEY_STALE, site, name, message, history);
            }
            KeyFlaw::Region(rule, key, reason) => {
                let buffer = format!("{} bytes at {:#x}", sge.length, sge.address);
                let message = format!("{request} names {buffer} of {}: {reason}", key.name);
                self.find_with(rule, site, name, message, vec![registered(&key)]);
            }
        }
    }

    /// The region that a buffer lies in.
    pub(super) fn region_of(&self, context: Handle, sge: &Sge) -> Option<&Mr> {
        let handle = self.keys.get(&(context, sge.lkey))?.region?;
        self.mrs.get(&handle).filter(|mr| contains(mr, sge))
    }

    /// The program's memory behind a buffer.
    pub(super) fn span_of(&self, context: Handle, sge: &Sge) -> Option<Span> {
        let start = self.region_of(context, sge)?.translate(sge.address)?;
        Some((start, start.saturating_add(u64::from(sge.length))))
    }

    pub(super) fn same_pd(&self, a: Handle, b: Handle) -> bool {
        a == b || self.base_pd(a) == self.base_pd(b)
    }
}

fn contains(mr: &Mr, sge: &Sge) -> bool {
    let Some(offset) = sge.address.checked_sub(mr.iova) else { return false };
    offset.checked_add(u64::from(sge.length)).is_some_and(|end| end <= mr.length)
}
