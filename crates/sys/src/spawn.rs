//! Starts a daemon from inside a program that is not ours, such that the program cannot notice: no SIGCHLD, no zombie,
//! no inherited descriptor, no signal handler or atfork handler run, and only the given environment.

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::pipe::PipeFlags;

/// Everything that the child needs, prepared before the fork: after it only bare system calls are allowed, since other
/// threads may have held any lock.
struct Prepared {
    path: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    null: RawFd,
    report: RawFd,
}

/// Runs a program detached: in its own session, in `/`, its standard streams on /dev/null, not as our child. Returns
/// once the program was really executed, or with the error that prevented it. `args` begin with the name that the
/// program is called by.
pub fn spawn_detached(path: &Path, args: &[&OsStr], env: &[(&OsStr, &OsStr)]) -> io::Result<()> {
    let null = above_stdio(null_device(Path::new("/dev/null"))?)?;
    let (report_rx, report_tx) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let report_tx = above_stdio(report_tx)?;

    let program = c_string(path.as_os_str())?;
    let args: Vec<CString> = args.iter().copied().map(c_string).collect::<io::Result<_>>()?;
    let env: Vec<CString> = env
        .iter()
        .map(|(name, value)| {
            let mut entry = name.to_os_string();
            entry.push("=");
            entry.push(value);
            c_string(&entry)
        })
        .collect::<io::Result<_>>()?;
    let prepared = Prepared {
        path: program,
        argv: args.iter().map(|arg| arg.as_ptr()).chain([std::ptr::null()]).collect(),
        envp: env.iter().map(|entry| entry.as_ptr()).chain([std::ptr::null()]).collect(),
        null: null.as_raw_fd(),
        report: report_tx.as_raw_fd(),
    };

    let child = clone_with_signals_blocked(&prepared)?;
    drop(report_tx);
    wait_for(child);
    // The read ends when the program was executed (close-on-exec) or when the child wrote its error.
    let mut code = [0; 4];
    match File::from(report_rx).read_exact(&mut code) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
        Err(_) => Ok(()),
    }
}

/// Opens the null device, or, in a sandbox without one, an empty file that cannot grow: a read returns end of file, a
/// write fails.
fn null_device(path: &Path) -> io::Result<OwnedFd> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok(file.into()),
        Err(_) => Ok(crate::memory::sealed_file("weft-null", 0)?.into()),
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Moves a descriptor above 2: a program may have closed the standard three, and ours would take their place.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: the call passes no pointers, and `fd` is open.
    let raw = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor to us, so we own it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn clone_with_signals_blocked(prepared: &Prepared) -> io::Result<libc::pid_t> {
    // SAFETY: the sets are plain data and valid for writing. Signals are blocked so that no handler of the program runs
    // in the child. The child of a bare clone without CLONE_VM has a copy of this memory and only calls `in_child`,
    // which makes only system calls and never returns.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        // No exit signal: the program gets no SIGCHLD, and its own wait(-1) does not see this child.
        let pid = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if pid == 0 {
            in_child(prepared);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok(pid as libc::pid_t) }
    }
}

fn wait_for(child: libc::pid_t) {
    loop {
        // SAFETY: a null status pointer is allowed.
        let rc = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
        if rc >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

/// The child: forks again and exits, so that the daemon is not a child of the program.
///
/// # Safety
/// Call only in a process just created by clone, with every pointer in `prepared` valid.
unsafe fn in_child(prepared: &Prepared) -> ! {
    // SAFETY: bare system calls with arguments that `prepared` keeps alive; no lock, no allocation, no return.
    unsafe {
        libc::setsid();
        let pid = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if pid != 0 {
            if pid < 0 {
                report(prepared.report);
            }
            libc::_exit(0);
        }
        for stdio in 0..3 {
            libc::dup2(prepared.null, stdio);
        }
        close_the_rest_on_exec();
        libc::chdir(c"/".as_ptr());
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        // Ignored signals survive an exec; the daemon needs the defaults.
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::execve(prepared.path.as_ptr(), prepared.argv.as_ptr(), prepared.envp.as_ptr());
        report(prepared.report);
        libc::_exit(127);
    }
}

/// Runs `run` in a copy of this process that keeps only the given descriptors and the standard streams, and that is not
/// our child; the copy ends when `run` returns. Fails (`Other`) in a process with more than one thread: in the copy
/// their locks would be held for ever.
///
/// `run` must not reach any descriptor that it was not given, for example through a global: the copy closes it.
pub fn fork_apart(keep: Vec<OwnedFd>, run: impl FnOnce(Vec<OwnedFd>) + 'static) -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads cannot be copied"));
    }
    // SAFETY: there is one thread, so the copy finds no lock held and may run any code.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => {
            wait_for(child);
            return Ok(());
        }
    }
    // SAFETY: as above; bare system calls. The owners of the descriptors closed here are never reached again: `run`
    // owns only its arguments, and this function does not return in the copy.
    unsafe {
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        libc::setsid();
        let mut numbers: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
        numbers.sort_unstable();
        close_all_but(&numbers);
        run(keep);
        libc::_exit(0);
    }
}

