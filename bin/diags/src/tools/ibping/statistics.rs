//! The statistics of all requests.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::ib::address::PortId;
use crate::output;

/// Numbers of requests and answers, and round-trip times.
#[derive(Clone, Debug)]
pub struct Statistics {
    to: PortId,
    start: Instant,
    /// The host name in the first answer.
    host: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests without an answer.
    pub lost: u64,
    replied: u32,
    least: Duration,
    most: Duration,
    total: Duration,
}

/// Milliseconds with three decimals.
pub fn ms(time: Duration) -> String {
    let us = time.as_micros();
    format!("{}.{:03}", us / 1000, us % 1000)
}

impl Statistics {
    /// Empty statistics.
    pub fn new(to: PortId, start: Instant) -> Statistics {
        Statistics {
            to,
            start,
            host: String::new(),
            sent: 0,
            lost: 0,
            replied: 0,
            least: Duration::MAX,
            most: Duration::ZERO,
            total: Duration::ZERO,
        }
    }

    /// Counts an answer.
    pub fn count(&mut self, host: String, time: Duration) {
        if self.host.is_empty() {
            self.host = host;
        }
        self.replied = self.replied.saturating_add(1);
        self.least = self.least.min(time);
        self.most = self.most.max(time);
        self.total += time;
    }

    /// Prints the statistics.
    pub fn print(&self, now: Instant, is_json: bool) {
        let took = now.saturating_duration_since(self.start);
        output::print(&if is_json { format!("{}\n", self.json(took)) } else { self.text(took) });
    }

    fn times(&self) -> [Duration; 3] {
        let least = if self.replied == 0 { Duration::ZERO } else { self.least };
        [least, self.total.checked_div(self.replied).unwrap_or_default(), self.most]
    }

    fn loss(&self) -> u64 {
        (self.lost * 100).checked_div(self.sent).unwrap_or(0)
    }

    fn text(&self, took: Duration) -> String {
        let [least, average, most] = self.times().map(ms);
        format!(
            "\n--- {} ({}) ibping statistics ---\n{} packets transmitted, {} received, {}% packet loss, time {} ms\n\
             rtt min/avg/max = {least}/{average}/{most} ms\n",
            self.host,
            self.to,
            self.sent,
            self.replied,
            self.loss(),
            took.as_millis(),
        )
    }

    fn json(&self, took: Duration) -> serde_json::Value {
        let [least, average, most] = self.times().map(|time| time.as_secs_f64() * 1e3);
        json!({
            "host": self.host, "address": self.to.to_string(), "transmitted": self.sent, "received": self.replied,
            "loss_percent": self.loss(), "time_ms": took.as_millis() as u64,
            "rtt_min_ms": least, "rtt_avg_ms": average, "rtt_max_ms": most,
        })
    }
}

/// Prints the statistics on SIGINT or SIGTERM and exits with success.
pub fn report_on_signal(statistics: Arc<Mutex<Statistics>>, is_json: bool) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the code empties the set before it uses it; the calls take valid sets.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: the set is valid and all threads block its signals.
        if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
            let statistics = statistics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            statistics.print(Instant::now(), is_json);
            std::process::exit(0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_printed_as_the_original_does() {
        let mut all = Statistics::new(PortId::lid(8), Instant::now());
        let took = Duration::from_micros(2_000_400);
        assert!(all.text(took).ends_with("rtt min/avg/max = 0.000/0.000/0.000 ms\n"));
        all.sent = 3;
        all.lost = 1;
        all.count("vm".to_owned(), Duration::from_micros(19));
        all.count("vm".to_owned(), Duration::from_micros(1014));
        assert_eq!(
            all.text(took),
            "\n--- vm (Lid 8) ibping statistics ---\n3 packets transmitted, 2 received, 33% packet loss, time 2000 ms\n\
             rtt min/avg/max = 0.019/0.516/1.014 ms\n"
        );
    }
}
