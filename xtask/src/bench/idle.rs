//! The cost of idleness: processor time of two connected programs and of their daemons, between two readings.

use super::program::{Program, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use weft_interop::{Lab, Pair};

/// Time for which perftest keeps its queue pairs after its last message.
const HELD: Duration = Duration::from_secs(12);
/// Time limit for a run of few messages to reach that point.
const RESTS_WITHIN: Duration = Duration::from_secs(20);
/// Time to settle: acknowledgements and a last timer may follow the last message.
const SETTLES: Duration = Duration::from_millis(1500);
/// Length of the measurement.
const WATCH: Duration = Duration::from_secs(5);
/// The kernel counts processor time in hundredths of a second (USER_HZ), whatever its own tick.
const TICKS_PER_SECOND: f64 = 100.0;
/// perftest's output when it starts to wait.
const RESTS: &str = "before releasing resources";

/// Both ends of `ib_send_bw`, connected and done, and the daemons.
#[derive(Clone, Copy, Debug)]
pub struct Idle;

impl Program for Idle {
    fn name(&self) -> String {
        "two connected programs and their daemons, idle".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        format!("weft run -- ib_send_bw -n 1000 --wait_destroy={} SERVER", HELD.as_secs())
    }

    fn unit(&self) -> Unit {
        Unit::Percent
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("ib_send_bw", "perftest")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let pair = Pair::new("ib_send_bw", &format!("-n 1000 --wait_destroy={}", HELD.as_secs())).devices(lab)?;
        let mut server = pair.start_server(lab)?;
        let mut client = pair.start_client(lab)?;
        // A program's output to a file appears only when flushed, so silence shows the end of the traffic.
        let rests = client.wait_until(RESTS_WITHIN, |p| p.text().contains(RESTS) || quiet(lab));
        ensure!(rests, "the client never became idle: {}", client.kill().report());
        std::thread::sleep(SETTLES);
        let (before, since) = (ticks_of(lab), Instant::now());
        std::thread::sleep(WATCH);
        ensure!(client.running() && server.running(), "a program ended too early: {}", client.kill().report());
        let used = ticks_of(lab).context("no process is left")? - before.context("there is no process")?;
        Ok(used as f64 / TICKS_PER_SECOND / since.elapsed().as_secs_f64() * 100.0)
    }
}

/// Whether no process of the lab uses the processor for a while.
fn quiet(lab: &Lab) -> bool {
    let before = ticks_of(lab);
    std::thread::sleep(Duration::from_millis(500));
    before.is_some_and(|ticks| ticks > 0) && before == ticks_of(lab)
}

/// Returns the processor time of all processes in the lab.
fn ticks_of(lab: &Lab) -> Option<u64> {
    let pids = lab.sides().iter().flat_map(|side| lab.pids(side));
    let ticks: Vec<_> =
        pids.filter_map(|pid| ticks(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect();
    if ticks.is_empty() { None } else { Some(ticks.iter().sum()) }
}

/// Returns user and system time from a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_of_a_process_count() {
        let stat = "7 (ib_send_bw) (x) S 1 7 7 0 -1 4194560 900 0 0 0 31 11 0 0 20 0 2 0 100 9000 200";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (ib_send_bw"), None);
    }
}
