//! A program: started in a process group of its own, with its output in a file, and ended within a time limit.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Poll interval of a wait.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// Returns the words that run a program on a terminal. Newer ucx_perftest takes a standard input that is none for a
/// sign of mpirun.
pub fn on_a_terminal(words: &[&str]) -> Vec<String> {
    ["script", "-q", "-e", "-c", &words.join(" "), "/dev/null"].map(str::to_owned).to_vec()
}

/// A running program.
#[derive(Debug)]
pub struct Proc {
    child: Child,
    /// The command line.
    pub line: String,
    log: PathBuf,
    started: Instant,
}

/// Result of a program.
#[derive(Debug)]
pub struct Ended {
    /// The command line.
    pub line: String,
    /// Its exit status; `None` if it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// Its standard output and standard error.
    pub text: String,
    /// How long it ran.
    pub took: Duration,
}

impl Proc {
    /// Starts `words` with `env` added to the environment; output goes to `log`. The program works in `log`'s
    /// directory: the tests' own may be below one that its user may not enter.
    pub fn start(words: &[String], env: &[(String, String)], log: &Path) -> Result<Proc> {
        let (program, args) = words.split_first().context("an empty command")?;
        let file = std::fs::File::create(log)?;
        let child = Command::new(program)
            .args(args)
            .current_dir(log.parent().context("the log has no directory")?)
            .envs(env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let mut line = String::new();
        for (key, value) in env {
            let _ = write!(line, "{key}='{value}' ");
        }
        line += &words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        Ok(Proc { child, line, log: log.to_path_buf(), started: Instant::now() })
    }

    /// Returns the process id of the started command (which `ip netns exec` and `setpriv` become).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns whether it still runs.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends `signal` to its process group.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Waits until `ready` holds; false if the program ended before or `limit` passed.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut(&Proc) -> bool) -> bool {
        let until = Instant::now() + limit;
        loop {
            if ready(self) {
                return true;
            }
            if !self.running() || Instant::now() > until {
                return ready(self);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until a program listens on a TCP port in this program's network namespace.
    pub fn wait_listening(&mut self, port: u16, limit: Duration) -> bool {
        self.wait_until(limit, |p| listening(p.pid(), port))
    }

    /// Waits for its end; kills it after `limit`.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let until = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                _ => break None,
            }
        };
        let took = self.started.elapsed();
        self.end();
        Ended { line: self.line.clone(), status, text: self.text(), took }
    }

    /// Kills it now and returns its result.
    pub fn kill(mut self) -> Ended {
        let took = self.started.elapsed();
        self.end();
        Ended { line: self.line.clone(), status: None, text: self.text(), took }
    }

    /// Sends SIGKILL to the group, and reaps the child. Safe to repeat: a reaped child gets no second signal.
    fn end(&mut self) {
        if self.running() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ended {
    /// Returns whether the exit status is 0.
    pub fn ok(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    /// Describes how it ended.
    pub fn how(&self) -> String {
        match self.status {
            None => format!("was killed after {:.1} s", self.took.as_secs_f32()),
            Some(s) => match (s.code(), s.signal()) {
                (Some(code), _) => format!("ended with exit status {code}"),
                (None, Some(signal)) => format!("died by signal {signal}"),
                (None, None) => "ended in an unknown way".into(),
            },
        }
    }

    /// Returns an error with the full report, unless it ended with exit status 0.
    pub fn success(self) -> Result<Ended> {
        if self.ok() { Ok(self) } else { Err(anyhow::anyhow!("{}", self.report())) }
    }

    /// Returns the command, how it ended, and its last output lines.
    pub fn report(&self) -> String {
        let lines: Vec<_> = self.text.lines().collect();
        let tail = lines[lines.len().saturating_sub(25)..].join("\n        ");
        format!("{}\n      {}; it wrote:\n        {tail}", self.line, self.how())
    }
}

/// Returns whether a program listens on TCP `port` in the network namespace of process `pid`.
fn listening(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        listens(&text, port)
    })
}

/// Returns whether a table of sockets in the format of `/proc/net/tcp` has one that listens on `port`.
pub(crate) fn listens(table: &str, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().unwrap_or_default();
        let state = words.nth(1).unwrap_or_default();
        local.ends_with(&wanted) && state == "0A"
    })
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{word}'") }
}
