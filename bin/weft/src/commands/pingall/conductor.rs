//! Runs a round: starts a program as each of its hosts, hands each the places of the others, and collects what they
//! report.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::Round;
use super::report::Report;
use super::wire::{Method, Place, Said, peers_line};
use crate::{errno, output};

/// Time limit for all hosts of a round to be ready: their namespaces and views are made one after another.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for the next result: each kind of ping gives up after some seconds.
const PINGED_WITHIN: Duration = Duration::from_secs(60);
/// Hosts that ping at the same time at most: the daemon bounds how many paths between programs may be unfinished.
const PINGING_MAX: usize = 8;

/// A host's program; dropping it ends it.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // The end of its input is the end of the program; one that hangs is not waited for.
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The programs of a round, and what they say, by their place in it.
struct Stage<'a> {
    hosts: Vec<&'a str>,
    programs: Vec<Program>,
    said: Receiver<(usize, Option<Said>)>,
    progress: Progress,
}

/// Runs a round, and adds its results to the report.
///
/// # Errors
/// A host's program cannot start; the text is for the user.
pub fn conduct(all: &[String], round: &Round, number: (usize, usize), report: &mut Report) -> Result<(), String> {
    let hosts: Vec<&str> = round.hosts.iter().filter_map(|host| all.get(*host)).map(String::as_str).collect();
    let mut stage = Stage::start(hosts, number)?;
    let places = stage.places();
    if places.values().flatten().all(|place| place.ip.is_none()) {
        report.has_no_ip();
    }
    let is_ready = |place: &usize| places.get(place).is_some_and(Result::is_ok);
    let mut add = |asker: usize, method, mut failed: Vec<(usize, String)>| {
        let unready = places.iter().filter_map(|(place, found)| Some((*place, found.as_ref().err()?.clone())));
        failed.extend(unready.filter(|(place, _)| *place != asker));
        failed.sort_unstable();
        let failed = failed.into_iter().map(|(place, why)| (round.hosts[place], why)).collect();
        report.add(method, round.hosts[asker], round.hosts.len() - 1, failed);
    };
    let peers_of = |asker: usize| {
        let peers = places.iter().filter(|(place, _)| **place != asker).filter_map(|(_, found)| found.as_ref().ok());
        peers_line(peers)
    };
    let askers: Vec<usize> = (0..round.askers).filter(is_ready).collect();
    let missing = stage.results(&askers, peers_of, |asker, method, failed| {
        // The peers are numbered without the asker, and without hosts that are not ready.
        let peers: Vec<usize> = places.keys().copied().filter(|place| *place != asker).filter(is_ready).collect();
        let failed = failed.into_iter().filter_map(|(number, why)| Some((*peers.get(number)?, why)));
        add(asker, method, failed.collect());
    });
    let all_failed = |asker: usize, why: &str| {
        let ready = places.keys().filter(|place| **place != asker && is_ready(place));
        ready.map(|place| (*place, why.to_owned())).collect()
    };
    for (asker, method) in missing {
        add(asker, method, all_failed(asker, "the program that pings did not finish"));
    }
    for (asker, found) in places.iter().filter(|(place, _)| **place < round.askers) {
        if let Err(why) = found {
            Method::ALL.into_iter().for_each(|method| add(*asker, method, all_failed(*asker, why)));
        }
    }
    Ok(())
}