/// Redirects the standard streams to /dev/null: reads return end of file, output is discarded.
pub fn silence() {
    let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") else { return };
    for standard in 0..3 {
        // SAFETY: no Rust value owns the three standard descriptors; dup2 replaces each as a whole.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
}

/// # Safety
/// No code may use the closed descriptors afterwards.
unsafe fn close_all_but(sorted: &[RawFd]) {
    let mut from = 3;
    for &keep in sorted.iter().chain([&RawFd::MAX]) {
        if keep > from {
            // SAFETY: the caller's promise.
            unsafe { close_range(from, keep - 1) };
        }
        from = from.max(keep.saturating_add(1));
    }
}

/// # Safety
/// No code may use the closed descriptors afterwards.
unsafe fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: the caller's promise.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0) != 0 {
            for fd in first..=last.min(WALK_MAX) {
                libc::close(fd);
            }
        }
    }
}

/// Number of descriptors to close one by one before Linux 5.11.
const WALK_MAX: i32 = 1 << 16;

unsafe fn report(fd: RawFd) {
    // SAFETY: errno is thread-local; `code` lives across the call.
    unsafe {
        let code: libc::c_int = *libc::__errno_location();
        libc::write(fd, (&raw const code).cast(), size_of::<libc::c_int>());
    }
}

unsafe fn close_the_rest_on_exec() {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: changes only flags of descriptors of this process.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        // Before Linux 5.11: one by one.
        for fd in 3..WALK_MAX {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_sandbox_without_dev_has_a_stand_in_for_the_null_device() {
        let mut null = File::from(null_device(Path::new("/nonexistent/null")).unwrap());
        assert!(null.write_all(b"x").is_err());
        assert_eq!(null.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_program_runs_apart_and_leaves_no_child() {
        let dir = std::env::temp_dir().join(format!("weft-spawn-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let out = dir.join("out");
        // The shell holds extra descriptors while it redirects; the program that it finally executes does not.
        let script = format!(
            "pwd > {0}.tmp; echo $A$LOST >> {0}.tmp; mv {0}.tmp {0}; exec ls /proc/self/fd > {0}.fds",
            out.display()
        );
        let args = [OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&script)];
        spawn_detached(
            Path::new("/bin/sh"),
            &args,
            &[("A".as_ref(), "b".as_ref()), ("PATH".as_ref(), "/bin:/usr/bin".as_ref())],
        )
        .unwrap();
        // Only this thread's children: other tests have their own.
        if let Ok(children) = std::fs::read_to_string("/proc/thread-self/children") {
            assert_eq!(children, "");
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        // The fourth is the directory being listed.
        let open = || std::fs::read_to_string(dir.join("out.fds")).unwrap_or_default();
        while open() != "0\n1\n2\n3\n" && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(open(), "0\n1\n2\n3\n");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "/\nb\n");
        let _ = std::fs::remove_dir_all(&dir);

        // In the same test, because a separate test would see its child.
        let error = spawn_detached(Path::new("/nonexistent/weft"), &[], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);

        // Tests run in threads.
        assert!(fork_apart(Vec::new(), |_| ()).is_err());
    }
}
