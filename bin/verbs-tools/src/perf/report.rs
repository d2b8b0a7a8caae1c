//! Results as a table and as JSON.

use serde_json::{Value, json};

use super::histogram::Histogram;
use super::measure::Throughput;
use super::{Case, Metric};

/// Result of a case.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Result of a bandwidth or rate case.
    Flood {
        /// Messages that arrived, and their time.
        arrived: Throughput,
        /// Number of messages sent.
        sent: u64,
    },
    /// Result of a latency case.
    Latency {
        /// All latencies in nanoseconds.
        histogram: Histogram,
        /// Number of messages without an answer.
        lost: u64,
    },
}

/// A case with its result.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The case.
    pub case: Case,
    /// The result.
    pub outcome: Outcome,
}

/// Header of the table.
pub const HEAD: &str = "transport  operation       size  metric             result\n";

impl Measured {
    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.messages_per_second() * f64::from(self.case.size)
    }

    /// Messages per second.
    pub fn messages_per_second(&self) -> f64 {
        match &self.outcome {
            Outcome::Flood { arrived, .. } if !arrived.took.is_zero() => {
                arrived.messages as f64 / arrived.took.as_secs_f64()
            }
            _ => 0.0,
        }
    }

    /// The latency in nanoseconds that this share of all messages does not exceed.
    pub fn latency_ns(&self, share: f64) -> u64 {
        match &self.outcome {
            Outcome::Latency { histogram, .. } => histogram.quantile(share),
            Outcome::Flood { .. } => 0,
        }
    }

    /// The result as a line of the table.
    pub fn line(&self) -> String {
        let Case { op, transport, metric, size, .. } = self.case;
        format!("{:<9}  {:<9} {size:>10}  {:<9}  {}\n", transport.name(), op.name(), metric.name(), self.result())
    }

    fn result(&self) -> String {
        match &self.outcome {
            Outcome::Flood { arrived, sent } => {
                let (bytes, messages) = (self.bytes_per_second(), self.messages_per_second());
                let mut text = match self.case.metric {
                    Metric::Rate => format!("{:>10}  ({})", rate(messages), bandwidth(bytes)),
                    _ => format!("{:>10}  ({:.2} GB/s, {})", bandwidth(bytes), bytes / 1e9, rate(messages)),
                };
                if arrived.messages < *sent {
                    let share = (sent - arrived.messages) as f64 / *sent as f64 * 100.0;
                    text += &format!(", {share:.1}% not received");
                }
                text
            }
            Outcome::Latency { histogram: h, lost } => {
                let us = |ns: u64| ns as f64 / 1000.0;
                let median = format!("{:.2} us", us(h.quantile(0.5)));
                let mut text = format!(
                    "{median:>10}  (median; min {:.2}, mean {:.2}, 99% {:.2}, 99.9% {:.2}, max {:.2})",
                    us(h.min()),
                    h.mean() / 1000.0,
                    us(h.quantile(0.99)),
                    us(h.quantile(0.999)),
                    us(h.max())
                );
                if *lost > 0 {
                    text += &format!(", {lost} lost");
                }
                text
            }
        }
    }

    /// The distribution of latencies as a bar chart.
    pub fn bars(&self) -> String {
        match &self.outcome {
            Outcome::Latency { histogram, .. } => histogram.bars(),
            Outcome::Flood { .. } => String::new(),
        }
    }

    /// The result as JSON.
    pub fn json(&self) -> Value {
        let Case { op, transport, metric, size, depth, qps, seconds } = self.case;
        let mut value = json!({
            "operation": op.name(), "transport": transport.name(), "metric": metric.name(),
            "size": size, "depth": depth, "qps": qps, "seconds": seconds,
        });
        match &self.outcome {
            Outcome::Flood { arrived, sent } => {
                value["bytes_per_second"] = self.bytes_per_second().into();
                value["messages_per_second"] = self.messages_per_second().into();
                value["messages_sent"] = (*sent).into();
                value["messages_received"] = arrived.messages.into();
            }
            Outcome::Latency { histogram: h, lost } => {
                value["messages"] = h.count().into();
                value["messages_lost"] = (*lost).into();
                value["latency_ns"] = json!({
                    "min": h.min(), "mean": h.mean(), "p50": h.quantile(0.5), "p90": h.quantile(0.9),
                    "p99": h.quantile(0.99), "p999": h.quantile(0.999), "max": h.max(),
                });
                value["histogram_ns"] = h.octaves().iter().map(|(upper, n)| json!([upper, n])).collect();
            }
        }
        value
    }
}

/// Formats bytes per second as bits per second with a unit.
pub fn bandwidth(bytes_per_second: f64) -> String {
    match bytes_per_second * 8.0 {
        bits if bits >= 1e9 => format!("{:.2} Gb/s", bits / 1e9),
        bits => format!("{:.2} Mb/s", bits / 1e6),
    }
}

/// Formats messages per second with a unit.
pub fn rate(per_second: f64) -> String {
    match per_second {
        n if n >= 1e6 => format!("{:.2} M/s", n / 1e6),
        n => format!("{:.1} k/s", n / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, Transport};
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_is_told_in_both_units() {
        let case = Case::new(Operation::Write, Transport::Rc, Metric::Bw, 65536, 1.0);
        let arrived = Throughput { messages: 10_000, took: Duration::from_secs(1) };
        let measured = Measured { case, outcome: Outcome::Flood { arrived, sent: 20_000 } };
        let line = measured.line();
        assert_eq!(
            line,
            "RC         write          65536  bandwidth   5.24 Gb/s  (0.66 GB/s, 10.0 k/s), 50.0% not received\n"
        );
        assert_eq!(measured.json()["messages_received"], 10_000);
        assert_eq!(HEAD.find("metric"), line.find("bandwidth"));
    }

    #[test]
    fn a_latency_is_told_by_its_median() {
        let case = Case::new(Operation::Send, Transport::Ud, Metric::Lat, 8, 1.0);
        let mut histogram = Histogram::default();
        (1..=9).for_each(|n| histogram.add(n));
        let measured = Measured { case, outcome: Outcome::Latency { histogram, lost: 1 } };
        assert!(measured.line().contains("0.01 us  (median; min 0.00"), "{}", measured.line());
        assert!(measured.line().ends_with(", 1 lost\n"));
        assert_eq!(measured.json()["latency_ns"]["p50"], 5);
    }
}
