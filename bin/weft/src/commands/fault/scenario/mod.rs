//! `weft fault run`: a scenario of faults, beside a program or for those that run already.

mod events;
mod file;
mod library;
mod pattern;
mod peer;
mod schedule;
mod socket_directory;
mod variables;

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Args;
use weft_ipc::{Client, FaultEntry, FaultLifetime, FaultTarget, RequestError, Spawn};
use weft_sys::signals::spawn_unblocked;
use weft_tool::fabric::spell;

use super::session::connect;
use super::target::{TargetArgs, count_processes};
use crate::commands::cable;
use crate::commands::check::{End, Program, Signals};
use crate::outln;
use events::Events;
use file::{Action, Scenario, Step};
use pattern::Watch;
use schedule::{Due, Schedule};

pub use library::list;

/// Options of `weft fault run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// File with the steps (TOML), or a name of `weft fault scenarios`
    scenario: PathBuf,
    /// Value of a variable of the scenario
    #[arg(long, value_name = "NAME=VALUE", value_parser = variables::parse)]
    set: Vec<(String, String)>,
    /// Program to run under `weft run`; faults without command and pid concern it, and end with it
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs a scenario; the program's exit status is passed on.
///
/// # Errors
/// The file is wrong, the program does not start, or a step fails.
pub fn run(args: &RunArgs) -> Result<ExitCode, String> {
    let name = args.scenario.display();
    let text = library::read(&args.scenario).map_err(|error| format!("{name}: {error}"))?;
    let set = args.set.iter().cloned().collect();
    let scenario = file::parse(&text, &set).map_err(|error| format!("{name}: {error}"))?;
    let steps = &scenario.steps;
    if args.program.is_empty()
        && let Some((place, _)) = scenario.patterns().next()
    {
        return Err(format!(
            "{name}: step {}: seen: the events of programs that run already are not known; let the scenario start the \
             program: weft fault run {name} -- PROGRAM",
            place + 1
        ));
    }
    let mut play = Play {
        client: connect(Spawn::IfNeeded)?,
        begin: Instant::now(),
        steps,
        numbers: vec![None; steps.len()],
        program: args.program.first().map(file_name),
    };
    let Some(mut program) = Played::start(&args.program, &scenario)? else {
        play.run(None)?;
        play.report_left();
        return Ok(ExitCode::SUCCESS);
    };
    let ended = play.run(Some(&mut program)).inspect_err(|_| drop(program.program.kill()));
    // Faults of a program that is gone concern others of its name.
    let removed = play.remove_left();
    let end = ended?;
    removed?;
    Ok(end.map_or(ExitCode::SUCCESS, |end| ExitCode::from(end.code())))
}

fn file_name(program: &OsString) -> String {
    let path = Path::new(program);
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The variable that turns on the traces of programs.
const TRACE: &str = "WEFT_TRACE";

/// The program that a scenario happens to.
struct Played {
    program: Program,
    signals: Signals,
    /// Its events, if steps wait for some.
    events: Option<Events>,
}

impl Played {
    /// Starts it. If packets will be damaged, its data must travel in packets.
    fn start(words: &[OsString], scenario: &Scenario) -> Result<Option<Played>, String> {
        if words.is_empty() {
            return Ok(None);
        }
        let weft = std::env::current_exe().map_err(|error| format!("the path of this command: {error}"))?;
        let mut command = Command::new(weft);
        command.args(["run", "--"]).args(words);
        if std::env::var_os("WEFT_LOOPBACK").is_none()
            && scenario.steps.iter().any(|step| step.action.damages_packets())
        {
            command.env("WEFT_LOOPBACK", "wire");
        }
        // Before the thread that reads events, which must not take them.
        let signals = Signals::new().map_err(|error| format!("{error:#}"))?;
        let watch = Watch::new(scenario.patterns().map(|(place, pattern)| (place, pattern.clone())));
        let mut events = None;
        if !watch.is_done() {
            let started =
                Events::start(watch).map_err(|error| format!("a socket for the program's events: {error}"))?;
            command.env(TRACE, started.variable(&scenario.kinds, std::env::var_os(TRACE))?);
            events = Some(started);
        }
        let program = Program::start(&mut command).map_err(|error| format!("weft run does not start: {error}"))?;
        Ok(Some(Played { program, signals, events }))
    }
}

/// Runs a command of the shell until it ends.
fn run_command(command: &str) -> Result<(), String> {
    let mut shell = Command::new("/bin/sh");
    let child = spawn_unblocked(shell.args(["-c", command]));
    let status = child.and_then(|mut child| child.wait()).map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("it failed ({status})")) }
}

