//! A program under a check: started, waited for with a time limit, and ended with all that it started.

use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::pidfd;
use weft_sys::signals::{SignalQueue, send, spawn_unblocked};

/// Signals for this command that concern its program, too.
const ENDING: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];
/// Poll interval while a process group ends: its last members are not this process's children.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Number in epoll of the descriptor that ends a wait early.
const WAKE: u64 = 2;
/// Time limit for a process group to end by itself after SIGTERM.
const TERMINATES_WITHIN: Duration = Duration::from_secs(2);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or by a signal of another process.
    Ended(ExitStatus),
    /// This command killed it at its time limit.
    TimedOut,
    /// The user ended this command.
    Interrupted(Signal),
}

/// Exit status of a program that was killed at its time limit, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

impl End {
    /// The exit status to pass on; shells have 128 and the signal's number for a killed program.
    pub fn code(self) -> u8 {
        let by_signal = |signal: i32| u8::try_from(128 + signal).unwrap_or(u8::MAX);
        match self {
            End::Ended(status) => {
                let code = status.code().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
                code.unwrap_or_else(|| by_signal(status.signal().unwrap_or_default()))
            }
            End::TimedOut => TIMED_OUT,
            End::Interrupted(signal) => by_signal(signal.as_raw()),
        }
    }

    /// Describes a failure; `None` for a success.
    pub fn failure(self) -> Option<String> {
        match self {
            End::Ended(status) => match (status.code(), status.signal()) {
                (Some(0), _) => None,
                (Some(code), _) => Some(format!("ended with exit status {code}")),
                (None, signal) => Some(format!("died by signal {}", signal.unwrap_or_default())),
            },
            End::TimedOut => Some("did not end within its time limit".to_owned()),
            End::Interrupted(signal) => Some(format!("was interrupted by signal {}", signal.as_raw())),
        }
    }
}

/// Signals of this process.
pub struct Signals(SignalQueue);

impl Signals {
    /// From now on this thread reads signals instead of being ended by them.
    pub fn new() -> Result<Signals> {
        SignalQueue::new(&ENDING.map(Signal::as_raw)).map(Signals).context("signals cannot be received")
    }

    fn take(&self) -> Option<Signal> {
        let number = self.0.take()?;
        ENDING.into_iter().find(|signal| signal.as_raw() == number)
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Whether it and what it starts are a process group of their own.
    has_group: bool,
}

impl Program {
    /// Starts it in this command's place: the terminal's signals reach it.
    pub fn start(command: &mut Command) -> io::Result<Program> {
        Ok(Program { child: spawn_unblocked(command)?, has_group: false })
    }

    /// Starts it as a process group of its own, which can be ended as a whole.
    pub fn start_group(command: &mut Command) -> io::Result<Program> {
        Ok(Program { child: spawn_unblocked(command.process_group(0))?, has_group: true })
    }

    /// Its process id, and that of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end. A group is killed at the time limit, or when a signal ends this command; a program in this
    /// command's place gets the signal, and decides itself.
    pub fn wait(&mut self, signals: &Signals, limit: Option<Duration>) -> io::Result<End> {
        if let Some(end) = self.wait_for(signals, limit, None)? {
            return Ok(end);
        }
        self.end_group(Duration::ZERO);
        Ok(End::TimedOut)
    }

    /// Waits for its end as [`Program::wait`] does, for some time at most, or until `wake` is readable; `None` if it still
    /// runs then.
    pub fn wait_for(
        &mut self,
        signals: &Signals,
        limit: Option<Duration>,
        wake: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<End>> {
        let until = limit.map(|limit| Instant::now() + limit);
        let epoll = Epoll::new()?;
        epoll.add(&signals.0, 0, Interest::READ)?;
        let process = pidfd::open(self.child.id())?;
        epoll.add(&process, 1, Interest::READ)?;
        if let Some(wake) = wake {
            epoll.add(wake, WAKE, Interest::READ)?;
        }
        let mut ready = Vec::new();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(End::Ended(status)));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || ready.iter().any(|source: &Ready| source.token == WAKE) {
                return Ok(None);
            }
            epoll.wait(&mut ready, left)?;
            match signals.take() {
                Some(signal) if self.has_group => {
                    self.end_group(Duration::ZERO);
                    return Ok(Some(End::Interrupted(signal)));
                }
                // The terminal sends these to every process in front of it.
                Some(Signal::INT | Signal::QUIT) if io::stdin().is_terminal() => {}
                // It may have ended meanwhile, which the next turn sees.
                Some(signal) => drop(send(self.child.id(), signal.as_raw())),
                None => {}
            }
        }
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Ends its group: waits for `grace` until it ends by itself, then sends SIGTERM and at last SIGKILL. Returns
    /// the status of a program that ended by itself.
    pub fn end_group(&mut self, grace: Duration) -> Option<ExitStatus> {
        let own = self.wait_for_group(grace);
        for (signal, within) in [(Signal::TERM, TERMINATES_WITHIN), (Signal::KILL, TERMINATES_WITHIN)] {
            let Some(group) = self.group().filter(|_| self.is_alive()) else { break };
            let _ = kill_process_group(group, signal);
            self.wait_for_group(within);
        }
        own
    }

    /// Waits until the group has no member left, and returns the program's status if it ended.
    fn wait_for_group(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        while self.is_alive() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        self.child.try_wait().ok().flatten()
    }

    fn is_alive(&mut self) -> bool {
        // A program that has ended is a member of its group until this.
        let is_running = matches!(self.child.try_wait(), Ok(None));
        is_running || self.group().is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).filter(|_| self.has_group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn the_end_of_a_program_is_told_as_shells_do() {
        let signals = Signals::new().unwrap();
        let run = |script: &str| Program::start(&mut shell(script)).unwrap().wait(&signals, None).unwrap();
        assert_eq!((run("exit 7").code(), run("kill -9 $$").code()), (7, 137));
        assert_eq!(run("exit 7").failure().as_deref(), Some("ended with exit status 7"));
        assert_eq!(run("true").failure(), None);
    }

    #[test]
    fn a_time_limit_ends_all_that_a_program_started() {
        let signals = Signals::new().unwrap();
        let started = Instant::now();
        let mut program = Program::start_group(&mut shell("sleep 100 & sleep 100")).unwrap();
        let end = program.wait(&signals, Some(Duration::from_millis(50))).unwrap();
        assert_eq!((end, end.code()), (End::TimedOut, 124));
        assert!(!program.is_alive() && started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_wait_ends_early_when_something_is_new() {
        use std::os::fd::AsFd;
        let (signals, wake) = (Signals::new().unwrap(), weft_sys::event::EventFd::new().unwrap());
        let mut program = Program::start_group(&mut shell("sleep 100")).unwrap();
        wake.signal();
        assert_eq!(program.wait_for(&signals, None, Some(wake.as_fd())).unwrap(), None);
        program.end_group(Duration::ZERO);
    }

    #[test]
    fn a_group_has_a_while_to_end_by_itself() {
        let mut program = Program::start_group(&mut shell("sleep 0.1; exit 3")).unwrap();
        assert_eq!(program.end_group(Duration::from_secs(20)).and_then(|status| status.code()), Some(3));
        let mut program = Program::start_group(&mut shell("sleep 100")).unwrap();
        assert_eq!(program.end_group(Duration::from_millis(20)), None);
        assert!(!program.is_alive());
    }
}
