//! Threads inside programs that are not ours: they take no signals but those that they cause themselves.

use std::io;

/// Signals that an instruction raises in the thread that executes it. They stay open: a program that handles the faults
/// of its memory (a collector of garbage, a writer of crash reports) handles those of memory that it registered too, and
/// blocked they would kill it without a word.
const RAISED_BY_INSTRUCTIONS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Starts a thread that no signal from elsewhere is delivered to: handlers of the program run on the program's own
/// threads only.
pub fn spawn_without_signals(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writing; sigfillset makes `all` a set before pthread_sigmask reads it. A thread
    // starts with the mask of the one that made it, so the mask is changed around the start only.
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

/// How late the end of a sleep may be, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack(libc::c_ulong);

/// Lets the calling thread's sleeps end within a microsecond of their time instead of the usual fifty.
pub fn sleep_precisely() {
    const PRECISE: Slack = Slack(1000);
    set_slack(PRECISE);
}

/// As [`sleep_precisely`], until [`set_slack`] makes it what it was, which this answers.
pub fn precise_sleeps() -> Slack {
    // SAFETY: PR_GET_TIMERSLACK touches no memory.
    let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    sleep_precisely();
    // 0 would be the default, which is what it is if it could not be asked.
    Slack(libc::c_ulong::try_from(before).unwrap_or(0))
}

/// How late the calling thread's sleeps may end.
pub fn set_slack(slack: Slack) {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0, 0, 0, 0) };
}

/// How often the calling thread lost its processor to another without having gone to sleep, as after sched_yield(2);
/// `None` if the kernel does not tell.
pub fn times_preempted() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writing, and all zeroes are a valid rusage.
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