struct Play<'a> {
    client: Client,
    begin: Instant,
    steps: &'a [Step],
    /// Numbers of the faults that steps added.
    numbers: Vec<Option<u32>>,
    /// Name of the program that the scenario runs.
    program: Option<String>,
}

impl Play<'_> {
    /// Does the steps at their times, until none is left or the program ends; returns its end.
    fn run(&mut self, mut played: Option<&mut Played>) -> Result<Option<End>, String> {
        let mut schedule = Schedule::new(self.steps);
        loop {
            let watched = schedule.watched();
            if !watched.is_empty() {
                self.look_for_strikes(&mut schedule, &watched)?;
            }
            if let Some(Played { events: Some(events), .. }) = &played {
                for (place, at) in events.take()? {
                    schedule.on_seen(place, at.saturating_duration_since(self.begin));
                }
            }
            while let Some(due) = schedule.take(self.begin.elapsed()) {
                self.do_step(due)?;
            }
            let now = self.begin.elapsed();
            let next = schedule.poll_timeout(now).map(|next| next.saturating_sub(now));
            match (&mut played, next) {
                (None, None) => return Ok(None),
                (None, Some(next)) => std::thread::sleep(next),
                (Some(Played { program, signals, events }), next) => {
                    let wake = events.as_ref().map(|events| events.wake().as_fd());
                    let ended = program.wait_for(signals, next, wake).map_err(|error| error.to_string())?;
                    if ended.is_some() {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    fn look_for_strikes(&mut self, schedule: &mut Schedule<'_>, watched: &[usize]) -> Result<(), String> {
        self.client.refresh_ledgers().map_err(spell)?;
        let faults = self.client.list_faults().map_err(spell)?;
        for place in watched {
            let number = self.numbers.get(*place).copied().flatten();
            if faults.iter().any(|fault| Some(fault.number) == number && fault.struck > 0) {
                schedule.on_strike(*place, self.begin.elapsed());
            }
        }
        Ok(())
    }

    fn say(&self, text: &str) {
        outln!("{:9.3} s  {text}", self.begin.elapsed().as_secs_f64());
    }

    fn do_step(&mut self, due: Due) -> Result<(), String> {
        let (place, is_end) = match due {
            Due::Step(place) => (place, false),
            Due::End(place) => (place, true),
        };
        let Some(step) = self.steps.get(place) else { return Ok(()) };
        let failed = |why: String| format!("step {} ({}): {why}", place + 1, step.text);
        if is_end {
            return self.remove(place).map_err(failed);
        }
        match &step.action {
            Action::Add { spec, target, .. } => self.add(place, step, spec, target).map_err(failed),
            Action::Remove(other) => self.remove(*other).map_err(failed),
            Action::Fabric(request) => {
                cable::send(request).map_err(failed)?;
                self.say(&step.text);
                Ok(())
            }
            Action::Run(command) => {
                self.say(&step.text);
                run_command(command).map_err(failed)
            }
        }
    }

    fn add(&mut self, place: usize, step: &Step, spec: &str, target: &TargetArgs) -> Result<(), String> {
        let (target, spec) = target.apply(spec)?;
        let target = match (target, &self.program) {
            (FaultTarget::All, Some(program)) => FaultTarget::Command(program.clone()),
            (target, _) => target,
        };
        let lifetime = if self.program.is_some() { FaultLifetime::Connection } else { FaultLifetime::Daemon };
        let FaultEntry { number, processes, without_packets, .. } =
            self.client.add_fault(&spec, target, lifetime).map_err(spell)?;
        let note = match without_packets {
            0 => String::new(),
            count => format!("; no effect on {count} of them: no packets"),
        };
        self.say(&format!("fault {number}: {} ({}{note})", step.text, count_processes(processes)));
        if let Some(known) = self.numbers.get_mut(place) {
            *known = Some(number);
        }
        Ok(())
    }

    /// Removes the fault of a step, unless it is gone.
    fn remove(&mut self, place: usize) -> Result<(), String> {
        let Some(number) = self.numbers.get_mut(place).and_then(Option::take) else { return Ok(()) };
        match self.client.remove_faults(Some(number)) {
            // The user has removed it already.
            Err(RequestError::Refused(refusal)) if refusal.errno == libc::ENOENT => return Ok(()),
            removed => removed.map_err(spell)?,
        };
        self.say(&format!("end of fault {number}: {}", self.steps.get(place).map_or("", |step| step.text.as_str())));
        Ok(())
    }

    fn remove_left(&mut self) -> Result<(), String> {
        (0..self.steps.len()).try_for_each(|place| self.remove(place))
    }

    /// Names the faults that outlast the scenario.
    fn report_left(&self) {
        for number in self.numbers.iter().flatten() {
            outln!("fault {number} stays; `weft fault del {number}` removes it");
        }
    }
}