impl<'a> Stage<'a> {
    fn start(hosts: Vec<&'a str>, number: (usize, usize)) -> Result<Stage<'a>, String> {
        let (sender, said) = mpsc::channel();
        let cannot = |host: &str, e: std::io::Error| format!("{host}: cannot run `weft run`: {}", errno::text(&e));
        let start =
            |(place, host): (usize, &&str)| start(place, host, sender.clone()).map_err(|error| cannot(host, error));
        let programs = hosts.iter().enumerate().map(start).collect::<Result<_, _>>()?;
        let progress = Progress::new(number);
        Ok(Stage { hosts, programs, said, progress })
    }

    /// Waits until each host is ready, or has failed with this reason.
    fn places(&self) -> BTreeMap<usize, Result<Place, String>> {
        let until = Instant::now() + READY_WITHIN;
        let mut places = BTreeMap::new();
        while places.len() < self.hosts.len() {
            self.progress.show("hosts are ready", places.len(), self.hosts.len());
            let left = until.saturating_duration_since(Instant::now());
            let Ok((place, said)) = self.said.recv_timeout(left) else { break };
            let found = match said {
                Some(Said::Ready(found)) => Ok(found),
                Some(Said::Failed(why)) => Err(format!("{}: {why}", self.hosts[place])),
                _ => Err(format!("{}: its program has ended", self.hosts[place])),
            };
            places.entry(place).or_insert(found);
        }
        for place in 0..self.hosts.len() {
            let late = || format!("{}: its program is not ready after {} s", self.hosts[place], READY_WITHIN.as_secs());
            places.entry(place).or_insert_with(|| Err(late()));
        }
        places
    }

    /// Hands a host's program a line. One that has ended will be missing among the results.
    fn tell(&mut self, place: usize, line: &str) {
        if let Some(stdin) = self.programs.get_mut(place).and_then(|program| program.stdin.as_mut()) {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Lets the askers ping, some at a time, and collects their results until all have come, or none comes any more;
    /// returns those that are missing.
    fn results(
        &mut self,
        askers: &[usize],
        peers_of: impl Fn(usize) -> String,
        mut on: impl FnMut(usize, Method, Vec<(usize, String)>),
    ) -> Vec<(usize, Method)> {
        let each = |asker: &usize| Method::ALL.map(|method| (*asker, method));
        let mut missing: Vec<(usize, Method)> = askers.iter().flat_map(each).collect();
        let all = missing.len();
        let mut waiting = askers.iter().copied();
        let mut pinging: BTreeSet<usize> = BTreeSet::new();
        loop {
            while pinging.len() < PINGING_MAX
                && let Some(asker) = waiting.next()
            {
                self.tell(asker, &peers_of(asker));
                pinging.insert(asker);
            }
            self.progress.show("tests are done", all - missing.len(), all);
            if pinging.is_empty() {
                return missing;
            }
            let Ok((asker, said)) = self.said.recv_timeout(PINGED_WITHIN) else { return missing };
            match said {
                Some(Said::Pinged(method, failed)) => {
                    if let Some(at) = missing.iter().position(|entry| *entry == (asker, method)) {
                        missing.swap_remove(at);
                        on(asker, method, failed);
                    }
                    if missing.iter().all(|(other, _)| *other != asker) {
                        pinging.remove(&asker);
                    }
                }
                Some(_) => {}
                // The rest of a program that has ended is missing.
                None => drop(pinging.remove(&asker)),
            }
        }
    }
}

/// Starts a host's program, and a thread that passes on what it says; `None` is its end.
fn start(place: usize, host: &str, sender: Sender<(usize, Option<Said>)>) -> std::io::Result<Program> {
    let exe = std::env::current_exe()?;
    let mut command = Command::new(&exe);
    command.args(["run", "--host", host, "--"]).arg(&exe).arg("pingall-host");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
        for said in lines.filter_map(|line| Said::parse(&line)) {
            let _ = sender.send((place, Some(said)));
        }
        let _ = sender.send((place, None));
    });
    Ok(Program { child, stdin })
}

/// A line on the terminal that tells how far the round is.
struct Progress {
    is_shown: bool,
    round: String,
}

impl Progress {
    fn new((number, count): (usize, usize)) -> Progress {
        let round = if count > 1 { format!("round {number} of {count}: ") } else { String::new() };
        Progress { is_shown: std::io::stderr().is_terminal(), round }
    }

    fn show(&self, what: &str, done: usize, all: usize) {
        if self.is_shown {
            output::complain_text(&format!("\rpingall: {}{done} of {all} {what} \x1b[K", self.round));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            output::complain_text("\r\x1b[K");
        }
    }
}
