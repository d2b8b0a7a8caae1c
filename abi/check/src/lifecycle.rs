//! The library's beginning and end, and forks.

use libc::c_int;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_check::model::limits;

use crate::bounds;
use crate::call::Call;
use crate::devices;
use crate::exports::fork_is_protected;
use crate::{extended, order, reporter, state};

/// The directory for reports.
const REPORT_VARIABLE: &str = "WEFT_CHECK_REPORT";
/// The longest message whose bytes are compared.
const SNAPSHOT_VARIABLE: &str = "WEFT_CHECK_SNAPSHOT";

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    let Some(dir) = std::env::var_os(REPORT_VARIABLE).filter(|dir| !dir.as_bytes().is_empty()) else { return };
    let bytes = std::env::var(SNAPSHOT_VARIABLE).ok().and_then(|text| text.parse().ok());
    // The first backtrace loads the unwinder, which a call with locks must not.
    let mut frame = std::ptr::null_mut();
    // SAFETY: room for one frame.
    unsafe { libc::backtrace(&mut frame, 1) };
    reporter::start(dir.into());
    state::start(bytes.unwrap_or(limits::SNAPSHOT_BYTES_MAX));
    // SAFETY: functions of a library that stays loaded.
    unsafe {
        libc::atexit(finish);
        pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
    }
}

/// Reports leaks and the totals, if the process used a device.
extern "C" fn finish() {
    let Some(call) = Call::enter_unnoted("exit") else { return };
    if !reporter::is_open() {
        return;
    }
    devices::read_last_events(&call);
    call.tell(|model, site| model.check_leaks(site));
    reporter::finish(state::with(|state| state.model.counters()));
    state::stop();
}

/// Whether the thread that forks is in the call that [`before_fork`] began. The state's lock guards it.
static IS_FORKING: AtomicBool = AtomicBool::new(false);

extern "C" fn before_fork() {
    let call = Call::enter_unnoted("fork");
    if let Some(call) = &call
        && let Some(is_protected) = fork_is_protected()
    {
        call.tell(|model, site| model.check_fork(is_protected, site));
    }
    extended::before_fork();
    state::before_fork();
    reporter::before_fork();
    // Other libraries' handlers run until the fork is over, and this thread holds the lock: what they free passes unchecked.
    IS_FORKING.store(call.is_some(), Ordering::Relaxed);
    std::mem::forget(call);
}

/// Takes up the call that [`before_fork`] began.
fn forking_call() -> Option<Call> {
    IS_FORKING.swap(false, Ordering::Relaxed).then(|| Call::resume("fork"))
}

extern "C" fn after_fork() {
    let _call = forking_call();
    reporter::after_fork();
    state::after_fork();
    extended::after_fork();
}

extern "C" fn in_child() {
    order::reset();
    extended::in_child();
    // Memory that the state frees passes unchecked.
    let _call = forking_call();
    reporter::in_child();
    state::in_child();
    bounds::regions_changed();
}
