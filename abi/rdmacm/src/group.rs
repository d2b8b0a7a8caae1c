//! A membership of an identifier in a multicast group, and its events.

use libc::c_void;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU32;
use weft_cm::rdma_cm::{JoinKind, SockAddr};

/// The program's context of a membership: events return it, and the library ignores it.
struct Context(*mut c_void);

// SAFETY: this library never follows the pointer.
unsafe impl Send for Context {}

// SAFETY: as above.
unsafe impl Sync for Context {}

/// A membership of an identifier in a group.
pub(crate) struct Group {
    /// The cookie of the identifier that is the member.
    pub(crate) owner: u64,
    pub(crate) cookie: u64,
    context: Context,
    pub(crate) addr: SockAddr,
    pub(crate) join: JoinKind,
    /// The daemon's number for it, 0 before the daemon replies.
    pub(crate) number: AtomicU32,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    reported: u32,
    completed: u32,
    /// The group to which the queue pair is attached.
    attached: Option<([u8; 16], u16)>,
}

impl Group {
    /// Creates a membership that the daemon does not know yet.
    pub(crate) fn new(owner: u64, cookie: u64, context: *mut c_void, addr: SockAddr, join: JoinKind) -> Group {
        let context = Context(context);
        Group { owner, cookie, context, addr, join, number: AtomicU32::new(0), counts: Mutex::default() }
    }

    /// Returns the program's context.
    pub(crate) fn context(&self) -> *const c_void {
        self.context.0
    }

    /// Counts an event that the program must acknowledge.
    pub(crate) fn count_report(&self) {
        self.counts.lock().reported += 1;
    }

    /// Counts an acknowledged event.
    pub(crate) fn count_acknowledgement(&self) {
        self.counts.lock().completed += 1;
    }

    /// Records the group to which the queue pair was attached.
    pub(crate) fn set_attached(&self, gid: [u8; 16], lid: u16) {
        self.counts.lock().attached = Some((gid, lid));
    }

    /// Returns the group to which the queue pair was attached, once.
    pub(crate) fn take_attached(&self) -> Option<([u8; 16], u16)> {
        self.counts.lock().attached.take()
    }

    /// Whether the program has acknowledged all events.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let counts = self.counts.lock();
        counts.completed >= counts.reported
    }
}
