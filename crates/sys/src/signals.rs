//! Signals of a thread that sleeps in a call of ours as it would in read(2). The thread blocks signals while it sleeps
//! and works, and a signalfd ends its sleep when one is pending. So a handler of the program never runs in the middle
//! of our work, even if it jumps out of the call; and the call learns whether to restart (SA_RESTART) or to fail with
//! EINTR, which poll(2) and epoll_wait(2) do not report.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};

/// Signals 1 to 64, lowest bit first, in the kernel's format.
pub type Mask = u64;

/// Size of a [`Mask`], which the kernel's calls require.
const MASK_BYTES: usize = size_of::<Mask>();

/// Signals that are never blocked: those that an instruction raises in the thread that executes it, since the thread
/// touches memory of the program, and the C library's internal ones.
const NEVER_HELD: Mask = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(32)
    | bit(33)
    | if cfg!(target_env = "musl") { bit(34) } else { 0 };

const fn bit(signal: c_int) -> Mask {
    1 << (signal - 1)
}

/// Signals pending for the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// No unblocked signal.
    Nothing,
    /// Signals after which a system call restarts.
    Restarts,
    /// A signal whose handler was installed without SA_RESTART.
    Interrupts,
}

/// Blocks the calling thread's signals until it is dropped. Then they are delivered, before `drop` returns; their
/// handlers may never return.
#[derive(Debug)]
pub struct Held {
    before: Mask,
    /// Ties the value to the thread that created it.
    _thread: PhantomData<*const ()>,
}

impl Held {
    /// Blocks signals from now on.
    pub fn new() -> Held {
        Held { before: set_mask(!NEVER_HELD), _thread: PhantomData }
    }

    /// Returns the signals that the program does not block itself and that are blocked here.
    pub fn let_through(&self) -> Mask {
        !(self.before | NEVER_HELD)
    }

    /// Returns the kind of pending signals.
    pub fn pending(&self) -> Pending {
        let mut pending: Mask = 0;
        // SAFETY: a place for the answer, of the length given.
        unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, MASK_BYTES) };
        let held = pending & self.let_through();
        let mut signals = (1..=64).filter(|&signal| held & bit(signal) != 0);
        match held {
            0 => Pending::Nothing,
            _ if signals.any(interrupts) => Pending::Interrupts,
            _ => Pending::Restarts,
        }
    }
}

impl Default for Held {
    fn default() -> Held {
        Held::new()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        set_mask(self.before);
    }
}

/// Sets the calling thread's mask and returns the previous one.
fn set_mask(mask: Mask) -> Mask {
    let mut before: Mask = 0;
    // SAFETY: two places of the length given.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, MASK_BYTES);
    }
    before
}

/// Whether handling this signal ends a system call.
fn interrupts(signal: c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a query that changes nothing, with a place for the answer, which is zero and thus valid if the call
    // fails.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
    handled && action.sa_flags & libc::SA_RESTART == 0
}

/// A descriptor that is readable while a signal is pending for the reading thread; it consumes none.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    mask: Mask,
}

impl SignalFd {
    /// Creates a descriptor without any signals.
    pub fn new() -> io::Result<SignalFd> {
        let fd = signalfd(-1, 0)?;
        // SAFETY: the descriptor was just opened, and has no other owner.
        Ok(SignalFd { fd: unsafe { OwnedFd::from_raw_fd(fd) }, mask: 0 })
    }

    /// Sets the signals that the descriptor reports.
    pub fn follow(&mut self, mask: Mask) -> io::Result<()> {
        if mask != self.mask {
            signalfd(self.fd.as_raw_fd(), mask)?;
            self.mask = mask;
        }
        Ok(())
    }
}

/// A queue of signals that are read one after another instead of handled. They stay blocked for good in the thread that
/// creates it and in threads that it starts later.
#[derive(Debug)]
pub struct SignalQueue(SignalFd);

impl SignalQueue {
    /// Creates a queue of these signals.
    pub fn new(signals: &[c_int]) -> io::Result<SignalQueue> {
        let wanted = signals.iter().fold(0, |mask, signal| mask | bit(*signal));
        let before = set_mask(!NEVER_HELD);
        set_mask(before | wanted);
        let mut fd = SignalFd::new()?;
        fd.follow(wanted)?;
        Ok(SignalQueue(fd))
    }

    /// Takes the next pending signal, if any.
    pub fn take(&self) -> Option<c_int> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.0, &mut record).ok()?;
        let number = record.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))?;
        (length == record.len()).then_some(number as c_int)
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the call passes no pointers, and the positive number names exactly one process.
    if unsafe { libc::kill(pid, signal) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a program with no signal blocked, whatever this thread blocks.
pub fn spawn_unblocked(command: &mut std::process::Command) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec, the closure only makes a system call on its own memory.
    unsafe {
        command.pre_exec(|| {
            set_mask(0);
            Ok(())
        });
    }
    command.spawn()
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn signalfd(fd: c_int, mask: Mask) -> io::Result<c_int> {
    const FLAGS: c_int = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: a mask of the length given.
    let fd: c_long = unsafe { libc::syscall(libc::SYS_signalfd4, fd, &raw const mask, MASK_BYTES, FLAGS) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd as c_int) }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    extern "C" fn ignore(_: c_int) {}

    fn handle(signal: c_int, flags: c_int) {
        // SAFETY: a complete sigaction whose handler does nothing.
        unsafe {
            let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = ignore as extern "C" fn(c_int) as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
        }
    }

    fn raise(signal: c_int) {
        // SAFETY: the call passes no pointers; the thread is our own.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    fn readable(fd: &SignalFd) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn a_waiting_signal_is_told_and_its_kind_is_known() {
        let (restarting, interrupting) = (libc::SIGRTMAX() - 1, libc::SIGRTMAX() - 2);
        handle(restarting, libc::SA_RESTART);
        handle(interrupting, 0);
        let held = Held::new();
        let mut fd = SignalFd::new().unwrap();
        fd.follow(held.let_through()).unwrap();
        assert!(!readable(&fd));
        assert_eq!(held.pending(), Pending::Nothing);
        raise(restarting);
        assert!(readable(&fd));
        assert_eq!(held.pending(), Pending::Restarts);
        raise(interrupting);
        assert_eq!(held.pending(), Pending::Interrupts);
        drop(held);
        assert!(!readable(&fd), "both were handled");
    }

    #[test]
    fn what_the_program_holds_back_itself_ends_no_sleep() {
        let signal = libc::SIGRTMAX() - 3;
        handle(signal, 0);
        let before = set_mask(bit(signal));
        let held = Held::new();
        let mut fd = SignalFd::new().unwrap();
        fd.follow(held.let_through()).unwrap();
        raise(signal);
        assert!(!readable(&fd));
        assert_eq!(held.pending(), Pending::Nothing);
        drop(held);
        set_mask(before);
    }

    #[test]
    fn signals_are_read_in_place_of_being_handled() {
        let join = std::thread::spawn(|| {
            let queue = SignalQueue::new(&[libc::SIGUSR2, libc::SIGHUP]).expect("a signalfd");
            assert_eq!(queue.take(), None);
            // SAFETY: a signal to this very thread, which blocks it.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            assert_eq!((queue.take(), queue.take()), (Some(libc::SIGUSR2), None));
        });
        join.join().expect("the thread");
    }
}
