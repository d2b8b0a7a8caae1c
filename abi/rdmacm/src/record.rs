//! Events of the connection manager in the process's record, if `WEFT_RECORD` names a directory: for `weft explain`.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_record::{Event as Entry, Record};
use weft_recorder::{Library, Recorder, VARIABLE, now};

use crate::event::Event;

/// The record; empty without one. The verbs library reports a directory that cannot be written.
static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
/// Whether a thread has begun to make the record.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Returns the record. The first call makes it. No call waits for another thread's: a child that is forked meanwhile does
/// not have that thread, and would wait for good. Events of other threads are not recorded until the record is made.
fn recorder() -> Option<&'static Recorder> {
    if RECORDER.get().is_none() && !IS_BEGUN.swap(true, Ordering::Relaxed) {
        let _ = RECORDER.set(start());
    }
    RECORDER.get()?.as_ref()
}

fn start() -> Option<Recorder> {
    let directory = std::env::var_os(VARIABLE).filter(|name| !name.is_empty())?;
    if weft_sys::process::gained_privilege() {
        return None;
    }
    Recorder::create(Path::new(&directory), Library::Cm).ok()
}

/// Records an event that the program is about to get.
pub(crate) fn on_event(event: &Event) {
    // A forked child does not have its parent's pages.
    let Some(recorder) = recorder().filter(|own| own.pid() == std::process::id()) else { return };
    let kind = Entry::Connection { event: event.public.event as u8, status: event.public.status };
    recorder.write(&Record { at: now(), qpn: event.qp_num(), event: kind });
}
