//! Lanes: test programs of one ring side by side, each lane taking the next program of a queue when its last one has ended.

use crate::summary::Ring;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Beginning of the names of test programs that boot a guest. Its emulator takes one processor, and while it boots or waits
/// for its time limits, none.
const GUESTS: &str = "kernel_peer";

/// A test program that cargo has built.
#[derive(Debug)]
pub struct Program {
    name: String,
    executable: PathBuf,
    /// Its package, in which it runs, as under cargo.
    directory: PathBuf,
}

/// A message of cargo's (`--message-format json`); of the other kinds nothing is needed.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Program {
    /// Returns the test program that a line of cargo's messages names, if it names one.
    fn of_message(line: &str) -> Option<Program> {
        let Message { target, profile, executable, manifest_path } = serde_json::from_str(line).ok()?;
        let is_test = profile?.test;
        let directory = manifest_path?.parent().map(Path::to_path_buf)?;
        Some(Program { name: target?.name, executable: executable.filter(|_| is_test)?, directory })
    }

    /// Returns the command that runs it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory);
        command
    }

    fn boots_a_guest(&self) -> bool {
        self.name.starts_with(GUESTS)
    }
}

/// Builds test programs with a command of cargo's, and returns them.
pub fn built(mut cargo: Command) -> Result<Vec<Program>> {
    cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Program::of_message).collect())
}

/// Programs that no lane has taken yet.
struct Queue(Mutex<VecDeque<Program>>);

impl Queue {
    /// Takes the next program. One lane takes those with a guest first; the other takes none of them, so that no two
    /// guests share the processors.
    fn take(&self, guests_first: bool) -> Option<Program> {
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = programs.iter().position(|program| program.boots_a_guest() == guests_first);
        programs.remove(next.or(guests_first.then_some(0))?)
    }
}

/// Runs test programs in two lanes, shows each one's output when it has ended, and counts.
pub fn run(name: &'static str, programs: Vec<Program>, prepare: impl Fn(&mut Command) + Sync) -> Result<Ring> {
    let queue = Queue(Mutex::new(programs.into()));
    let lane = |guests_first: bool| -> Result<Ring> {
        let mut ring = Ring::new(name);
        while let Some(program) = queue.take(guests_first) {
            let mut command = program.command();
            prepare(&mut command);
            let mut output = format!("\n== {}\n", program.name);
            ring = ring.with(counted(Ring::of(name, &program.name), &program.name, command, |line| {
                output.extend([line, "\n"])
            })?);
            print!("{output}");
        }
        Ok(ring)
    };
    std::thread::scope(|scope| {
        let guests = scope.spawn(|| lane(true));
        let others = lane(false)?;
        Ok(others.with(guests.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?))
    })
}

/// Runs a command that prints as Rust's test harness does, shows its output, and counts.
pub fn alone(name: &'static str, command: Command) -> Result<Ring> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = format!("cargo {}", words.join(" "));
    eprintln!("\n== {words}");
    counted(Ring::new(name), &words, command, |line| println!("{line}"))
}

/// Runs a command to its end, passes its lines on, and counts.
fn counted(mut ring: Ring, what: &str, mut command: Command, mut show: impl FnMut(&str)) -> Result<Ring> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {what}"))?;
    if let Some(out) = child.stdout.take() {
        // Programs under test print anything, including bytes that are not text.
        for line in BufReader::new(out).split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            ring.read(&line);
            show(&line);
        }
    }
    let status = child.wait()?;
    if !status.success() && ring.failed == 0 {
        // Compilation failed, or a test program crashed before it could count.
        ring.failed = 1;
        ring.failures.push(format!("{}: {what} failed without a result", ring.name));
    }
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Program {
        Program { name: name.into(), executable: "sh".into(), directory: std::env::temp_dir() }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn test_programs_are_found_in_cargos_messages() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/tests/interop/Cargo.toml","target":{{"name":"umad"}},
                "profile":{{"opt_level":"0","test":{test}}},"executable":"/w/target/debug/deps/umad-1"}}"#
            )
            .replace('\n', "")
        };
        let found = Program::of_message(&message(true)).unwrap();
        assert_eq!((found.name.as_str(), found.directory), ("umad", PathBuf::from("/w/tests/interop")));
        assert_eq!(found.executable, PathBuf::from("/w/target/debug/deps/umad-1"));
        assert!(Program::of_message(&message(false)).is_none());
        assert!(Program::of_message(r#"{"reason":"build-finished","success":true}"#).is_none());
        assert!(Program::of_message("not JSON").is_none());
    }

    #[test]
    fn guests_have_one_lane_which_helps_the_other_afterwards() {
        let programs = ["cm_tools", "kernel_peer", "kernel_peer_cm", "perftest", "umad"].map(program);
        let queue = Queue(Mutex::new(programs.into()));
        let take = |guests_first| queue.take(guests_first).map(|program| program.name);
        assert_eq!(take(true).as_deref(), Some("kernel_peer"));
        assert_eq!(take(false).as_deref(), Some("cm_tools"));
        assert_eq!(take(false).as_deref(), Some("perftest"));
        assert_eq!(take(true).as_deref(), Some("kernel_peer_cm"));
        assert_eq!(take(true).as_deref(), Some("umad"));
        assert_eq!((take(true), take(false)), (None, None));
    }

    #[test]
    fn lanes_count_together_and_run_side_by_side() {
        let dir = std::env::temp_dir().join(format!("weft-lanes-{}", std::process::id()));
        let fifo = dir.display();
        std::fs::create_dir_all(&dir).unwrap();
        assert!(shell(&format!("mkfifo {fifo}/meet")).status().unwrap().success());
        // Each waits for the other: one program after the other would never end.
        let script = format!(
            "if mkdir {fifo}/first 2>/dev/null; \
             then echo > {fifo}/meet; echo test x ... ok; echo 'test result: ok. 1 passed; 0 failed;'; \
             else cat {fifo}/meet; echo test y ... FAILED; echo 'test result: FAILED. 0 passed; 1 failed;'; exit 1; fi"
        );
        let ring = run("interop", Vec::from(["a", "b"].map(program)), |command| {
            command.args(["-c", &script]);
        })
        .unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((ring.passed, ring.failed, ring.failures), (1, 1, vec!["interop: y".to_owned()]));
    }

    #[test]
    fn a_program_that_ends_without_a_result_fails() {
        let ring = run("interop", vec![program("a")], |command| {
            command.args(["-c", "exit 101"]);
        })
        .unwrap();
        assert_eq!((ring.passed, ring.failed), (0, 1));
        assert!(ring.failures[0].contains("a failed without a result"), "{:?}", ring.failures);
    }
}
