//! Pairs of programs that carry checked data over reliable connections (`traffic.c`), and their permitted results.

use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_interop::{Ended, Lab, Proc, Side, Who};

/// Time limit for a pair to connect, or to carry data again after the network came back.
const CARRIES_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for the survivor of a pair to end: eight times the longest timeout, which may last up to four times as
/// long.
const ENDS_WITHIN: Duration = Duration::from_secs(80);
/// Exit status of `traffic` for wrong data, and for a completion with an error (its status is added).
const WRONG_DATA: i32 = 3;
const COMPLETION: i32 = 100;
/// IBV_WC_RETRY_EXC_ERR.
const RETRY_EXCEEDED: i32 = 12;
/// Connections of a pair.
const CONNECTIONS: usize = 2;
/// Unit of the local ACK timeout.
const TIMEOUT_UNIT_NS: u64 = 4096;
/// Local ACK timeouts without an answer that every connection survives: the last of retry_cnt 7 may start just before
/// the network is back.
const TIMEOUTS_SURVIVED: u32 = 7;
/// Maximum time from the end of an outage until packets pass: the kernel notices a carrier up to a second late, and
/// queries a lost IPv6 neighbour three times, a second apart.
const PASSES_WITHIN: Duration = Duration::from_secs(4);

/// A kind of pair.
#[derive(Debug)]
pub struct Plan {
    /// Name for messages.
    pub name: &'static str,
    /// Whether both ends are in the server's namespace.
    pub same_host: bool,
    /// Whether the GIDs are IPv6 addresses.
    pub v6: bool,
    /// Local ACK timeout.
    pub timeout: u32,
    /// `poll` or `sleep`.
    pub mode: &'static str,
    /// The timeout is shorter than outages: the connection often ends in one.
    pub fragile: bool,
}

/// Every kind.
pub const PLANS: &[Plan] = &[
    Plan { name: "IPv4", same_host: false, v6: false, timeout: 18, mode: "poll", fragile: false },
    Plan { name: "IPv6", same_host: false, v6: true, timeout: 18, mode: "poll", fragile: false },
    Plan { name: "IPv4, asleep", same_host: false, v6: false, timeout: 18, mode: "sleep", fragile: false },
    Plan { name: "IPv4, short timeout", same_host: false, v6: false, timeout: 10, mode: "poll", fragile: true },
    Plan { name: "same host", same_host: true, v6: false, timeout: 17, mode: "sleep", fragile: false },
];

/// A running end.
#[derive(Debug)]
pub struct End {
    proc: Proc,
    progress: PathBuf,
    /// Progress of each connection when the network was last up.
    mark: [u64; CONNECTIONS],
    /// Its accumulated wait for a processor when it last carried data.
    paused: Duration,
}

/// The numbers in a program's progress file.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Messages that each connection checked.
    checked: [u64; CONNECTIONS],
    /// Time for which the program got no processor.
    paused: Duration,
}

/// A running pair.
#[derive(Debug)]
pub struct Flow {
    /// Its kind.
    pub plan: &'static Plan,
    ends: [End; 2],
    timeout: Duration,
}

/// State of a pair since its last mark.
#[derive(Debug)]
pub enum Fate {
    /// Each of its connections carries data in both directions.
    Carries(Box<Flow>),
    /// It ended with an adapter's status: its timeout is short, or it was without network or processor for that long.
    Broken,
    /// It ended with that status although both were back in time.
    Ended(String),
}

/// An end whose peer was killed: it must end, with an adapter's status.
#[derive(Debug)]
pub struct Survivor {
    end: End,
    plan: &'static Plan,
    until: Instant,
}

impl End {
    fn progress(&self) -> Progress {
        let bytes = std::fs::read(&self.progress).unwrap_or_default();
        let (words, _) = bytes.as_chunks();
        let word = |nth: usize| words.get(nth).map_or(0, |word| u64::from_ne_bytes(*word));
        Progress { checked: std::array::from_fn(word), paused: Duration::from_millis(word(CONNECTIONS)) }
    }

    fn checked(&self) -> u64 {
        self.progress().checked.iter().sum()
    }

    /// Returns whether every connection has checked more than at the last mark.
    fn carries(&self) -> bool {
        self.progress().checked.iter().zip(self.mark).all(|(now, mark)| *now > mark)
    }

    /// Returns how long it has been without a processor since it last carried data.
    fn pause(&self) -> Duration {
        self.progress().paused.saturating_sub(self.paused)
    }

    fn finish(self, plan: &Plan) -> Result<()> {
        let ended = self.proc.wait(Duration::ZERO);
        let code = ended.status.and_then(|status| status.code());
        ensure!(code != Some(WRONG_DATA), "WRONG DATA, {}: {}", plan.name, ended.report());
        ensure!(code == Some(COMPLETION + RETRY_EXCEEDED), "{}: wrong end: {}", plan.name, ended.report());
        Ok(())
    }

    fn hang(self, plan: &Plan, why: &str) -> anyhow::Error {
        let stack = std::fs::read_to_string(format!("/proc/{}/wchan", self.proc.pid())).unwrap_or_default();
        let (checked, ended): (u64, Ended) = (self.checked(), self.proc.kill());
        anyhow::anyhow!("{}: {why} ({checked} checked, waits in {stack:?}): {}", plan.name, ended.report())
    }
}

