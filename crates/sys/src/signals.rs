//! Signals of a thread that sleeps in a call of ours as it would in read(2). It holds them back while it sleeps and works,
//! and a signalfd ends its sleep when one waits: so a handler of the program never runs in the middle of our work, even
//! if it jumps out of the call, and the call learns whether it is to be restarted (SA_RESTART) or interrupted, which
//! poll(2) and epoll_wait(2) tell nobody.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};

/// Signals 1 to 64, the lowest bit first, as the kernel writes them.
pub type Mask = u64;

/// Bytes of a [`Mask`], which the kernel asks for.
const MASK_BYTES: usize = size_of::<Mask>();

/// What is not held back: signals that an instruction raises in the thread that executes it, since the thread touches
/// memory of the program, and those by which the C library speaks to its own threads.
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

/// What waits for the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// No signal that it lets through.
    Nothing,
    /// Signals after which a system call goes on.
    Restarts,
    /// A signal whose handler was installed without SA_RESTART.
    Interrupts,
}

/// The calling thread's signals are held back until this is dropped. Then they are delivered, before `drop` returns; their
/// handlers may not come back.
#[derive(Debug)]
pub struct Held {
    before: Mask,
    /// It is about the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Held {
    /// From now on.
    pub fn new() -> Held {
        Held { before: set_mask(!NEVER_HELD), _thread: PhantomData }
    }

    /// Signals that the program lets through and that are held back.
    pub fn let_through(&self) -> Mask {
        !(self.before | NEVER_HELD)
    }

    /// What waits.
    pub fn pending(&self) -> Pending {
        let mut pending: Mask = 0;
        // SAFETY: a place for the answer, as long as is said.
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

/// Set the calling thread's mask; answers what it was.
fn set_mask(mask: Mask) -> Mask {
    let mut before: Mask = 0;
    // SAFETY: two places of the length that is said.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, MASK_BYTES);
    }
    before
}

/// Whether a system call ends when this signal is handled.
fn interrupts(signal: c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is changed; a place for the answer, which is zero and thus valid if there is none.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
    handled && action.sa_flags & libc::SA_RESTART == 0
}

/// A descriptor that is readable while a signal waits for the thread that looks; nothing is taken.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    mask: Mask,
}

impl SignalFd {
    /// Tells of none yet.
    pub fn new() -> io::Result<SignalFd> {
        let fd = signalfd(-1, 0)?;
        // SAFETY: just opened, and nobody else's.
        Ok(SignalFd { fd: unsafe { OwnedFd::from_raw_fd(fd) }, mask: 0 })
    }

    /// From now on tells of these.
    pub fn follow(&mut self, mask: Mask) -> io::Result<()> {
        if mask != self.mask {
            signalfd(self.fd.as_raw_fd(), mask)?;
            self.mask = mask;
        }
        Ok(())
    }
}

/// Signals that are not handled but read, one after another. They are held back in the thread that makes this and in
/// those that it starts later, for good.
#[derive(Debug)]
pub struct SignalQueue(SignalFd);

impl SignalQueue {
    /// Of these signals.
    pub fn new(signals: &[c_int]) -> io::Result<SignalQueue> {
        let wanted = signals.iter().fold(0, |mask, signal| mask | bit(*signal));
        let before = set_mask(!NEVER_HELD);
        set_mask(before | wanted);
        let mut fd = SignalFd::new()?;
        fd.follow(wanted)?;
        Ok(SignalQueue(fd))
    }

    /// The next one, if one came.
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
    // SAFETY: no memory is involved, and the number names one process alone.
    if unsafe { libc::kill(pid, signal) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a program that holds no signal back, whatever this thread does.
pub fn spawn_unblocked(command: &mut std::process::Command) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec a system call alone, on memory of its own.
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
    // SAFETY: a mask of the length that is said.
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
        // SAFETY: a whole sigaction whose handler does nothing.
        unsafe {
            let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = ignore as extern "C" fn(c_int) as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
        }
    }

    fn raise(signal: c_int) {
        // SAFETY: no pointers; the thread is our own.
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
            // SAFETY: a signal to this very thread, which holds it back.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            assert_eq!((queue.take(), queue.take()), (Some(libc::SIGUSR2), None));
        });
        join.join().expect("the thread");
    }
}
