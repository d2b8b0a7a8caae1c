//! Sleeps per completion of a program that waits for events: how often its threads, including the library's, went to
//! sleep.

use super::perftest::{Amount, Perftest};
use super::program::{Program, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result};
use weft_interop::Pair;

/// Seconds that the client may take.
const PATIENCE: u64 = 60;
/// A round of a ping-pong completes one send and one receive.
const COMPLETIONS_PER_ROUND: f64 = 2.0;
/// Runs a program and prints the voluntary context switches of all its threads.
const COUNT: &str = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); \
                     print('sleeps', resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw); sys.exit(code)";

/// The sleeps of a latency test's client per completion.
#[derive(Clone, Copy, Debug)]
pub struct Sleeps {
    pub of: Perftest,
}

impl Sleeps {
    fn rounds(&self) -> f64 {
        match self.of.amount {
            Amount::Messages(count) => count as f64,
            Amount::Seconds => f64::NAN,
        }
    }
}

impl Program for Sleeps {
    fn name(&self) -> String {
        format!("{}: sleeps", self.of.name())
    }

    fn command(&self, seconds: u32) -> String {
        format!("perf stat -e context-switches {}", self.of.command(seconds))
    }

    fn unit(&self) -> Unit {
        Unit::SleepsPerCompletion
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("python3", "python3").or(self.of.missing())
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let pair = Pair::new(self.of.tool, &self.of.arguments(room.seconds)).devices(lab)?;
        let mut pair = pair.within(PATIENCE);
        pair.server = room.on_server_core(&pair.server);
        let counted = ["python3", "-c", COUNT].map(str::to_owned).into_iter();
        pair.client = counted.chain(room.on_client_core(&pair.client)).collect();
        let outcome = pair.succeed(lab)?;
        let sleeps = sleeps(&outcome.client.text).with_context(|| format!("no count: {}", outcome.report()))?;
        Ok(sleeps / (self.rounds() * COMPLETIONS_PER_ROUND))
    }
}

/// Reads the number that [`COUNT`] printed.
fn sleeps(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("sleeps ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_behind_the_table() {
        assert_eq!(sleeps(" #bytes #iterations\n 8 20000\nsleeps 21477\n"), Some(21477.0));
        assert_eq!(sleeps("sleeps\n"), None);
    }
}
