//! One run of the program, with its server, and the judgement on it.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::args::CheckArgs;
use super::directory::RunDirectory;
use super::launch::Scene;
use super::process::{End, Program, Signals};
use super::verdict::{Filter, Verdict};
use crate::commands::run;

/// Names of the files with hidden output, and the words for their owners.
const PROGRAM: &str = "program";
const SERVER: &str = "server";
/// Time for a server, and for what the program left in the background, to end by itself after the program.
const GRACE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How to run the program.
pub struct Run<'a> {
    /// The command's options.
    pub args: &'a CheckArgs,
    /// Which reports count.
    pub filter: &'a Filter,
    /// Signals of this command.
    pub signals: &'a Signals,
    /// Seed of a strict adapter.
    pub seed: Option<u64>,
    /// Time limit of the program.
    pub limit: Option<Duration>,
    /// Whether the output is kept, to be printed if the run fails.
    pub hides_output: bool,
}

/// The end of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status to pass on, if no report changes it.
    pub code: u8,
    /// Sentences about what failed, without the reports.
    pub failures: Vec<String>,
    /// The user ended this command.
    pub is_interrupted: bool,
    /// The reports.
    pub verdict: Verdict,
    directory: RunDirectory,
}

impl Run<'_> {
    /// Runs the program to its end.
    ///
    /// # Errors
    /// Weft's libraries are missing; the program's process cannot be made.
    pub fn once(&self) -> Result<Outcome> {
        let directory = RunDirectory::new()?;
        let reports = directory.reports();
        let scene = Scene { reports: &reports, seed: self.seed };
        let mut outcome =
            Outcome { code: 0, failures: Vec::new(), is_interrupted: false, verdict: Verdict::default(), directory };
        match &self.args.server {
            Some(script) => self.run_pair(&scene, script, &mut outcome)?,
            None => self.run_program(&scene, &mut outcome)?,
        }
        outcome.verdict = Verdict::read(&reports, self.filter)?;
        Ok(outcome)
    }

    fn run_pair(&self, scene: &Scene<'_>, script: &OsStr, outcome: &mut Outcome) -> Result<()> {
        let mut server = self.start(scene.server(self.args, script)?, SERVER, outcome)?;
        match self.await_listening(&mut server)? {
            None => self.run_program(scene, outcome)?,
            Some(why) => {
                server.end_group(Duration::ZERO);
                outcome.code = run::FAILED;
                outcome.failures.push(format!("the server {why}"));
                return Ok(());
            }
        }
        let grace = if outcome.is_interrupted { Duration::ZERO } else { GRACE };
        // A server that goes on after its client is ended, which is no failure.
        if let Some(status) = server.end_group(grace) {
            outcome.note(SERVER, End::Ended(status));
        }
        Ok(())
    }

    fn run_program(&self, scene: &Scene<'_>, outcome: &mut Outcome) -> Result<()> {
        let mut program = self.start(scene.program(self.args)?, PROGRAM, outcome)?;
        let end = program.wait(self.signals, self.limit)?;
        if self.needs_group() {
            // Its own status is known: this waits for what it left behind.
            program.end_group(GRACE);
        }
        outcome.is_interrupted = matches!(end, End::Interrupted(_));
        outcome.note(PROGRAM, end);
        Ok(())
    }

    /// Whether the program may have to be ended with all that it started.
    fn needs_group(&self) -> bool {
        self.limit.is_some() || self.seed.is_some() || self.args.server.is_some()
    }

    fn start(&self, mut command: Command, name: &str, outcome: &Outcome) -> Result<Program> {
        if self.hides_output {
            let file = outcome.directory.create(name)?;
            command.stdout(file.try_clone()?).stderr(file);
        }
        let started = if self.needs_group() {
            // A terminal would stop a group in the background that reads from it.
            if self.hides_output || std::io::stdin().is_terminal() {
                command.stdin(Stdio::null());
            }
            Program::start_group(&mut command)
        } else {
            Program::start(&mut command)
        };
        started.with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))
    }

    /// Waits until the server listens; returns why it does not.
    fn await_listening(&self, server: &mut Program) -> Result<Option<String>> {
        let host = self.args.server_host.as_deref().or(self.args.place.adapters.host.as_deref()).unwrap_or_default();
        let port = self.args.place.wait_port;
        let until = Instant::now() + run::LISTENS_WITHIN;
        loop {
            // A server that has left its process group is known by its port.
            if run::listens(server.pid(), port, host) || port.is_some_and(|port| run::is_listened_on(port, host)) {
                return Ok(None);
            }
            if let Some(status) = server.ended()? {
                let how = End::Ended(status).failure().unwrap_or_else(|| "ended".to_owned());
                return Ok(Some(format!("{how} before it listened")));
            }
            if Instant::now() > until {
                let seconds = run::LISTENS_WITHIN.as_secs();
                return Ok(Some(format!("does not listen after {seconds} s; name its port with --wait-port")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Outcome {
    /// Notes how a process ended. The first failure decides on the exit status.
    fn note(&mut self, name: &str, end: End) {
        if let Some(how) = end.failure() {
            self.failures.push(format!("the {name} {how}"));
        }
        if self.code == 0 {
            self.code = end.code();
        }
    }

    /// Whether anything failed, reports included.
    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty() || self.verdict.has_errors() || self.verdict.incomplete > 0
    }

    /// The exit status of a check with this end; `of_errors` is that of errors, unless it is 0.
    pub fn exit_code(&self, of_errors: u8) -> u8 {
        self.verdict.exit_code(self.code, of_errors)
    }

    /// The hidden output of the program and its server, each with a headline.
    pub fn output(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for name in [SERVER, PROGRAM] {
            let text = self.directory.tail(name);
            if !text.is_empty() {
                all.extend_from_slice(format!("--- output of the {name}\n").as_bytes());
                all.extend_from_slice(&text);
                if !text.ends_with(b"\n") {
                    all.push(b'\n');
                }
            }
        }
        all
    }
}