impl Flow {
    /// Starts both ends; `faults` is the value of WEFT_FAULT, `patience` is added to the timeout.
    pub fn start(lab: &Lab, program: &str, plan: &'static Plan, faults: &str, patience: u32) -> Result<Flow> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let meeting = lab.file(&format!("meeting-{number}"));
        let timeout = plan.timeout + patience;
        let end = |role: &str, side: &Side| -> Result<End> {
            let progress = lab.file(&format!("progress-{number}-{role}"));
            let device = &lab.device(side)?.name;
            let address = if plan.v6 { side.v6 } else { side.v4 };
            let path = |path: &PathBuf| path.to_str().map(str::to_owned).context("the lab's path is not UTF-8");
            let (meeting, timeout, counts) = (path(&meeting)?, timeout.to_string(), path(&progress)?);
            let words = [program, device, address, &meeting, role, &timeout, plan.mode, &counts];
            let env = [("WEFT_FAULT", faults)];
            let env = if faults.is_empty() { &[][..] } else { &env };
            Ok(End {
                proc: lab.start(side, Who::Root, env, &words)?,
                progress,
                mark: [0; CONNECTIONS],
                paused: Duration::ZERO,
            })
        };
        let near = if plan.same_host { lab.server() } else { lab.client() };
        let ends = [end("listen", lab.server())?, end("connect", near)?];
        Ok(Flow { plan, ends, timeout: Duration::from_nanos(TIMEOUT_UNIT_NS << timeout) })
    }

    /// Records the progress of both ends.
    pub fn mark(&mut self) {
        self.ends.iter_mut().for_each(|end| end.mark = end.progress().checked);
    }

    /// Waits until both ends have checked more data on every connection than at the last mark, or ended with an
    /// adapter's status. `cut` is how long the network was cut since that mark.
    ///
    /// A pair is not done if only one connection carries data: its other connection may have sent its last retries
    /// during several outages.
    pub fn carries(mut self, cut: Duration) -> Result<Fate> {
        let until = Instant::now() + CARRIES_WITHIN;
        loop {
            let running = self.ends.each_mut().map(|end| end.proc.running());
            if running.contains(&false) {
                return self.ended(running[0], cut);
            }
            if self.ends.iter().all(End::carries) {
                self.ends.iter_mut().for_each(|end| end.paused = end.progress().paused);
                return Ok(Fate::Carries(Box::new(self)));
            }
            if Instant::now() > until {
                let [a, b] = self.ends;
                let (a, b) = (a.hang(self.plan, "carries no data"), b.hang(self.plan, "carries no data"));
                bail!("{a:#}\n      {b:#}");
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Judges a pair of which one end exited by itself.
    fn ended(self, first_runs: bool, cut: Duration) -> Result<Fate> {
        let Flow { plan, ends: [a, b], timeout } = self;
        let (ended, other) = if first_runs { (b, a) } else { (a, b) };
        let (paused, text) = (ended.pause(), ended.proc.text());
        ended.finish(plan)?;
        let mut other = Survivor { end: other, plan, until: Instant::now() + ENDS_WITHIN };
        while !other.has_ended()? {
            std::thread::sleep(Duration::from_millis(10));
        }
        let paused = paused.max(other.end.pause());
        other.finish()?;
        let survived = timeout * TIMEOUTS_SURVIVED;
        let unreachable = if plan.same_host { Duration::ZERO } else { cut + PASSES_WITHIN };
        Ok(if plan.fragile || unreachable + paused >= survived {
            Fate::Broken
        } else {
            let why = format!("network cut for {cut:?}, no processor for {paused:?}, timeouts allow {survived:?}");
            Fate::Ended(format!("{}: {why}: {text}", plan.name))
        })
    }

    /// Kills one end with SIGKILL; returns the other.
    pub fn kill(self, first: bool) -> Survivor {
        let Flow { plan, ends: [a, b], .. } = self;
        let (victim, end) = if first { (a, b) } else { (b, a) };
        drop(victim.proc.kill());
        Survivor { end, plan, until: Instant::now() + ENDS_WITHIN }
    }

    /// Ends both and returns the number of checked messages; wrong data is an error.
    pub fn stop(self) -> Result<u64> {
        let mut checked = 0;
        for mut end in self.ends {
            checked += end.checked();
            ensure!(end.proc.running(), "{}: ended early: {}", self.plan.name, end.proc.wait(Duration::ZERO).report());
        }
        Ok(checked)
    }
}

impl Survivor {
    /// Returns whether it has ended; an error if it is long overdue.
    pub fn has_ended(&mut self) -> Result<bool> {
        let ended = !self.end.proc.running();
        ensure!(
            ended || Instant::now() < self.until,
            "{}: the survivor hangs: {}",
            self.plan.name,
            self.end.proc.text()
        );
        Ok(ended)
    }

    /// Judges its exit status.
    pub fn finish(self) -> Result<()> {
        self.end.finish(self.plan)
    }
}
