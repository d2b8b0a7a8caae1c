//! Retries for clients that request a connection before their server listens. Nothing can prevent that: perftest
//! connects twice, its server stops listening in between, and neither waits for the other. The server rejects a client
//! that loses this race, rightly, and the test runs it again. The same holds for a sender that allows no retries and
//! sends before the receiver has posted a receive.

use anyhow::Result;
use std::time::Duration;

/// Messages of rejected programs.
pub const REFUSED: &[&str] = &[
    "REJECTED",
    "UNREACHABLE",
    "Failed to connect RDMA CM events",
    "unexpected event from RDMA CM: Event rejected",
    "connect error",
];

/// Other ways in which perftest of this Debian release ends after a rejection: it continues with freed memory.
pub const FREED: &[&str] = &["signal 6", "signal 11", "was killed after"];

/// Messages of fio when the receiver is not ready.
pub const UNREADY: &[&str] = &["RNR retry counter exceeded"];

/// Pause before the next try.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a closure, which gets the number of earlier tries, until it succeeds or fails for another reason than `signs`,
/// at most `tries` times.
pub fn until_late_enough<T>(tries: u32, signs: &[&[&str]], mut run: impl FnMut(u32) -> Result<T>) -> Result<T> {
    let too_early = |error: &anyhow::Error| {
        let text = format!("{error:#}");
        signs.iter().copied().flatten().any(|sign| text.contains(sign))
    };
    for tried in 0..tries.saturating_sub(1) {
        match run(tried) {
            Err(error) if too_early(&error) => std::thread::sleep(PAUSE),
            ended => return ended,
        }
    }
    run(tries.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_runs_again_and_who_fails_otherwise_does_not() {
        let run = |fails: u32, how: &'static str| {
            let mut runs = 0;
            let ended = until_late_enough(3, &[REFUSED, FREED], |tried| {
                assert_eq!(tried, runs);
                runs += 1;
                if tried < fails { Err(anyhow::anyhow!(how)) } else { Ok(tried) }
            });
            (ended.ok(), runs)
        };
        assert_eq!(run(1, "RDMA_CM_EVENT_REJECTED"), (Some(1), 2));
        assert_eq!(run(9, "died by signal 11"), (None, 3));
        assert_eq!(run(1, "wrong bytes"), (None, 1));
    }
}
