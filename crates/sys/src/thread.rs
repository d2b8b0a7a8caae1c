//! Threads inside programs that are not ours: they take no signals except those that they raise themselves.

use std::io;

/// Signals that an instruction raises in the thread that executes it. They stay unblocked: a program that handles
/// faults of its memory (a garbage collector, a crash reporter) also handles those of memory that it registered; if
/// they were blocked, they would kill it silently.
const RAISED_BY_INSTRUCTIONS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Starts a thread that receives no external signal: the program's handlers run only on its own threads.
pub fn spawn_without_signals(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writing; sigfillset initialises `all` before pthread_sigmask reads it. A thread
    // inherits its creator's mask, so the mask is changed only around the start.
    let masked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in RAISED_BY_INSTRUCTIONS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(body);
    if masked {
        // SAFETY: `before` was filled in by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    started
}

/// Timer slack of a thread, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack(libc::c_ulong);

/// Makes the calling thread's sleeps end within a microsecond of their time instead of the usual fifty.
pub fn sleep_precisely() {
    const PRECISE: Slack = Slack(1000);
    set_slack(PRECISE);
}

/// As [`sleep_precisely`]; returns the previous slack for [`set_slack`].
pub fn precise_sleeps() -> Slack {
    // SAFETY: PR_GET_TIMERSLACK touches no memory.
    let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    sleep_precisely();
    // If the query failed, 0 restores the default.
    Slack(libc::c_ulong::try_from(before).unwrap_or(0))
}

/// Sets the calling thread's timer slack.
pub fn set_slack(slack: Slack) {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0, 0, 0, 0) };
}

/// Returns the number of involuntary context switches of the calling thread, which sched_yield(2) can cause too; `None`
/// if the kernel does not report it.
pub fn times_preempted() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writing, and an all-zero rusage is valid.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    u64::try_from(usage.ru_nivcsw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_was_not_preempted() {
        let sleeps = || {
            let before = times_preempted().unwrap();
            std::thread::sleep(std::time::Duration::from_micros(10));
            times_preempted() == Some(before)
        };
        assert!((0..1000).any(|_| sleeps()));
    }

    #[test]
    fn sleeps_are_as_late_as_they_were() {
        set_slack(Slack(77_000));
        assert_eq!(precise_sleeps(), Slack(77_000));
        assert_eq!(precise_sleeps(), Slack(1000));
    }

    #[test]
    fn faults_are_open_and_everything_else_is_blocked() {
        let (tx, rx) = std::sync::mpsc::channel();
        let thread = spawn_without_signals("masked", 64 << 10, move || {
            tx.send(std::fs::read_to_string("/proc/thread-self/status").unwrap()).unwrap();
        });
        let status = rx.recv().unwrap();
        thread.unwrap().join().unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let is_blocked = |signal: libc::c_int| blocked >> (signal - 1) & 1 != 0;
        assert!(RAISED_BY_INSTRUCTIONS.into_iter().all(|signal| !is_blocked(signal)), "{blocked:x}");
        assert!([libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1].into_iter().all(is_blocked), "{blocked:x}");
    }
}
