//! Lanes: test programs of one ring that run one after another, side by side with those of the other lanes.

use crate::summary::Ring;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Beginning of the names of test programs that boot a guest. Its emulator takes one processor, and while it boots or waits
/// for its time limits, none.
const GUESTS: &str = "kernel_peer";

/// Test programs of one lane.
#[derive(Default)]
pub struct Lane {
    /// Options that name cargo's targets.
    targets: Vec<String>,
    /// Whether the lane prints a program's output when it has ended, so that two lanes' lines do not mix.
    late: bool,
}

impl Lane {
    /// Creates a lane of these test programs.
    pub fn of(programs: Vec<String>) -> Lane {
        Lane { targets: programs.into_iter().flat_map(|program| ["--test".to_owned(), program]).collect(), late: false }
    }

    /// Returns the options that name its targets.
    pub fn targets(&self) -> Vec<&str> {
        self.targets.iter().map(String::as_str).collect()
    }
}

/// Returns the lanes of the interop ring: programs with a guest, and all others.
pub fn interop(programs: Vec<String>) -> Vec<Lane> {
    let (guests, others) = programs.into_iter().partition(|program| program.starts_with(GUESTS));
    let mut others = Lane::of(others);
    others.targets.splice(0..0, ["--lib", "--bins"].map(str::to_owned));
    vec![others, Lane { late: true, ..Lane::of(guests) }]
}

/// Runs all lanes side by side, shows their output, and counts.
pub fn run(name: &'static str, lanes: &[Lane], command: impl Fn(&Lane) -> Command) -> Result<Ring> {
    let rings = std::thread::scope(|scope| -> Result<Vec<Ring>> {
        let running: Vec<_> = lanes
            .iter()
            .map(|lane| {
                let command = command(lane);
                scope.spawn(move || lane_of(name, command, lane.late))
            })
            .collect();
        running.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
    })?;
    Ok(rings.into_iter().fold(Ring::new(name), Ring::with))
}

/// Runs one lane's command to its end.
fn lane_of(name: &'static str, mut command: Command, late: bool) -> Result<Ring> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = words.join(" ");
    eprintln!("\n== cargo {words}");
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let mut ring = Ring::new(name);
    let mut kept = String::new();
    if let Some(out) = child.stdout.take() {
        // Programs under test print anything, including bytes that are not text.
        for line in BufReader::new(out).split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            ring.read(&line);
            kept.push_str(&line);
            kept.push('\n');
            if !late || ring.at_a_programs_end() {
                print!("{kept}");
                kept.clear();
            }
        }
    }
    print!("{kept}");
    let status = child.wait()?;
    if !status.success() && ring.failed == 0 {
        // Compilation failed, or a test program crashed before it could count.
        ring.failed = 1;
        ring.failures.push(format!("{name}: cargo {words} failed without a result"));
    }
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn guests_have_a_lane_of_their_own() {
        let lanes = interop(["cm_tools", "kernel_peer", "kernel_peer_cm", "perftest"].map(str::to_owned).to_vec());
        let targets: Vec<_> = lanes.iter().map(|lane| lane.targets().join(" ")).collect();
        assert_eq!(
            targets,
            ["--lib --bins --test cm_tools --test perftest", "--test kernel_peer --test kernel_peer_cm"]
        );
    }

    #[test]
    fn lanes_count_together_and_run_side_by_side() {
        let lanes = [Lane::of(vec!["a".into()]), Lane { late: true, ..Lane::of(vec!["b".into()]) }];
        let dir = std::env::temp_dir().join(format!("weft-lanes-{}", std::process::id()));
        let fifo = dir.display();
        std::fs::create_dir_all(&dir).unwrap();
        assert!(shell(&format!("mkfifo {fifo}/meet")).status().unwrap().success());
        // Each waits for the other: one lane after the other would never end.
        let ring = run("interop", &lanes, |lane| match lane.targets()[..] {
            ["--test", "a"] => {
                shell(&format!("echo > {fifo}/meet; echo test x ... ok; echo 'test result: ok. 1 passed; 0 failed;'"))
            }
            _ => shell(&format!(
                "cat {fifo}/meet; echo test y ... FAILED; echo 'test result: FAILED. 0 passed; 1 failed;'; exit 1"
            )),
        })
        .unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((ring.passed, ring.failed, ring.failures), (1, 1, vec!["interop: y".to_owned()]));
    }

    #[test]
    fn a_lane_that_ends_without_a_result_fails() {
        let ring = run("interop", &[Lane::default()], |_| shell("exit 101")).unwrap();
        assert_eq!((ring.passed, ring.failed), (0, 1));
        assert!(ring.failures[0].contains("failed without a result"), "{:?}", ring.failures);
    }
}
