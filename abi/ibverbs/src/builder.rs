//! Work requests under construction on an extended queue pair.

use libc::c_int;
use parking_lot::lock_api::RawMutex as _;
use std::cell::UnsafeCell;
use std::ops::Range;
use weft_verbs::{SGE_MAX, SendFlags, SendOp, SendWr, Sge, UdTarget};

/// The payload of a request until it is posted.
#[derive(Clone)]
pub(crate) enum Payload {
    None,
    Sges(Range<usize>),
    Inline(Range<usize>),
}

/// A request under construction.
pub(crate) struct Building {
    pub(crate) wr_id: u64,
    pub(crate) flags: SendFlags,
    pub(crate) op: SendOp,
    pub(crate) payload: Payload,
    pub(crate) ud: Option<UdTarget>,
    pub(crate) xrc_srqn: Option<u32>,
}

/// The requests under construction, and their payloads.
#[derive(Default)]
pub(crate) struct BuilderState {
    pub(crate) requests: Vec<Building>,
    sges: Vec<Sge>,
    pub(crate) inline: Vec<u8>,
    /// The first error; `ibv_wr_complete` returns it.
    pub(crate) error: c_int,
}

/// The requests under construction on a queue pair. One thread builds at a time: it holds the lock from start to
/// completion.
pub(crate) struct Builder {
    pub(crate) lock: parking_lot::RawMutex,
    pub(crate) state: UnsafeCell<BuilderState>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { lock: parking_lot::RawMutex::INIT, state: UnsafeCell::default() }
    }
}

impl BuilderState {
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.inline.clear();
        self.error = 0;
    }

    pub(crate) fn refuse(&mut self, errno: c_int) {
        if self.error == 0 {
            self.error = errno;
        }
    }

    /// Returns the request that setters modify.
    pub(crate) fn last(&mut self) -> Option<&mut Building> {
        if self.requests.is_empty() {
            self.refuse(libc::EINVAL);
        }
        self.requests.last_mut()
    }

    pub(crate) fn set_payload(&mut self, payload: Payload) {
        if let Some(last) = self.last() {
            last.payload = payload;
        }
    }

    /// Calls a closure with a request in the adapter's form.
    pub(crate) fn with_wr<R>(&self, building: &Building, f: impl FnOnce(&SendWr<'_>) -> R) -> R {
        let inline;
        let mut flags = building.flags;
        let sges: &[Sge] = match &building.payload {
            Payload::None => &[],
            Payload::Sges(range) => self.sges.get(range.clone()).unwrap_or_default(),
            Payload::Inline(range) => {
                let bytes = self.inline.get(range.clone()).unwrap_or_default();
                flags |= SendFlags::INLINE;
                inline = [Sge { addr: bytes.as_ptr().expose_provenance() as u64, length: bytes.len() as u32, lkey: 0 }];
                &inline
            }
        };
        let Building { wr_id, op, ud, xrc_srqn, .. } = *building;
        f(&SendWr { wr_id, flags, op, sges, ud, xrc_srqn })
    }

    pub(crate) fn set_sges(&mut self, sges: impl Iterator<Item = Sge>) {
        let start = self.sges.len();
        self.sges.extend(sges.take(SGE_MAX as usize + 1));
        self.set_payload(Payload::Sges(start..self.sges.len()));
    }
}
